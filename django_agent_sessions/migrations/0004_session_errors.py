from django.db import migrations, models

from django_agent_sessions.sql.add_column import AddColumn


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0003_message_errors")]

    operations = [
        AddColumn(
            model_name="session",
            name="error_count",
            field=models.IntegerField(
                db_default=0, default=0, editable=False, verbose_name="errors"
            ),
        ),
        AddColumn(
            model_name="session",
            name="has_errors",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
    ]
