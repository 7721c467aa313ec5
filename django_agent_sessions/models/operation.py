"""Operations on all sessions that a list's filters match, which run in the background."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.local_time import to_local_time

LEASE = timedelta(seconds=60)
"""How long the process of an operation may write nothing, before another one may take it."""


class Operation(models.Model):
    """An export, hold, release, redaction or deletion of all sessions that match.

    It names sessions and users by value, because it outlives them.
    """

    class Kind(models.TextChoices):
        EXPORT = "export", _("Export as JSON Lines")
        HOLD = "hold", _("Put under legal hold")
        RELEASE = "release", _("Release from legal hold")
        REDACT = "redact", _("Redact")
        DELETE = "delete", _("Delete")

    class Status(models.TextChoices):
        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        STOPPED = "stopped", _("stopped")
        DONE = "done", _("done")
        CANCELLED = "cancelled", _("cancelled")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(_("what"), max_length=16, choices=Kind)
    status = models.CharField(_("status"), max_length=16, choices=Status, default=Status.WAITING)
    started_by = models.CharField(_("key of who started it"), max_length=255)
    started_by_name = models.CharField(_("started by"), max_length=255, blank=True)
    reason = models.TextField(_("reason"), blank=True, default="")
    #: The list's filters, by the names of their parameters.
    criteria = models.JSONField(_("criteria"), default=dict)
    #: What the list's search had found, instead of its words; NULL without a search.
    found = models.JSONField(_("sessions found"), null=True)
    #: What to redact, sealed as content is; emptied at the end.
    scope = models.TextField(_("what to redact"), blank=True, default="")
    #: Sessions that are created later do not belong to it.
    created_at = models.DateTimeField(_("started"), default=timezone.now)
    finished_at = models.DateTimeField(_("finished"), null=True)
    cursor = models.UUIDField(_("last session"), null=True)
    matched = models.PositiveIntegerField(_("sessions that match"), null=True)
    done = models.PositiveIntegerField(_("done"), default=0)
    unchanged = models.PositiveIntegerField(_("nothing to do"), default=0)
    skipped = models.PositiveIntegerField(_("skipped"), default=0)
    failed = models.PositiveIntegerField(_("failed"), default=0)
    #: Keys and codes of the first sessions that were skipped or failed.
    report = models.JSONField(_("report"), default=list)
    files = models.PositiveIntegerField(_("files"), default=0)
    problem = models.CharField(_("why it stopped"), max_length=64, blank=True, default="")
    runner = models.UUIDField(null=True, editable=False)
    heartbeat_at = models.DateTimeField(null=True, editable=False)

    content_columns = ContentColumns(
        "operation",
        {
            "reason": ContentKind.AUDIT,
            "scope": ContentKind.DATA,
            "criteria": ContentKind.NONE,
            "found": ContentKind.NONE,
            "report": ContentKind.NONE,
            "kind": ContentKind.NONE,
            "status": ContentKind.NONE,
            "started_by": ContentKind.NONE,
            "started_by_name": ContentKind.NONE,
            "problem": ContentKind.NONE,
        },
        session=None,
    )

    class Meta:
        verbose_name = _("operation")
        verbose_name_plural = _("operations")
        ordering = ["-id"]
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {to_local_time(self.created_at):%Y-%m-%d %H:%M}"

    @property
    def handled(self) -> int:
        """The number of sessions that are behind the cursor."""
        return self.done + self.unchanged + self.skipped + self.failed

    @property
    def is_over(self) -> bool:
        """Whether it is done or cancelled."""
        return self.status in (self.Status.DONE, self.Status.CANCELLED)

    def status_at(self, now: datetime) -> Status:
        """Return the state; a running operation whose process has died is stopped."""
        if self.status == self.Status.RUNNING and not self._is_alive(now):
            return self.Status.STOPPED
        return self.Status(self.status)

    def _is_alive(self, now: datetime) -> bool:
        return self.heartbeat_at is not None and self.heartbeat_at > now - LEASE
