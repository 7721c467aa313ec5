"""The tables: sessions, their agents, messages and orchestrators. Schema and constraints only.

The names are those of the Strands session data model, which the tables mirror field for field. A
``Session`` here is an AI agent's, not the one of ``django.contrib.sessions``.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models.deletion import Collector
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from .exceptions import AuditError, LegalHoldError
from .fields import ExactJSONField, IdField
from .ids import new_id
from .querysets import (
    AuditQuerySet,
    MessageQuerySet,
    RowQuerySet,
    SessionQuerySet,
    refuse_held,
)

MAIN_BRANCH = 0
"""The branch that an agent's conversation is on unless somebody went back in time."""


def cascade_unless_held(
    collector: Collector, field: models.Field[Any, Any], sub_objs: Any, using: str
) -> None:
    """Deletes a user's sessions with the user, unless one is under legal hold; an ``on_delete``.

    Raises:
        LegalHoldError: One is. Django makes a ``ProtectedError`` of it that names the sessions,
            and the admin shows its usual page of what is protected.
    """
    if held := list(sub_objs.filter(legal_hold=True)):
        raise LegalHoldError("the user owns sessions under legal hold; release them first", held)
    if hasattr(collector, "add_edge"):
        # The admin's page, which lists what would be deleted. It would read every message whole.
        for session in sub_objs:
            collector.add_edge(getattr(session, field.name), session)
        collector.add(sub_objs)
    else:
        models.CASCADE(collector, field, sub_objs, using)


class Session(models.Model):
    """A conversation, or a group of agents that work together, with one owner."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = IdField(_("namespace"), blank=True, default="")
    session_id = IdField(_("session id"))
    session_type = models.CharField(_("type"), max_length=32, default="AGENT")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        null=True,
        blank=True,
        on_delete=cascade_unless_held,
        related_name="agent_sessions",
        # Two indexes below start with the owner.
        db_index=False,
    )
    # The one id that may be missing.
    external_id = IdField(  # type: ignore[misc]
        _("external id"), null=True, blank=True
    )
    title = models.CharField(_("title"), max_length=255, blank=True, default="")
    metadata = models.JSONField(_("metadata"), default=dict, blank=True)
    origin = models.JSONField(_("origin"), null=True, blank=True, editable=False)
    redaction_epoch = models.PositiveIntegerField(_("redactions"), default=0, editable=False)
    # Signed, because a check for "not below zero" could refuse a message for a figure's sake.
    message_count = models.IntegerField(_("messages"), default=0, editable=False)
    input_tokens = models.BigIntegerField(_("input tokens"), default=0, editable=False)
    output_tokens = models.BigIntegerField(_("output tokens"), default=0, editable=False)
    legal_hold = models.BooleanField(_("legal hold"), default=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)
    last_activity_at = models.DateTimeField(
        _("last activity"), default=timezone.now, editable=False
    )
    archived_at = models.DateTimeField(_("archived"), null=True, blank=True)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)

    objects = SessionQuerySet.as_manager()

    class Meta:
        verbose_name = _("agent session")
        verbose_name_plural = _("agent sessions")
        ordering = ["-last_activity_at", "-id"]
        # Beside Django's own: deleting needs `delete_session`, a legal hold `change_session`.
        permissions = [
            ("read_transcript", _("Can read what was said")),
            ("redact", _("Can redact what was said")),
            ("view_original", _("Can see the originals of redacted messages")),
            ("export", _("Can export conversations")),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "session_id"], name="agent_sessions_session_unique_id"
            ),
            models.UniqueConstraint(
                fields=["owner", "external_id"], name="agent_sessions_session_unique_external"
            ),
        ]
        indexes = [
            models.Index(fields=["-last_activity_at", "-id"], name="agent_sessions_session_recent"),
            models.Index(
                fields=["owner", "-last_activity_at", "-id"], name="agent_sessions_session_mine"
            ),
            models.Index(fields=["expires_at"], name="agent_sessions_session_expiry"),
            # For people who search by an id, in whatever namespace and whoever owns it.
            models.Index(fields=["session_id"], name="agent_sessions_session_name"),
            models.Index(fields=["external_id"], name="agent_sessions_session_client"),
        ]

    def __str__(self) -> str:
        # Not the title: that is content, and this ends up in logs, messages and other tables.
        return self.session_id

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Deletes the session with all that belongs to it, unless it is under legal hold.

        Raises:
            LegalHoldError: It is; nothing was deleted.
        """
        refuse_held(Session.objects.using(kwargs.get("using") or self._state.db).filter(pk=self.pk))
        return super().delete(*args, **kwargs)


