"""Import of sessions from other stores; it can be interrupted and resumed at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import AgentSessionsError, PayloadError, SessionConflictError
from django_agent_sessions.sql.message_writes import MAX_ROWS
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import validate_namespace, validate_scope
from django_agent_sessions.values.owners import NOBODY

from .owner_mapping import OwnerOf, owner_of
from .reports import ImportReport, ImportRun
from .session_import import SessionImport
from .sources import Skipped, Source, SourceSession

_CONFLICT = (
    "another process is importing or changing this session: run this import again when it has "
    "finished; no message is written twice"
)


@sync_only
def import_sessions(
    source: Source,
    *,
    namespace: str | None = None,
    scope: str | None = None,
    owner: Any | OwnerOf = NOBODY,
    using: str | None = None,
    dry_run: bool = False,
    batch: int = MAX_ROWS,
    progress: Callable[[ImportReport], None] | None = None,
) -> ImportReport:
    """Import the sessions of a source.

    The import is idempotent and can be interrupted: running it again continues it. A completely
    imported session is not changed, even if it has new messages since.

    Args:
        source: The source of the sessions.
        namespace: The namespace of the imported sessions; by default that of the source, if any.
        scope: The scope of their ids in the namespace; by default that of the source, if any.
        owner: The owner of the sessions or the owner's primary key; or a function that takes a
            :class:`~.sources.SourceSession` and returns its owner, the owner's primary key or
            ``NOBODY``. Left out, the sessions have no owner.
        using: The database alias.
        dry_run: Read and check everything, but write nothing.
        batch: Number of messages per write; they are in memory together.
        progress: Called with the report after each batch and each session.

    Returns:
        The report.

    Raises:
        InvalidIdError: The namespace or the scope is invalid.
        ConfigurationError: The source cannot be read; or the owner is None, ``EVERYBODY`` or a
            user who cannot own sessions.
    """
    if namespace is not None:
        validate_namespace(namespace)
    if scope is not None:
        validate_scope(scope)
    owner_key = owner_of(owner)
    run = ImportRun(
        kind=source.kind,
        using=bridge.database(using),
        dry_run=dry_run,
        batch=max(1, min(batch, MAX_ROWS)),
        progress=progress or (lambda report: None),
    )
    for source_session in source.sessions():
        if isinstance(source_session, Skipped):
            run.report.skip(source_session)
        else:
            _import_session(run, source_session, (namespace, scope), owner_key)
        run.progress(run.report)
    return run.report


def _import_session(
    run: ImportRun,
    source_session: SourceSession,
    place: tuple[str | None, str | None],
    owner: Callable[[SourceSession, str], Any],
) -> None:
    """Import a session, or record why it was skipped."""
    location = f"session {source_session.session_id!r}"
    try:
        columns = source_session.columns
        namespace, scope = place
        if namespace is None:
            namespace = validate_namespace(columns.get("namespace", ""))
        if scope is None:
            scope = validate_scope(columns.get("scope", ""))
        session_owner = owner(source_session, run.using)
        store = SessionStore(owner=session_owner, namespace=namespace, scope=scope, using=run.using)
        outcome = _outcome(SessionImport(run, source_session, store, location))
    except AgentSessionsError as error:
        # The texts of these errors contain no content.
        run.report.skip(Skipped(location, str(error)))
        outcome = "left_out"
    setattr(run.report, outcome, getattr(run.report, outcome) + 1)


def _outcome(session: SessionImport) -> str:
    try:
        return session.take()
    except SessionConflictError as error:
        if session.is_imported_by_another():
            raise SessionConflictError(_CONFLICT) from error
        raise
    except AgentSessionsError:
        raise
    except (ValueError, RecursionError) as error:
        # An invalid text or a value nested too deeply. The text of the error may contain content.
        raise PayloadError(f"it cannot be written: {type(error).__name__}") from error
