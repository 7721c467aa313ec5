from django.db import migrations

from django_agent_sessions.sql.triggers import HOLD

_TABLES = [f"agent_sessions_{model}" for model in ("heldcopy", "messagefeedback", "note", "label")]


def create_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for trigger in HOLD:
            if trigger.table in _TABLES:
                schema_editor.execute(trigger.create, params=None)


class Migration(migrations.Migration):
    # One table after the other, so that none is locked while another is waited for.
    atomic = False

    dependencies = [("agent_sessions", "0023_one_payload")]

    operations = [
        migrations.RunPython(
            create_triggers, migrations.RunPython.noop, hints={"model_name": "session"}
        ),
    ]
