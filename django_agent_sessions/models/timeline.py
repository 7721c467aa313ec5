"""Branches and snapshots of a conversation, the usage of its turns, and leases of sessions."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.models.fields import ExactJSONField, IdField
from django_agent_sessions.models.users import UserKey, cascade
from django_agent_sessions.values.ids import MAX_SCOPE_LENGTH, new_id

from .sessions import MAIN_BRANCH, Session, SessionAgent, SessionMultiAgent, SessionRelated


class Branch(SessionRelated):
    """A branch of an agent's conversation, with rows of its own for all its messages.

    The main branch, number 0, has no row.
    """

    class Kind(models.TextChoices):
        """How the branch was created."""

        REWOUND = "rewound", _("kept by a rewind")
        CONFLICT = "conflict", _("kept after a conflict with another writer")
        COMPACTED = "compacted", _("kept by a compaction")
        CREATED = "created", _("created")
        IMPORTED = "imported", _("imported")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="branches")
    # The unique constraints below are indexes on the agent too.
    agent = models.ForeignKey(
        SessionAgent, on_delete=models.CASCADE, related_name="branches", db_index=False
    )
    number = models.PositiveIntegerField(_("number"), editable=False)
    name = IdField(_("name"))
    kind = models.CharField(_("kind"), max_length=16, choices=Kind, default=Kind.CREATED)
    parent = models.PositiveIntegerField(_("parent branch"), default=MAIN_BRANCH, editable=False)
    #: Number of messages that it shared with its parent when it was created.
    start = models.PositiveIntegerField(_("first own message"), default=0, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "branch", {"name": ContentKind.ID, "kind": ContentKind.NONE}, name="number"
    )

    class Meta:
        verbose_name = _("branch")
        verbose_name_plural = _("branches")
        ordering = ["agent", "number"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "number"], name="agent_sessions_branch_unique_number"
            ),
            models.UniqueConstraint(
                fields=["agent", "name"], name="agent_sessions_branch_unique_name"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Snapshot(SessionRelated):
    """An agent's or orchestrator's state at one time. It refers to messages and contains none.

    ``messages`` lists the messages that the agent had in memory: ``[first, stop]`` are the
    positions of ``branch`` from ``first`` up to but not including ``stop``; ``{"message": …}`` is a
    message with another form than in the conversation (a summary, a shortened tool result), with
    the ``"position"`` of its original, if there is one.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="snapshots")
    # Exactly one of the two is set. The unique constraints below are indexes on them too.
    agent = models.ForeignKey(
        SessionAgent, on_delete=models.CASCADE, related_name="snapshots", null=True, db_index=False
    )
    multi_agent = models.ForeignKey(
        SessionMultiAgent,
        on_delete=models.CASCADE,
        related_name="snapshots",
        null=True,
        db_index=False,
    )
    #: Empty for the latest snapshot, which each save replaces.
    snapshot_id = IdField(_("snapshot id"), max_length=36, blank=True, default="")
    branch = models.PositiveIntegerField(_("branch"), default=MAIN_BRANCH, editable=False)
    messages = ExactJSONField(_("messages"), default=list, editable=False)
    length = models.PositiveIntegerField(_("position after its last message"), default=0)
    #: Primary key of the last message: if another message is at its position, it was deleted.
    tail = models.UUIDField(_("last message"), null=True, editable=False)
    #: The SDK's snapshot with null in place of the messages.
    document = ExactJSONField(_("document"), default=dict)
    revision = models.PositiveIntegerField(_("revision"), default=0, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "snapshot",
        {
            "document": ContentKind.DOCUMENT,
            "messages": ContentKind.REFERENCES,
            "snapshot_id": ContentKind.ID,
        },
        name="snapshot_id",
        stage=2,
        revision=True,
    )

    class Meta:
        verbose_name = _("snapshot")
        verbose_name_plural = _("snapshots")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "snapshot_id"], name="agent_sessions_snapshot_unique_agent"
            ),
            models.UniqueConstraint(
                fields=["multi_agent", "snapshot_id"], name="agent_sessions_snapshot_unique_multi"
            ),
        ]

    def __str__(self) -> str:
        return self.snapshot_id or str(_("latest"))


def object_digest(namespace: str, scope: str, owner: Any, key: str) -> str:
    """Return what identifies a stored object."""
    identity = [namespace, scope, None if owner is None else str(owner), key]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


