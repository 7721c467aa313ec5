from django.db import migrations, transaction

_BATCH = 2_000

# A stored payload left out the text of its row: in its place stood the text's length in bytes,
# between two of these control characters.
_VERBATIM, _ESCAPED = "\x1f", "\x1e"

_HELD = """
    SELECT set_config('agent_sessions.held', coalesce(string_agg(id::text, ' '), ''), true)
    FROM agent_sessions_session WHERE legal_hold
"""


def _whole(vendor):
    if vendor == "mysql":
        mark = "CONCAT('{0}', OCTET_LENGTH(text), '{0}')"
        escaped = "JSON_QUOTE(text)"
    else:
        size = "OCTET_LENGTH(text)" if vendor == "postgresql" else "LENGTH(CAST(text AS BLOB))"
        mark = f"'{{0}}' || {size} || '{{0}}'"
        escaped = "TO_JSON(text)::text" if vendor == "postgresql" else "JSON_QUOTE(text)"
    verbatim = f"REPLACE(message, {mark.format(_VERBATIM)}, text)"
    return f"REPLACE({verbatim}, {mark.format(_ESCAPED)}, {escaped})"


def store_whole_payloads(apps, schema_editor):
    """Put the text of a row back into its payload."""
    connection = schema_editor.connection
    table = "agent_sessions_sessionmessage"
    # As bytes, because a collation of MariaDB finds no control characters.
    text = "CAST(message AS BINARY)" if connection.vendor == "mysql" else "message"
    marked = f"{text} LIKE '%%{_VERBATIM}%%' OR {text} LIKE '%%{_ESCAPED}%%'"
    update = f"UPDATE {table} SET message = {_whole(connection.vendor)} WHERE ({marked})"  # noqa: S608 - our own names
    last = None
    with connection.cursor() as cursor:
        while True:
            after, keys = ("", []) if last is None else (" WHERE id > %s", [last])
            cursor.execute(f"SELECT id FROM {table}{after} ORDER BY id LIMIT {_BATCH}", keys)  # noqa: S608 - our own names
            if not (rows := cursor.fetchall()):
                return
            after, (end,) = " AND id > %s" if keys else "", rows[-1]
            with transaction.atomic(connection.alias):
                if connection.vendor == "postgresql":
                    cursor.execute(_HELD)
                cursor.execute(f"{update}{after} AND id <= %s", [*keys, end])
            last = end


class Migration(migrations.Migration):
    # A batch of rows after the other, so that writers do not wait for all of them.
    atomic = False

    dependencies = [("agent_sessions", "0021_view_held_copies")]

    operations = [
        migrations.RunPython(
            store_whole_payloads,
            migrations.RunPython.noop,
            hints={"model_name": "sessionmessage"},
            elidable=True,
        ),
    ]
