from django.db import migrations, models

from django_agent_sessions.sql.add_column import AddColumn


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0010_session_cached_tokens")]

    operations = [
        AddColumn(
            model_name="usagerollup",
            name="cache_read_tokens",
            field=models.BigIntegerField(null=True, verbose_name="tokens read from cache"),
        ),
        AddColumn(
            model_name="usagerollup",
            name="cache_write_tokens",
            field=models.BigIntegerField(null=True, verbose_name="tokens written to cache"),
        ),
    ]