class OfSession(models.Model):
    """What belongs to a session, and is held with it."""

    class Meta:
        abstract = True

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Deletes the row, unless its session is under legal hold.

        Raises:
            LegalHoldError: It is; nothing was deleted.
        """
        sessions = Session.objects.using(kwargs.get("using") or self._state.db)
        session: Any = self.session_id  # type: ignore[attr-defined] # each of them has it
        refuse_held(sessions.filter(pk=session))
        return super().delete(*args, **kwargs)


class SessionAgent(OfSession):
    """One agent of a session: its state, and the head of its conversation."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # The unique constraint below is an index on the session too.
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="agents", db_index=False
    )
    agent_id = IdField(_("agent id"))
    dialect = models.CharField(_("message format"), max_length=32)
    state = ExactJSONField(_("state"), default=dict)
    conversation_manager_state = ExactJSONField(_("conversation manager state"), default=dict)
    internal_state = ExactJSONField(_("internal state"), default=dict)
    window = ExactJSONField(_("window"), null=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    objects = RowQuerySet.as_manager()

    class Meta:
        verbose_name = _("agent")
        verbose_name_plural = _("agents")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "agent_id"], name="agent_sessions_agent_unique_id"
            ),
        ]

    def __str__(self) -> str:
        return self.agent_id


class SessionMessage(OfSession):
    """One message of an agent's conversation: the SDK's payload, and neutral columns beside it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # An index below starts with the session.
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="messages", db_index=False
    )
    # The unique constraint below is an index on the agent too.
    agent = models.ForeignKey(
        SessionAgent, on_delete=models.CASCADE, related_name="messages", db_index=False
    )
    branch = models.PositiveIntegerField(_("branch"), default=MAIN_BRANCH, editable=False)
    message_id = models.PositiveIntegerField(_("position"))
    run_id = models.UUIDField(_("run"), null=True, editable=False)
    revision = models.PositiveIntegerField(_("revision"), default=0, editable=False)
    message = ExactJSONField(_("message"))
    redact_message = ExactJSONField(_("redacted message"), null=True)
    role = models.CharField(_("role"), max_length=32, blank=True, default="")
    text = models.TextField(_("text"), blank=True, default="")
    input_tokens = models.BigIntegerField(_("input tokens"), null=True)
    output_tokens = models.BigIntegerField(_("output tokens"), null=True)
    latency_ms = models.BigIntegerField(_("latency in ms"), null=True)
    redacted_at = models.DateTimeField(_("redacted"), null=True, editable=False)
    # The audit event that tells by whom and why; a value, because the event outlives all else.
    redaction = models.UUIDField(_("redaction"), null=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    objects = MessageQuerySet.as_manager()

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering = ["agent", "branch", "message_id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "branch", "message_id"],
                name="agent_sessions_message_unique_position",
            ),
        ]
        indexes = [
            # All agents' messages in the order in which they were said: keys are made in time.
            models.Index(fields=["session", "id"], name="agent_sessions_message_time"),
        ]

    def __str__(self) -> str:
        return f"{self.role or _('message')} {self.message_id}"


class SessionMultiAgent(OfSession):
    """The state of an orchestrator (a graph, a swarm) of a session."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="multi_agents", db_index=False
    )
    multi_agent_id = IdField(_("orchestrator id"))
    kind = models.CharField(_("kind"), max_length=64, blank=True, default="")
    state = ExactJSONField(_("state"), default=dict)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    objects = RowQuerySet.as_manager()

    class Meta:
        verbose_name = _("orchestrator")
        verbose_name_plural = _("orchestrators")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "multi_agent_id"], name="agent_sessions_multi_unique_id"
            ),
        ]

    def __str__(self) -> str:
        return self.multi_agent_id


