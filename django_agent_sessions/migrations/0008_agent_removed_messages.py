from django.db import migrations, models

from django_agent_sessions.sql.add_column import AddColumn


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0007_delete_saved_view")]

    operations = [
        AddColumn(
            model_name="sessionagent",
            name="removed_messages",
            field=models.TextField(editable=False, null=True),
        ),
    ]
