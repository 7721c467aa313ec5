"""Sessions, their agents, messages and orchestrators."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models.deletion import Collector
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.models import deletion, removal
from django_agent_sessions.models.constraints import IndexWhereNotEmpty, UniqueWhereSet
from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.models.fields import (
    ContentJSONField,
    ContentTextField,
    ExactJSONField,
    IdField,
)
from django_agent_sessions.models.querysets import (
    AgentQuerySet,
    MessageQuerySet,
    SessionQuerySet,
)
from django_agent_sessions.models.titles import opening_words
from django_agent_sessions.models.users import UserKey, users_are_beside
from django_agent_sessions.values.ids import MAX_SCOPE_LENGTH, SessionKey, new_id

MAIN_BRANCH = 0
"""The number of the branch that every conversation begins on."""


def cascade_unless_held(
    collector: Collector, field: models.Field[Any, Any], sub_objs: Any, using: str
) -> None:
    """Delete a user's sessions with the user; an ``on_delete``.

    If a session is under legal hold, Django makes a plain ``ProtectedError`` of the error. Sessions
    in another database are deleted after the user, and with ``KEEP_SESSIONS_OF_DELETED_USERS`` they
    are kept: see ``governance.owner_removal``.
    """
    beside = users_are_beside(bridge.database())
    if not beside:
        # The admin's confirmation page would join the users.
        sub_objs = sub_objs.using(bridge.database()).select_related(None)
    sub_objs = sub_objs.defer(*deletion.ENCRYPTED)
    if not sub_objs:
        return
    removal.check_removable(sub_objs, "the user owns sessions")
    if conf.get_settings().KEEP_SESSIONS_OF_DELETED_USERS:
        return
    if hasattr(collector, "add_edge") and hasattr(collector, "model_objs"):
        # The admin's confirmation page: CASCADE would read every message completely.
        users: Any = field.related_model
        owners = {owner.pk: owner for owner in collector.data.get(users, ())}
        for session in sub_objs:
            owner = owners.get(session.owner_id) or getattr(session, field.name)
            collector.add_edge(owner, session)
            # The page shows their number.
            collector.model_objs[Session].add(session)
        collector.add(sub_objs)
    elif beside:
        models.CASCADE(collector, field, sub_objs, using)


cascade_unless_held.lazy_sub_objs = True  # type: ignore[attr-defined] # read by Django


class Session(models.Model):
    """A conversation, or a group of agents that work together, with one owner."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    namespace = IdField(_("namespace"), blank=True, default="")
    scope = IdField(_("scope"), max_length=MAX_SCOPE_LENGTH, blank=True, default="")
    session_id = IdField(_("session id"))
    session_type = models.CharField(_("type"), max_length=32, default="AGENT")
    owner = UserKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        null=True,
        blank=True,
        on_delete=cascade_unless_held,
        related_name="owned_agent_sessions",
        # Two indexes below start with the owner.
        db_index=False,
    )
    external_id = IdField(  # type: ignore[misc] # the only id that is nullable
        _("external id"), null=True, blank=True
    )
    title = ContentTextField(_("title"), max_length=255, blank=True, default="")
    #: Whether the title was made from messages: a redaction empties it.
    title_derived = models.BooleanField(default=False, db_default=False, editable=False)
    metadata = ContentJSONField(_("metadata"), default=dict, blank=True)
    origin = models.JSONField(_("origin"), null=True, blank=True, editable=False)
    #: The first session of its line of forks; ``origin`` lists all of them. By value, because a
    #: fork outlives its source.
    forked_from = models.UUIDField(_("forked from"), null=True, editable=False, db_index=True)
    #: Increases with every change after which a writer must reload: redactions, rewinds, restores.
    redaction_epoch = models.PositiveIntegerField(_("epoch"), default=0, editable=False)
    redactions = models.PositiveIntegerField(_("redactions"), default=0, editable=False)
    #: Increases with every operation that changes or removes what is stored: an append only reads
    #: it. An event stream's cursor contains it.
    change = models.PositiveIntegerField(_("change"), default=0, editable=False)
    #: The change of the last redaction.
    redaction_change = models.PositiveIntegerField(default=0, editable=False)
    #: The change of the title, a date or a flag.
    header_change = models.PositiveIntegerField(default=0, editable=False)
    #: The change of feedback on a message.
    feedback_change = models.PositiveIntegerField(default=0, editable=False)
    #: Written by every operation that locks the session, so that it can find out whether it was
    #: committed if the connection breaks.
    last_write = models.UUIDField(null=True, editable=False)
    # Signed, because a "not negative" constraint could reject a message because of a counter.
    message_count = models.IntegerField(_("messages"), default=0, editable=False)
    #: Messages that report an error; and whether there are any, for the index.
    error_count = models.IntegerField(_("errors"), default=0, db_default=0, editable=False)
    has_errors = models.BooleanField(default=False, db_default=False, editable=False)
    #: NULL until an SDK reports tokens, which is not the same as none.
    input_tokens = models.BigIntegerField(_("input tokens"), null=True, editable=False)
    output_tokens = models.BigIntegerField(_("output tokens"), null=True, editable=False)
    #: Of the input tokens: those read from a provider's prompt cache, and those written to it.
    cache_read_tokens = models.BigIntegerField(
        _("tokens read from cache"), null=True, editable=False
    )
    cache_write_tokens = models.BigIntegerField(
        _("tokens written to cache"), null=True, editable=False
    )
    #: In billionths; NULL until a message has tokens and a model with a price.
    cost = models.BigIntegerField(_("cost"), null=True, editable=False)
    legal_hold = models.BooleanField(_("legal hold"), default=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)
    #: When a turn ended or a message was appended; an append moves it at most once in 5 seconds.
    last_activity_at = models.DateTimeField(
        _("last activity"), default=timezone.now, editable=False
    )
    archived_at = models.DateTimeField(_("archived"), null=True, blank=True)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)

    objects = SessionQuerySet.as_manager()

    content_columns = ContentColumns(
        "session",
        {
            "title": ContentKind.DATA,
            "metadata": ContentKind.DATA,
            "origin": ContentKind.ORIGIN,
            "session_id": ContentKind.ID,
            "external_id": ContentKind.ID,
            "namespace": ContentKind.ID,
            "scope": ContentKind.ID,
            "session_type": ContentKind.NONE,
        },
        session="pk",
    )

    class Meta:
        verbose_name = _("agent session")
        verbose_name_plural = _("agent sessions")
        ordering = ["-last_activity_at", "-id"]
        # Besides Django's own: deleting requires `delete_session`, a legal hold `change_session`.
        permissions = [
            ("read_transcript", _("Can read transcripts")),
            ("redact", _("Can redact messages")),
            ("view_held_copies", _("Can view what was overwritten under legal hold")),
            ("export", _("Can export conversations")),
            ("review_session", _("Can review sessions")),
            ("share", _("Can share conversations")),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "scope", "session_id"],
                name="agent_sessions_session_unique_id",
            ),
            models.UniqueConstraint(
                fields=["owner", "namespace", "scope", "external_id"],
                name="agent_sessions_session_unique_external",
            ),
        ]
        # Each with its query. When an append moves the activity, at most once in five seconds,
        # SQLite writes 10 to 15 kB of log for each index that has it, and none for the others;
        # PostgreSQL 100 to 175 bytes for every index of the row. Other appends touch no index.
        indexes = [
            # The list of all sessions, in the admin and the API.
            models.Index(fields=["-last_activity_at", "-id"], name="agent_sessions_session_recent"),
            # A user's list of sessions.
            models.Index(
                fields=["owner", "-last_activity_at", "-id"], name="agent_sessions_session_mine"
            ),
            # The list of sessions with errors.
            models.Index(
                fields=["has_errors", "-last_activity_at", "-id"],
                name="agent_sessions_session_errors",
            ),
            # Retention: what has expired, and by namespace what is idle, old or archived.
            models.Index(fields=["expires_at", "id"], name="agent_sessions_session_expiry"),
            models.Index(
                fields=["namespace", "last_activity_at", "id"], name="agent_sessions_session_idle"
            ),
            models.Index(
                fields=["namespace", "created_at", "id"], name="agent_sessions_session_age"
            ),
            models.Index(
                fields=["namespace", "archived_at", "id"], name="agent_sessions_session_archive"
            ),
            # For searches by an id in all namespaces and scopes, and of all owners.
            models.Index(fields=["session_id"], name="agent_sessions_session_name"),
            models.Index(fields=["external_id"], name="agent_sessions_session_client"),
        ]

    def __str__(self) -> str:
        # Not the title, which is content: str() is written to logs, messages and other tables.
        return self.session_id

    @property
    def display_title(self) -> str:
        """The title, else the first words of the first user's message, else the session id.

        Words are read when they are shown, so that a redaction reaches them. Without
        :meth:`SessionQuerySet.with_display_title`, a session without a title costs a statement.
        """
        words: str | None = None
        if "opening_words" in self.__dict__:
            words = self.__dict__["opening_words"]
        elif not self.title:
            rows = Session._base_manager.using(self._state.db).filter(pk=self.pk)
            words = rows.values_list(opening_words(), flat=True).first()
        return self.title or words or self.session_id

    @property
    def key(self) -> SessionKey:
        """The namespace, scope and session id, which together identify the session."""
        return SessionKey(self.namespace, self.scope, self.session_id)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Delete the session and its rows, unless it is under legal hold."""
        if self.pk is None:
            return super().delete(*args, **kwargs)  # Django raises its own error.
        using = {**dict(zip(("using",), args, strict=False)), **kwargs}.get("using")
        row = Session._base_manager.using(using or self._state.db).filter(pk=self.pk)
        count = deletion.delete_session(row)
        self.pk = None
        return count.total(), dict(count)


def _delete_row(
    row: SessionAgent | SessionMessage, delete: Any, *args: Any, **kwargs: Any
) -> tuple[int, dict[str, int]]:
    """Delete a row by its queryset, which refuses to under legal hold."""
    if row.pk is None:
        # Django raises its own error.
        unsaved: tuple[int, dict[str, int]] = delete(*args, **kwargs)
        return unsaved
    using = {**dict(zip(("using",), args, strict=False)), **kwargs}.get("using")
    deleted = type(row).objects.using(using or row._state.db).filter(pk=row.pk).delete()
    row.pk = None
    return deleted


class SessionRelated(models.Model):
    """Base class of rows that belong to a session."""

    class Meta:
        abstract = True


class SessionAgent(SessionRelated):
    """An agent of a session: its state, and the main branch of its conversation."""

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
    #: The keys of the messages that were removed last: see `models.removed_messages`.
    #: NULL for none, because a process of an earlier release inserts agents without it.
    removed_messages = models.TextField(null=True, editable=False)  # noqa: DJ001 - NULL costs no byte
    #: The name that the main branch had as a side branch, which it gets back as one; or NULL.
    main_name = IdField(null=True, editable=False)  # type: ignore[misc] # as an external id
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    objects = AgentQuerySet.as_manager()

    content_columns = ContentColumns(
        "agent",
        {
            "state": ContentKind.DATA,
            "conversation_manager_state": ContentKind.STATE,
            "internal_state": ContentKind.STATE,
            "window": ContentKind.REFERENCES,
            "agent_id": ContentKind.ID,
            "dialect": ContentKind.NONE,
            "removed_messages": ContentKind.NONE,
            "main_name": ContentKind.ID,
        },
        name="agent_id",
        # After the messages, which a window can have in another form.
        stage=2,
    )

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

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Delete the agent as :meth:`AgentQuerySet.delete` does."""
        return _delete_row(self, super().delete, *args, **kwargs)


