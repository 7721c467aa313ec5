"""Rows of usage for hours, so that pages show the days of the reader's time zone.

Figures that are counted by then keep their rows of days. Their hours are unknown: each day is also
stored as its hour from 11:00 UTC, which has the same date from UTC-11 to UTC+12:45.
``agent_sessions_roll_up_usage --rebuild`` counts the existing messages again, by their hours.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

HOURS = {
    "day": "hour",
    "agent": "agent_hour",
    "model": "model_hour",
    "namespace": "namespace_hour",
}
HOUR = 11
BATCH = 1000


def add_hours(apps: Any, schema_editor: Any) -> None:
    rows = apps.get_model("agent_sessions", "UsageRollup").objects.using(
        schema_editor.connection.alias
    )
    days, last = rows.filter(dimension__in=HOURS).order_by("pk"), 0
    while batch := list(days.filter(pk__gt=last)[:BATCH]):
        last = batch[-1].pk
        for row in batch:
            row.pk, row.hour, row.dimension = None, HOUR, HOURS[row.dimension]
        rows.bulk_create(batch)


def delete_hours(apps: Any, schema_editor: Any) -> None:
    rows = apps.get_model("agent_sessions", "UsageRollup").objects
    rows.using(schema_editor.connection.alias).filter(dimension__in=HOURS.values()).delete()


class Migration(migrations.Migration):
    dependencies = [("agent_sessions", "0001_initial")]

    operations = [
        migrations.RemoveConstraint(model_name="usagerollup", name="agent_sessions_usage_unique"),
        migrations.AddField(
            model_name="usagerollup",
            name="hour",
            field=models.PositiveSmallIntegerField(default=0, verbose_name="hour"),
        ),
        migrations.AlterField(
            model_name="usagerollup",
            name="dimension",
            field=models.CharField(
                choices=[
                    ("day", "day"),
                    ("agent", "agent"),
                    ("owner", "owner"),
                    ("model", "model"),
                    ("namespace", "namespace"),
                    ("owner_day", "owner of a day"),
                    ("hour", "hour"),
                    ("agent_hour", "agent of an hour"),
                    ("model_hour", "model of an hour"),
                    ("namespace_hour", "namespace of an hour"),
                ],
                max_length=16,
                verbose_name="dimension",
            ),
        ),
        migrations.AddConstraint(
            model_name="usagerollup",
            constraint=models.UniqueConstraint(
                fields=("dimension", "period", "key", "hour"), name="agent_sessions_usage_unique"
            ),
        ),
        # The hints are for routers that decide by the model.
        migrations.RunPython(add_hours, delete_hours, hints={"model_name": "usagerollup"}),
    ]
