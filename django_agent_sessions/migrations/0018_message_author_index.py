from django.db import migrations

from django_agent_sessions.models.constraints import IndexWhereNotEmpty


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0017_session_title_derived")]

    operations = [
        migrations.AddIndex(
            model_name="sessionmessage",
            index=IndexWhereNotEmpty(fields=["author"], name="agent_sessions_message_author"),
        ),
    ]
