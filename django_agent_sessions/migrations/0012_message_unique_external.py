from django.db import migrations

from django_agent_sessions.models.constraints import UniqueWhereSet
from django_agent_sessions.sql.add_constraint import AddUniqueWhereSet


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0011_usage_cached_tokens")]

    operations = [
        AddUniqueWhereSet(
            model_name="sessionmessage",
            constraint=UniqueWhereSet(
                fields=("agent", "external_id", "branch", "session"),
                optional="external_id",
                name="agent_sessions_message_unique_external",
            ),
        ),
    ]
