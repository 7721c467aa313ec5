"""Sessions: list, update, fork, and find them by other ids."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.content.codec import Owned
from django_agent_sessions.db.retries import retry_reads, tracked_atomic, write
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import (
    ConfigurationError,
    DestroyedKeyError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.models import Session
from django_agent_sessions.models.content_field import sealed_columns
from django_agent_sessions.models.deletion import ENCRYPTED
from django_agent_sessions.models.querysets import SessionQuerySet, groups_of_keys
from django_agent_sessions.models.session_names import SessionName, name_in_errors
from django_agent_sessions.sql import lookup
from django_agent_sessions.values.ids import new_id, validate_id
from django_agent_sessions.values.records import (
    AgentRecord,
    Append,
    MessageRecord,
    SessionRecord,
    Usage,
)

from ._agent_rows import agent_record, new_agent
from ._append import FirstWrite
from ._context import StorePart, twin
from ._forks import copy_session
from ._new_sessions import (
    insert_session,
    log_unused_metadata,
    new_session,
    record_without_lost,
    session_record,
    tell_created,
)
from ._queries import session_rows
from ._session_columns import prepare_metadata, prepare_title
from ._session_names import find_key, require_session
from .locking import check_removal, lock_session


class SessionChanges(TypedDict, total=False):
    """Arguments of :meth:`Sessions.update`; absent keys keep their values."""

    title: str
    title_derived: bool
    metadata: Mapping[str, Any]
    archived: bool
    expires_at: datetime | None


def _session_updates(changes: SessionChanges, using: str) -> dict[str, Any]:
    """Validate changes, and return the new values by column."""
    if unknown := changes.keys() - SessionChanges.__annotations__.keys():
        raise TypeError(
            f"update() has no argument {', '.join(sorted(unknown))}; its arguments are "
            f"{', '.join(SessionChanges.__annotations__)}"
        )
    _check_types(changes)
    columns: dict[str, Any] = {}
    if "title" in changes:
        columns["title"] = prepare_title(changes["title"])
        columns["title_derived"] = False
    if "title_derived" in changes:
        columns["title_derived"] = changes["title_derived"]
    if "metadata" in changes:
        columns["metadata"] = prepare_metadata(changes["metadata"], using)
    if "archived" in changes:
        columns["archived_at"] = timezone.now() if changes["archived"] else None
    if "expires_at" in changes:
        columns["expires_at"] = changes["expires_at"]
    return columns


def _check_types(changes: SessionChanges) -> None:
    """Raise ``PayloadError`` for a value that its column would take as something else."""
    for name, value in changes.items():
        if name in ("archived", "title_derived") and not isinstance(value, bool):
            raise PayloadError(f"{name} is a bool, not {type(value).__name__}")
        if name == "expires_at" and not isinstance(value, datetime | None):
            raise PayloadError(f"{name} is a datetime or None, not {type(value).__name__}")


def _check_replacement(session: Session, columns: Mapping[str, Any]) -> None:
    """Raise if an update would replace a title or metadata that the session must keep."""
    words = ("title", "metadata")
    replaced = [name for name in words if name in columns]

    def removes() -> bool:
        former = {name: getattr(session, name) for name in replaced}
        return any(value and value != columns[name] for name, value in former.items())

    check_removal(session, removes, f"replacing {' and '.join(replaced)}")


def _lock_for_update(sessions: SessionQuerySet) -> Session | None:
    rows = sessions.select_for_update()
    try:
        return rows.first()
    except DestroyedKeyError:
        return rows.defer(*ENCRYPTED).first()


class Sessions(StorePart):
    """The operations of a store on sessions, except the most common ones."""

    @retry_reads
    def list(
        self, *, limit: int = 50, after: SessionRecord | None = None
    ) -> builtins.list[SessionRecord]:
        """List the sessions of the namespace and scope, most recently active first.

        Args:
            limit: Maximum number of sessions.
            after: The last session of the previous page.

        Returns:
            The sessions.
        """
        rows = lookup.recent_sessions(
            self.using,
            self._context.reach.key,
            self._context.namespace,
            self._context.scope,
            limit=limit,
            after=None if after is None else (after.last_activity_at, after.id),
        )
        return [session_record(row) for row in rows]

    alist = twin(list)

    def update(self, session: SessionName, **changes: Unpack[SessionChanges]) -> SessionRecord:
        """Update a session's title, metadata and dates; its messages stay as they are.

        Args:
            session: The session.
            **changes: ``title`` (the first 255 characters are kept), ``title_derived``
                (whether the title was made from messages: the next redaction in the session
                empties it), ``metadata`` (replaced completely), ``archived`` (bool),
                ``expires_at`` (when the session may be deleted; None for never). Absent
                arguments keep their values.

        Returns:
            The updated session. If its data key was destroyed, the title and the metadata that
            were not replaced raise ``DestroyedKeyError`` when they are used.

        Raises:
            SessionNotFoundError: The session does not exist or belongs to another owner.
            LegalHoldError: It is under legal hold, and its title or metadata would be lost.
            PayloadError: A value has another type, or the metadata is not JSON.
            TypeError: An argument is unknown.
        """
        columns = _session_updates(changes, self.using)
        key = find_key(self._context, session)
        if key is None:
            raise self._context.not_found(session)

        def update(unsure: bool) -> SessionRecord:
            with tracked_atomic(self.using):
                # Locked, because a redaction writes titles and metadata too.
                row = _lock_for_update(self._context.sessions().filter(pk=key))
                if row is None:
                    raise self._context.not_found(session)
                _check_replacement(row, columns)
                for name, value in columns.items():
                    # A session that is archived already keeps its first `archived_at`.
                    if not (name == "archived_at" and value and row.archived_at):
                        setattr(row, name, value)
                if columns:
                    row.updated_at = timezone.now()
                    row.change = row.header_change = row.change + 1
                    changed = ["updated_at", "change", "header_change"]
                    written = {name: getattr(row, name) for name in (*columns, *changed)}
                    sealed = sealed_columns(Session, row.pk, written, Owned(row.owner_id))
                    session_rows(self.using).filter(pk=row.pk).update(**sealed)
                    on_written(self.using, row.pk, "update")
                return record_without_lost(row)

        what = f"updating session {name_in_errors(session)}"
        return write(self.using, update, what=what, savepoint=False)

    aupdate = twin(update)

    @retry_reads
    def find_external(self, external_id: str) -> SessionRecord | None:
        """Read a session by an id that a client chose.

        Args:
            external_id: The id, unique among one owner's sessions of a namespace and scope.

        Returns:
            The session; None if the owner has none with this id.

        Raises:
            InvalidIdError: The id is invalid.
            ConfigurationError: The store has no owner.
        """
        if self._context.reach.owner_id is None:
            raise ConfigurationError(
                "external ids are unique per owner; pass an owner to the store"
            )
        row = (
            self._context.sessions()
            .filter(namespace=self._context.namespace, scope=self._context.scope)
            .filter(external_id=validate_id(external_id, "external_id"))
            .first()
        )
        return None if row is None else session_record(row)

    afind_external = twin(find_external)

    def open_external(
        self,
        external_id: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> tuple[SessionRecord, bool]:
        """Read a session by an id that a client chose, or create it with a generated session id.

        Args:
            external_id: The id, unique among one owner's sessions of a namespace and scope.
            title: Title of a created session.
            metadata: JSON metadata of a created session.

        Returns:
            The session, and whether it was created.

        Raises:
            InvalidIdError: The id is invalid.
            PayloadError: The metadata is not JSON.
            ConfigurationError: The store has no owner.
            SessionConflictError: Another transaction created it concurrently, and the current
                transaction does not see it.
        """
        session = self.find_external(external_id)
        if session is not None:
            return session, False
        if not self._context.creates:
            raise self._context.not_found(external_id)
        key = new_id()
        created = insert_session(
            self._context, str(key), title, metadata, external_id=external_id, key=key
        )
        if created is not None:
            return created, True
        session = self.find_external(external_id)
        if session is None:
            raise SessionConflictError(
                "another transaction is creating a session with this external id; try again when "
                "it has finished"
            )
        return session, False

    aopen_external = twin(open_external)

    @retry_reads
    def find_with_agent(
        self, session_id: str, agent_id: str, *, metadata: Mapping[str, Any] | None = None
    ) -> tuple[SessionRecord, AgentRecord] | None:
        """Read a session and one of its agents, in one query.

        Args:
            session_id: The session's id.
            agent_id: The agent's id.
            metadata: Metadata for a new session: a warning is logged if the found one lacks it.

        Returns:
            The session and the agent; None if either does not exist.

        Raises:
            SessionNotFoundError: The session belongs to another owner.
            InvalidIdError: An id is invalid.
        """
        found = lookup.session_and_agent(
            self.using,
            self._context.key(session_id),
            validate_id(agent_id, "agent_id"),
        )
        if found is None:
            _ = self._context.reach.key  # Raises for a user who cannot own sessions.
            return None
        session, agent = found
        if not self._context.reach.includes(session.owner_id):
            raise self._context.not_found(session_id)
        if agent is None:
            return None
        record = session_record(session)
        log_unused_metadata(self._context, record, metadata)
        return record, agent_record(agent)

    afind_with_agent = twin(find_with_agent)

    def start(
        self,
        session_id: str | UUID,
        agent_id: str,
        messages: Sequence[Any],
        *,
        dialect: str,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        run_id: UUID | None = None,
    ) -> tuple[SessionRecord, AgentRecord, builtins.list[MessageRecord]]:
        """Create a session with an agent and its first messages: all of it or nothing.

        Args:
            session_id: The session's id.
            agent_id: The agent's id.
            messages: The payloads, in order; at least one.
            dialect: The message format of the agent.
            title: Title of the session.
            metadata: JSON metadata of the session.
            run_id: See :meth:`SessionStore.append`.

        Returns:
            The session, the agent, and the messages with their positions.

        Raises:
            SessionConflictError: The session exists, or the store creates none; nothing was
                written. Open the session and append instead.
            PayloadError: A message is not JSON or exceeds a limit.
            BlobError: A large binary could not be stored.
        """
        session = new_session(self._context, session_id, title, metadata)
        agent = new_agent(self.using, session, agent_id, dialect)
        record = agent_record(agent)
        append = Append(record, messages, run_id, count=False)
        first = FirstWrite(self.using, agent, append, session)
        if not self._context.creates:
            raise SessionConflictError("the store creates no session; open it")
        written = first.write()
        return session_record(session), record, written

    astart = twin(start)

    @retry_reads
    def find_with_agents(
        self, session_id: str, *, metadata: Mapping[str, Any] | None = None
    ) -> tuple[SessionRecord, builtins.list[AgentRecord], bool] | None:
        """Read a session and all its agents, in one query.

        Args:
            session_id: The session's id.
            metadata: Metadata for a new session: a warning is logged if the found one lacks it.

        Returns:
            The session, its agents, oldest first, and whether it has orchestrators; None if it
            does not exist.

        Raises:
            SessionNotFoundError: The session belongs to another owner.
            InvalidIdError: The id is invalid.
        """
        found = lookup.session_and_agents(self.using, self._context.key(session_id))
        if found is None:
            _ = self._context.reach.key  # Raises for a user who cannot own sessions.
            return None
        session, agents, has_orchestrators = found
        if not self._context.reach.includes(session.owner_id):
            raise self._context.not_found(session_id)
        record = session_record(session)
        log_unused_metadata(self._context, record, metadata)
        return record, [agent_record(row) for row in agents], has_orchestrators

    afind_with_agents = twin(find_with_agents)

    @retry_reads
    def usage(self, session_id: SessionName) -> Usage:
        """Return a session's counters: one row, however long the conversation is.

        Args:
            session_id: Its id, or another name.

        Returns:
            Messages and tokens of all its agents, as of the end of the last turn.

        Raises:
            SessionNotFoundError: The session does not exist or belongs to another owner.
        """
        return require_session(self._context, session_id).usage

    ausage = twin(usage)

    def fork(
        self,
        session: SessionName,
        *,
        at: UUID | None = None,
        session_id: str | UUID | None = None,
        title: str | None = None,
        external_id: str | None = None,
    ) -> SessionRecord:
        """Create a session with a copy of another session's history.

        Only visible content is copied: a redacted message is redacted in the fork too. An agent's
        state is restored from a snapshot of that position if there is one; otherwise it is the
        present state, without the parts that refer to messages outside the fork. Orchestrators are
        copied only if ``at`` is None. Snapshots, side branches and the state of a run that waits
        for a person are not copied.

        Args:
            session: The session to fork.
            at: Primary key of the last message to copy; of other agents, the messages written
                before it are copied. None copies all.
            session_id: Id of the new session; its primary key by default.
            title: Its title; by default that of the forked session.
            external_id: An id chosen by a client, unique among the owner's sessions of the
                source's namespace and scope.

        Returns:
            The new session; it has the same owner.

        Raises:
            SessionNotFoundError: The session or the message does not exist.
            SessionConflictError: The session id or the external id exists.
            InvalidIdError: The session id or the external id is invalid.
            BlobError: A large binary could not be copied; no session was created.
        """
        what = f"forking session {name_in_errors(session)!r}"
        forked = find_key(self._context, session)
        key = new_id()
        name = str(key) if session_id is None else validate_id(session_id)
        if external_id is not None:
            validate_id(external_id, "external_id")

        def fork(unsure: bool) -> SessionRecord:
            with tracked_atomic(self.using):
                source = None if forked is None else lock_session(self.using, forked, content=True)
                if source is None or not self._context.includes(source):
                    raise SessionNotFoundError(f"{what}: the session does not exist")
                if unsure and (created := session_rows(self.using).filter(pk=key).first()):
                    return session_record(created)
                if (
                    session_rows(self.using)
                    .filter_key(source.key._replace(session_id=name))
                    .exists()
                ):
                    raise SessionConflictError(f"session {name!r} already exists")
                duplicates = session_rows(self.using).filter(
                    owner=source.owner_id,
                    namespace=source.namespace,
                    scope=source.scope,
                    external_id=external_id,
                )
                if external_id is not None and duplicates.exists():
                    raise SessionConflictError(
                        f"{what}: another session has this external id; choose another one"
                    )
                return session_record(
                    copy_session(self.using, source, key, name, title, at, external_id, what)
                )

        created = write(self.using, fork, what=what)
        tell_created(self.using, created, "fork")
        on_written(self.using, key, "fork")
        return created

    afork = twin(fork)

    @retry_reads
    def descendants(self, session: SessionName) -> builtins.list[UUID]:
        """List the forks of a session, and the forks of those, recursively.

        Args:
            session: The session; a deleted one by its primary key.

        Returns:
            Primary keys of all existing forks, of all owners, oldest first.
        """
        start = find_key(self._context, session)
        if start is None:
            return []
        columns = ("forked_from", "owner", "namespace", "scope")
        row = session_rows(self.using).filter(pk=start).only(*columns).first()
        if row is not None and not self._context.includes(row):
            return []
        line = start if row is None else row.forked_from or start
        # By the index of lines; the origins, which may be long, are read in batches.
        forks = session_rows(self.using).filter(forked_from=line).order_by("id")
        found: builtins.list[UUID] = []
        for keys in groups_of_keys(builtins.list(forks.values_list("pk", flat=True))):
            origins = session_rows(self.using).filter(pk__in=keys).order_by("id")
            found += [
                key
                for key, origin in origins.values_list("pk", "origin")
                if origin and str(start) in origin["fork"]["line"]
            ]
        return found

    adescendants = twin(descendants)

    @retry_reads
    def ancestors(self, session: SessionName) -> builtins.list[UUID]:
        """List the sessions of which a session is a fork, directly or through other forks.

        Args:
            session: The session.

        Returns:
            Primary keys, also of deleted sessions, oldest first; empty if it is no fork.
        """
        key = find_key(self._context, session)
        if key is None:
            return []
        rows = self._context.sessions().filter(pk=key, forked_from__isnull=False)
        root: UUID | None
        origin: Any
        root, origin = rows.values_list("forked_from", "origin").first() or (None, None)
        if root is None:
            return []
        try:
            return [UUID(key) for key in origin["fork"]["line"]]
        except (KeyError, TypeError, ValueError, AttributeError):
            # Damaged, which `agent_sessions_check` reports.
            return [root]

    aancestors = twin(ancestors)
