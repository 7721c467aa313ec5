"""Aggregated usage."""

from __future__ import annotations

from collections import Counter

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.models.fields import IdField
from django_agent_sessions.values.records import add_known


class UsageRollup(models.Model):
    """Usage per hour or day, in total or by agent, model or namespace; by owner, per day or month.

    Hours, days and months are in UTC. The rows of hours are for readers in other time zones: a page
    adds up the hours of the reader's days. Owners have no hours, because they are too many. Owners
    of a day are only those with the highest figures, once the day is over.
    """

    class Dimension(models.TextChoices):
        DAY = "day", _("day")
        AGENT = "agent", _("agent")
        OWNER = "owner", _("owner")
        MODEL = "model", _("model")
        NAMESPACE = "namespace", _("namespace")
        OWNER_DAY = "owner_day", _("owner of a day")
        HOUR = "hour", _("hour")
        AGENT_HOUR = "agent_hour", _("agent of an hour")
        MODEL_HOUR = "model_hour", _("model of an hour")
        NAMESPACE_HOUR = "namespace_hour", _("namespace of an hour")

        @classmethod
        def of_owners(cls) -> tuple[UsageRollup.Dimension, ...]:
            """Return the dimensions whose keys are owners."""
            return cls.OWNER, cls.OWNER_DAY

        @classmethod
        def of_hours(cls) -> dict[UsageRollup.Dimension, UsageRollup.Dimension]:
            """Return the dimensions of hours, by those of the days that they add up to."""
            return {
                cls.DAY: cls.HOUR,
                cls.AGENT: cls.AGENT_HOUR,
                cls.MODEL: cls.MODEL_HOUR,
                cls.NAMESPACE: cls.NAMESPACE_HOUR,
            }

    dimension = models.CharField(_("dimension"), max_length=16, choices=Dimension)
    period = models.DateField(_("first day"))
    #: 0 in rows of days and months.
    hour = models.PositiveSmallIntegerField(_("hour"), default=0)
    key = IdField(_("key"), blank=True, default="")
    sessions = models.BigIntegerField(_("sessions"), default=0)
    messages = models.BigIntegerField(_("messages"), default=0)
    #: Messages that report an error.
    errors = models.BigIntegerField(_("errors"), default=0, db_default=0)
    #: NULL if no SDK reported tokens.
    input_tokens = models.BigIntegerField(_("input tokens"), null=True)
    output_tokens = models.BigIntegerField(_("output tokens"), null=True)
    #: Of the input tokens, as in the session.
    cache_read_tokens = models.BigIntegerField(_("tokens read from cache"), null=True)
    cache_write_tokens = models.BigIntegerField(_("tokens written to cache"), null=True)
    #: In billionths; NULL if nothing that was counted has a price.
    cost = models.BigIntegerField(_("cost"), null=True)
    latencies = models.JSONField(_("latencies"), default=dict, blank=True)

    content_columns = ContentColumns(
        "usage",
        {
            "key": ContentKind.NONE,
            "dimension": ContentKind.NONE,
            "latencies": ContentKind.NONE,
        },
        session=None,
    )

    class Meta:
        verbose_name = _("usage")
        verbose_name_plural = _("usage")
        ordering = ["dimension", "period", "key"]
        constraints = [
            models.UniqueConstraint(
                fields=["dimension", "period", "key", "hour"], name="agent_sessions_usage_unique"
            ),
        ]
        indexes = [
            models.Index(
                fields=["dimension", "period", "-messages"], name="agent_sessions_usage_most"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dimension} {self.period} {self.key}".strip()

    def add(self, other: UsageRollup) -> None:
        """Add the figures of another row."""
        for field in self._meta.concrete_fields:
            if isinstance(field, models.BigIntegerField) and not field.primary_key:
                known = add_known(getattr(self, field.name), getattr(other, field.name))
                setattr(self, field.name, known)
        self.latencies = Counter(self.latencies) + Counter(other.latencies)


class UsageCursor(models.Model):
    """The progress of the usage roll-up: a single row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    message = models.UUIDField(_("last message counted"), null=True)
    session = models.UUIDField(_("last session counted"), null=True)
    counted_at = models.DateTimeField(_("counted"), null=True)
    #: The figures of the days before were deleted by their lifetime.
    first_kept = models.DateField(_("first day kept"), null=True)

    class Meta:
        verbose_name = _("progress of the usage roll-up")
        verbose_name_plural = _("progress of the usage roll-up")

    def __str__(self) -> str:
        return f"{self.counted_at}"
