from django.db import migrations, models

from django_agent_sessions.sql.add_column import AddColumn


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0009_message_keys")]

    operations = [
        AddColumn(
            model_name="session",
            name="cache_read_tokens",
            field=models.BigIntegerField(
                editable=False, null=True, verbose_name="tokens read from cache"
            ),
        ),
        AddColumn(
            model_name="session",
            name="cache_write_tokens",
            field=models.BigIntegerField(
                editable=False, null=True, verbose_name="tokens written to cache"
            ),
        ),
    ]
