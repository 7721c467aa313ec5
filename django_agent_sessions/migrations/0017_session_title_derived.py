from django.db import migrations, models

from django_agent_sessions.sql.add_column import AddColumn


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0016_owner_removed")]

    operations = [
        AddColumn(
            model_name="session",
            name="title_derived",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
    ]
