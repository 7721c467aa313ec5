from django.db import migrations, models

from django_agent_sessions.sql.add_column import AddColumn


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0005_session_errors_index")]

    operations = [
        AddColumn(
            model_name="usagerollup",
            name="errors",
            field=models.BigIntegerField(db_default=0, default=0, verbose_name="errors"),
        ),
    ]
