from django.db import migrations

from django_agent_sessions.sql.triggers import HOLD


def create_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for trigger in HOLD:
            schema_editor.execute(trigger.create, params=None)


def drop_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for trigger in HOLD:
            schema_editor.execute(trigger.drop, params=None)


class Migration(migrations.Migration):
    # One table after the other, so that none is locked while another is waited for.
    atomic = False

    dependencies = [
        ("agent_sessions", "0019_held_copies"),
    ]

    operations = [
        migrations.RunPython(create_triggers, drop_triggers, hints={"model_name": "session"}),
    ]
