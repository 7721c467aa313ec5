from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0006_usage_errors")]

    operations = [migrations.DeleteModel(name="SavedView")]
