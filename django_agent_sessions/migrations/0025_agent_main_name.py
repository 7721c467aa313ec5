from django.db import migrations

import django_agent_sessions.models.fields
from django_agent_sessions.sql.add_column import AddColumn


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0024_hold_triggers_of_comments")]

    operations = [
        AddColumn(
            model_name="sessionagent",
            name="main_name",
            field=django_agent_sessions.models.fields.IdField(
                editable=False, max_length=255, null=True
            ),
        ),
    ]
