from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0014_usage_first_kept")]

    operations = [
        migrations.AlterModelOptions(
            name="operation",
            options={
                "default_permissions": ("view", "change"),
                "ordering": ["-id"],
                "verbose_name": "operation",
                "verbose_name_plural": "operations",
            },
        ),
    ]
