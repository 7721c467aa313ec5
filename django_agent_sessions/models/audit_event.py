"""The audit trail."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.exceptions import AuditError
from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.models.querysets import AuditQuerySet
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.local_time import to_local_time


class AuditEvent(models.Model):
    """Who viewed, redacted, exported, held or deleted what, and why. Append-only.

    It contains no message content and refers to rows by value, so that it outlives them.
    """

    class Action(models.TextChoices):
        READ = "read", _("transcript read")
        SEARCHED = "searched", _("conversations searched")
        HELD_COPIES_VIEWED = "held_copies_viewed", _("copies kept by a legal hold viewed")
        REDACTED = "redacted", _("redacted")
        EXPORTED = "exported", _("exported")
        DELETED = "deleted", _("deleted")
        HELD = "held", _("put under legal hold")
        RELEASED = "released", _("released from legal hold")
        FORKED = "forked", _("forked")
        REWOUND = "rewound", _("rewound to an earlier message")
        RESTORED = "restored", _("branch or snapshot restored")
        BRANCH_DELETED = "branch_deleted", _("branch deleted")
        ERASED = "erased", _("person erased")
        REPAIRED = "repaired", _("repaired by an integrity check")
        PRUNED = "pruned", _("deleted after its retention time")
        OPERATION = "operation", _("operation on all matches")
        NOTE_ADDED = "note_added", _("note added")
        NOTE_EDITED = "note_edited", _("note edited")
        NOTE_DELETED = "note_deleted", _("note deleted")
        LABELED = "labeled", _("labels changed")
        REVIEWED = "reviewed", _("review changed")
        PARTICIPANT_ADDED = "participant_added", _("participant added")
        PARTICIPANT_REMOVED = "participant_removed", _("participant removed")
        LINK_CREATED = "link_created", _("share link created")
        LINK_REVOKED = "link_revoked", _("share link revoked")
        OWNER_REMOVED = "owner_removed", _("kept without its deleted owner")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    action = models.CharField(_("action"), max_length=32, choices=Action)
    actor_id = models.CharField(_("actor's key"), max_length=255, blank=True, default="")
    actor = models.CharField(_("actor"), max_length=255, blank=True, default="")
    session = models.UUIDField(_("session"), null=True)
    target = models.UUIDField(_("target"), null=True)
    reason = models.TextField(_("reason"), blank=True, default="")
    details = models.JSONField(_("details"), default=dict, blank=True)
    created_at = models.DateTimeField(_("when"), default=timezone.now)

    objects = AuditQuerySet.as_manager()

    content_columns = ContentColumns(
        "event",
        {
            "reason": ContentKind.AUDIT,
            "details": ContentKind.NONE,
            "action": ContentKind.NONE,
            "actor": ContentKind.NONE,
            "actor_id": ContentKind.NONE,
        },
        session=None,
    )

    class Meta:
        # Django's own related-object access also uses the manager that rejects changes.
        base_manager_name = "objects"
        verbose_name = _("audit event")
        verbose_name_plural = _("audit events")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["session", "id"], name="agent_sessions_audit_session"),
            models.Index(fields=["target", "id"], name="agent_sessions_audit_target"),
            models.Index(fields=["actor_id", "id"], name="agent_sessions_audit_actor"),
            models.Index(fields=["actor", "id"], name="agent_sessions_audit_name"),
            models.Index(fields=["action", "id"], name="agent_sessions_audit_action"),
            models.Index(fields=["created_at"], name="agent_sessions_audit_time"),
        ]

    def __str__(self) -> str:
        return f"{self.get_action_display()} {to_local_time(self.created_at):%Y-%m-%d %H:%M}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AuditError("an audit event cannot be changed")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise AuditError(
            "an audit event cannot be deleted; see manage.py agent_sessions_purge_audit"
        )
