from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0013_files_to_delete")]

    operations = [
        migrations.AddField(
            model_name="usagecursor",
            name="first_kept",
            field=models.DateField(null=True, verbose_name="first day kept"),
        ),
    ]