class Blob(models.Model):
    """A large binary of a session's messages: its file in a storage, once per session."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # The unique constraint below is an index on the session too.
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="blobs", db_index=False
    )
    sha256 = models.CharField(_("SHA-256"), max_length=64, editable=False)
    size = models.BigIntegerField(_("size in bytes"), editable=False)
    media_type = models.CharField(_("media type"), max_length=127, blank=True, editable=False)
    # By value: a project that moves to another storage still reads what is in the old one.
    storage = models.CharField(_("storage"), max_length=100, editable=False)
    file = models.CharField(_("file"), max_length=255, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = _("large binary")
        verbose_name_plural = _("large binaries")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "sha256"], name="agent_sessions_blob_unique_hash"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.media_type or _('binary')} {self.id}"


class BlobReference(models.Model):
    """That a message holds a binary. Of both ends only the session is a constraint.

    What a database constrained would have to be deleted with the messages, one by one.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="blob_references", db_index=False
    )
    message = models.UUIDField(_("message"), editable=False)
    blob = models.ForeignKey(
        Blob, on_delete=models.DO_NOTHING, related_name="references", db_constraint=False
    )

    class Meta:
        verbose_name = _("use of a large binary")
        verbose_name_plural = _("uses of large binaries")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "message", "blob"], name="agent_sessions_blobref_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.message} {self.blob_id}"


class AuditEvent(models.Model):
    """Who saw, redacted, exported, held or deleted what, and why. It is only ever added to.

    It holds no content, and refers to what it speaks of by value, so that it outlives that.
    """

    class Action(models.TextChoices):
        """What was done."""

        READ = "read", _("transcript read")
        SEARCHED = "searched", _("conversations searched")
        ORIGINAL_VIEWED = "original_viewed", _("original viewed")
        REDACTED = "redacted", _("redacted")
        ORIGINALS_PURGED = "originals_purged", _("originals purged")
        EXPORTED = "exported", _("exported")
        DELETED = "deleted", _("deleted")
        HELD = "held", _("put under legal hold")
        RELEASED = "released", _("released from legal hold")

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

    class Meta:
        # Also what Django itself goes through refuses to change or delete.
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
        ]

    def __str__(self) -> str:
        return f"{self.get_action_display()} {self.created_at:%Y-%m-%d %H:%M}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Adds the event.

        Raises:
            AuditError: It was added before.
        """
        if not self._state.adding:
            raise AuditError("an audit event cannot be changed")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Refuses.

        Raises:
            AuditError: Always; old events are purged with ``manage.py purge_audit_events``.
        """
        raise AuditError("an audit event cannot be deleted; see manage.py purge_audit_events")


class UsageRollup(models.Model):
    """Figures of one day of everybody, of one day of an agent, or of one month of an owner."""

    class Dimension(models.TextChoices):
        """Whose figures they are."""

        DAY = "day", _("day")
        AGENT = "agent", _("agent")
        OWNER = "owner", _("owner")

    dimension = models.CharField(_("dimension"), max_length=16, choices=Dimension)
    period = models.DateField(_("first day"))
    key = IdField(_("key"), blank=True, default="")
    sessions = models.BigIntegerField(_("sessions"), default=0)
    messages = models.BigIntegerField(_("messages"), default=0)
    input_tokens = models.BigIntegerField(_("input tokens"), default=0)
    output_tokens = models.BigIntegerField(_("output tokens"), default=0)
    latencies = models.JSONField(_("latencies"), default=dict, blank=True)

    class Meta:
        verbose_name = _("usage")
        verbose_name_plural = _("usage")
        ordering = ["dimension", "period", "key"]
        constraints = [
            models.UniqueConstraint(
                fields=["dimension", "period", "key"], name="agent_sessions_usage_unique"
            ),
        ]
        indexes = [
            models.Index(
                fields=["dimension", "period", "-messages"], name="agent_sessions_usage_most"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dimension} {self.period} {self.key}".strip()


class UsageCursor(models.Model):
    """How far the roll-up of usage has come: one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    message = models.UUIDField(_("last message counted"), null=True)
    session = models.UUIDField(_("last session counted"), null=True)
    counted_at = models.DateTimeField(_("counted"), null=True)

    class Meta:
        verbose_name = _("progress of the usage roll-up")
        verbose_name_plural = _("progress of the usage roll-up")

    def __str__(self) -> str:
        return f"{self.counted_at}"
