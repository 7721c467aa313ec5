from django.db import migrations, models

from django_agent_sessions.sql.add_column import AddColumn


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0002_usage_hours")]

    operations = [
        AddColumn(
            model_name="sessionmessage",
            name="has_error",
            field=models.BooleanField(db_default=False, default=False, verbose_name="error"),
        ),
    ]