class StoredObject(SessionRelated):
    """Bytes under a key of an SDK's storage, if they are not parsed as a snapshot.

    Objects with a session are deleted and redacted with it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = IdField(_("namespace"), blank=True, default="")
    scope = IdField(_("scope"), max_length=MAX_SCOPE_LENGTH, blank=True, default="")
    owner = UserKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        null=True,
        blank=True,
        on_delete=cascade,
        related_name="+",
    )
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="objects_stored", null=True
    )
    key = IdField(_("key"), max_length=700)
    # Of namespace, scope, owner and key, which together exceed the maximum size of an index.
    digest = models.CharField(_("digest"), max_length=64, unique=True, editable=False)
    size = models.BigIntegerField(_("size in bytes"), default=0, editable=False)
    revision = models.PositiveIntegerField(_("revision"), default=0, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "object",
        # The bytes are in the parts.
        {
            "data": ContentKind.BYTES,
            "key": ContentKind.ID,
            "namespace": ContentKind.NONE,
            "scope": ContentKind.NONE,
            "digest": ContentKind.NONE,
        },
        name="key",
        stage=3,
        revision=True,
    )

    class Meta:
        verbose_name = _("stored object")
        verbose_name_plural = _("stored objects")
        ordering = ["key"]
        indexes = [models.Index(fields=["key"], name="agent_sessions_object_key")]

    def __str__(self) -> str:
        return self.key


class StoredPart(SessionRelated):
    """A part of a stored object's bytes, which may exceed the maximum size of a statement."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    stored = models.ForeignKey(
        StoredObject, on_delete=models.CASCADE, related_name="parts", db_index=False
    )
    number = models.PositiveIntegerField(_("number"), editable=False)
    data = models.BinaryField(_("data"))

    # Read and written as a column of the stored object.
    content_columns = ContentColumns("part", {"data": ContentKind.BYTES}, session=None)

    class Meta:
        verbose_name = _("part of a stored object")
        verbose_name_plural = _("parts of stored objects")
        ordering = ["stored", "number"]
        constraints = [
            models.UniqueConstraint(
                fields=["stored", "number"], name="agent_sessions_part_unique_number"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.stored_id} {self.number}"


class TurnUsage(SessionRelated):
    """The usage of a turn of a conversation, as counted by an SDK."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="turns")
    # The unique constraint below is an index on the agent too.
    agent = models.ForeignKey(
        SessionAgent, on_delete=models.CASCADE, related_name="turns", db_index=False
    )
    branch = models.PositiveIntegerField(_("branch"), default=MAIN_BRANCH, editable=False)
    turn = models.PositiveIntegerField(_("turn"))
    requests = models.BigIntegerField(_("requests"), default=0)
    input_tokens = models.BigIntegerField(_("input tokens"), default=0)
    output_tokens = models.BigIntegerField(_("output tokens"), default=0)
    total_tokens = models.BigIntegerField(_("total tokens"), default=0)
    input_tokens_details = ExactJSONField(_("input tokens in detail"), null=True)
    output_tokens_details = ExactJSONField(_("output tokens in detail"), null=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "turn",
        {
            "input_tokens_details": ContentKind.NONE,
            "output_tokens_details": ContentKind.NONE,
        },
    )

    class Meta:
        verbose_name = _("usage of a turn")
        verbose_name_plural = _("usage of turns")
        ordering = ["agent", "branch", "turn"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "branch", "turn"], name="agent_sessions_turn_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.branch} {self.turn}"


class RedactedOriginal(models.Model):
    """A keyed digest of a redacted message's original, by which the original is recognized.

    It outlives the session, so that an import does not bring back what was redacted.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # By value. The unique constraint below is an index on the session too.
    session = models.UUIDField(_("session"), editable=False)
    digest = models.CharField(_("digest"), max_length=64, editable=False, db_index=True)
    message = models.UUIDField(_("message"), editable=False)

    content_columns = ContentColumns("original", {"digest": ContentKind.NONE}, session=None)

    class Meta:
        verbose_name = _("redacted original")
        verbose_name_plural = _("redacted originals")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "digest"], name="agent_sessions_original_unique"
            ),
        ]

    def __str__(self) -> str:
        return str(self.message)


class RunLease(models.Model):
    """The lease of a session's active run; another run may take it when it has expired."""

    session = models.OneToOneField(
        Session, on_delete=models.CASCADE, related_name="run_lease", primary_key=True
    )
    token = models.UUIDField(_("token"), default=new_id, editable=False)
    holder = models.CharField(_("holder"), max_length=255, blank=True, editable=False)
    acquired_at = models.DateTimeField(_("acquired"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), editable=False)

    content_columns = ContentColumns("lease", {"holder": ContentKind.NONE})

    class Meta:
        verbose_name = _("run lease")
        verbose_name_plural = _("run leases")

    def __str__(self) -> str:
        return self.holder