class SessionMessage(SessionRelated):
    """A message of an agent's conversation: the SDK's payload and columns that all SDKs share."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # An index below starts with the session. A message's session is always its agent's, so the
    # agent's constraint covers both; another one would read and lock a row for each message.
    session = models.ForeignKey(
        Session,
        on_delete=models.CASCADE,
        related_name="messages",
        db_index=False,
        db_constraint=False,
    )
    # The unique constraint below is an index on the agent too.
    agent = models.ForeignKey(
        SessionAgent, on_delete=models.CASCADE, related_name="messages", db_index=False
    )
    branch = models.PositiveIntegerField(_("branch"), default=MAIN_BRANCH, editable=False)
    message_id = models.PositiveIntegerField(_("position"))
    #: The original message, if this is a copy on another branch or in a fork.
    source = models.UUIDField(_("copy of"), null=True, editable=False)
    #: A client's or framework's key of the message. A copy on another branch has the same.
    external_id = IdField(  # type: ignore[misc] # as that of a session
        _("external id"), null=True, blank=True
    )
    #: Primary key of the user who wrote it, as text, if that is not the session's owner; by value,
    #: because messages outlive the user.
    author = IdField(_("author"), blank=True, default="", db_default="")
    run_id = models.UUIDField(_("run"), null=True, editable=False)
    revision = models.PositiveIntegerField(_("revision"), default=0, editable=False)
    #: The session's change number when the message got its position on the main branch or was
    #: replaced, or one before it was deleted; and when it was redacted last.
    change = models.PositiveIntegerField(_("change"), default=0, editable=False)
    redaction_change = models.PositiveIntegerField(null=True, editable=False)
    message = ExactJSONField(_("message"))
    role = models.CharField(_("role"), max_length=32, blank=True, default="")
    text = models.TextField(_("text"), blank=True, default="")
    input_tokens = models.BigIntegerField(_("input tokens"), null=True)
    output_tokens = models.BigIntegerField(_("output tokens"), null=True)
    #: Of the input tokens, as in the session.
    cache_read_tokens = models.BigIntegerField(_("tokens read from cache"), null=True)
    cache_write_tokens = models.BigIntegerField(_("tokens written to cache"), null=True)
    latency_ms = models.BigIntegerField(_("latency in ms"), null=True)
    #: Whether it has the result of a tool that failed.
    has_error = models.BooleanField(_("error"), default=False, db_default=False)
    #: The name of the model that wrote it; empty if the SDK did not tell.
    model = IdField(_("model"), blank=True, default="")
    redacted_at = models.DateTimeField(_("redacted"), null=True, editable=False)
    #: The audit event of the redaction; by value, because the event outlives the message.
    redaction = models.UUIDField(_("redaction"), null=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    objects = MessageQuerySet.as_manager()

    content_columns = ContentColumns(
        "message",
        {
            "message": ContentKind.PAYLOAD,
            "text": ContentKind.DERIVED,
            "role": ContentKind.DERIVED,
            "external_id": ContentKind.ID,
            "author": ContentKind.NONE,
            "model": ContentKind.NONE,
        },
        name="message_id",
        stage=1,
        revision=True,
        sealed_as={"message": "redact_message"},
    )

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering = ["agent", "branch", "message_id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "branch", "message_id"],
                name="agent_sessions_message_unique_position",
            ),
            # The session is always the agent's, and is here for tables partitioned by it.
            UniqueWhereSet(
                fields=["agent", "external_id", "branch", "session"],
                optional="external_id",
                name="agent_sessions_message_unique_external",
            ),
        ]
        indexes = [
            # The messages of all agents in order of time, which is the order of their keys.
            models.Index(fields=["session", "id"], name="agent_sessions_message_time"),
            # For what a person wrote in the sessions of others.
            IndexWhereNotEmpty(fields=["author"], name="agent_sessions_message_author"),
        ]

    def __str__(self) -> str:
        return f"{self.role or _('message')} {self.message_id}"

    @property
    def redact_message(self) -> Any:
        """The payload, if the message was redacted; otherwise None.

        Set it to write a redacted version, which replaces the payload; None changes nothing.
        """
        return None if self.redacted_at is None else self.message

    @redact_message.setter
    def redact_message(self, payload: Any) -> None:
        if payload is not None:
            self.message = payload
            self.redacted_at = self.redacted_at or timezone.now()

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Delete the message as :meth:`MessageQuerySet.delete` does."""
        return _delete_row(self, super().delete, *args, **kwargs)


class SessionMultiAgent(SessionRelated):
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

    content_columns = ContentColumns(
        "orchestrator",
        {
            "state": ContentKind.ORCHESTRATOR,
            "multi_agent_id": ContentKind.ID,
            "kind": ContentKind.NONE,
        },
        name="multi_agent_id",
    )

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
