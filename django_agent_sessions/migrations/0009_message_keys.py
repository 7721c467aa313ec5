from django.db import migrations, models

from django_agent_sessions.models.fields import IdField
from django_agent_sessions.sql.add_column import AddColumn


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0008_agent_removed_messages")]

    operations = [
        AddColumn(
            model_name="sessionmessage",
            name="external_id",
            field=IdField(blank=True, max_length=255, null=True, verbose_name="external id"),
        ),
        AddColumn(
            model_name="sessionmessage",
            name="author",
            field=IdField(
                blank=True, db_default="", default="", max_length=255, verbose_name="author"
            ),
        ),
        AddColumn(
            model_name="sessionmessage",
            name="cache_read_tokens",
            field=models.BigIntegerField(null=True, verbose_name="tokens read from cache"),
        ),
        AddColumn(
            model_name="sessionmessage",
            name="cache_write_tokens",
            field=models.BigIntegerField(null=True, verbose_name="tokens written to cache"),
        ),
    ]
