from django.db import migrations

from django_agent_sessions.sql.triggers import HOLD

_TABLE = "agent_sessions_sessionmessage"


def keep_redacted_versions(apps, schema_editor):
    """Overwrite what is not shown of a redacted message."""
    connection = schema_editor.connection
    # A collation of MariaDB takes other letters for the same.
    binary = "BINARY " if connection.vendor == "mysql" else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT COUNT(*) FROM {_TABLE} WHERE redact_message <> {binary}message "  # noqa: S608 - our own names
            "AND session_id IN (SELECT id FROM agent_sessions_session WHERE legal_hold)"
        )
        (held,) = cursor.fetchone()
        if held:
            raise RuntimeError(
                f"{held} messages of sessions under legal hold have an original beside their "
                "redacted version, and this migration would remove it: export these sessions with "
                "the release that wrote them and release them, then migrate again"
            )
        cursor.execute(
            f"UPDATE {_TABLE} SET message = redact_message, "  # noqa: S608 - our own names
            "redacted_at = COALESCE(redacted_at, updated_at) WHERE redact_message IS NOT NULL"
        )


def restore_redacted_versions(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {_TABLE} SET redact_message = message WHERE redacted_at IS NOT NULL"  # noqa: S608 - our own names
        )


def create_trigger(apps, schema_editor):
    """Replace a trigger that names the column, which PostgreSQL would not drop."""
    if schema_editor.connection.vendor == "postgresql":
        for trigger in HOLD:
            if trigger.table == _TABLE:
                schema_editor.execute(trigger.create, params=None)


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0022_whole_payloads")]

    operations = [
        migrations.RunPython(
            keep_redacted_versions,
            restore_redacted_versions,
            hints={"model_name": "sessionmessage"},
        ),
        migrations.RunPython(
            create_trigger, migrations.RunPython.noop, hints={"model_name": "sessionmessage"}
        ),
        migrations.RemoveField(model_name="sessionmessage", name="redact_message"),
    ]
