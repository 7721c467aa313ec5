from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0004_session_errors")]

    operations = [
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                fields=["has_errors", "-last_activity_at", "-id"],
                name="agent_sessions_session_errors",
            ),
        ),
    ]
