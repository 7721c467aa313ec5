"""Taking sessions in from elsewhere, so that it can be stopped and begun again at any moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_agent_sessions import bridge
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    PayloadError,
    SessionConflictError,
)
from django_agent_sessions.ids import validate_namespace
from django_agent_sessions.owners import NOBODY
from django_agent_sessions.statements import MOST_ROWS
from django_agent_sessions.store.importing import ImportStore

from .arriving import SessionImport
from .owners import OwnerOf, owner_of
from .reports import ImportReport, Run
from .sources import Skipped, Source, SourceSession

_AT_ONCE = (
    "another import is taking it in at this moment, or somebody writes in it; when that has ended, "
    "run this one again, which writes nothing twice"
)


def import_sessions(
    source: Source,
    *,
    namespace: str | None = None,
    owner: Any | OwnerOf = NOBODY,
    using: str | None = None,
    dry_run: bool = False,
    batch: int = MOST_ROWS,
    progress: Callable[[ImportReport], None] | None = None,
) -> ImportReport:
    """Takes in what a source has.

    It can be stopped at any moment and run again: nothing is missing then, and nothing there
    twice. A session that is complete is left alone, whatever was said in it since.

    Args:
        source: Where the sessions come from.
        namespace: The namespace they get; by default the source's own, if it knows namespaces.
        owner: The user who owns them, or that user's primary key; or a function that takes a
            :class:`~.sources.SourceSession` and returns one of them, or ``NOBODY``. Left out, they
            have no owner.
        using: The alias of the database.
        dry_run: Whether to read and check everything, and write nothing.
        batch: How many messages are written at once; they are in memory together.
        progress: Is called with the report after each batch and each session.

    Returns:
        What was done.

    Raises:
        InvalidIdError: The namespace cannot be one.
        ConfigurationError: The source cannot be read; or the owner is None, ``EVERYBODY``, or
            somebody who can own no sessions.
    """
    if namespace is not None:
        validate_namespace(namespace)
    owner_key = owner_of(owner)
    run = Run(
        kind=source.kind,
        using=bridge.database(using),
        dry_run=dry_run,
        batch=max(1, min(batch, MOST_ROWS)),
        progress=progress or (lambda report: None),
    )
    for found in source.sessions():
        if isinstance(found, Skipped):
            run.report.skip(found)
        else:
            _take(run, found, namespace, owner_key)
        run.progress(run.report)
    return run.report


def _take(
    run: Run,
    found: SourceSession,
    namespace: str | None,
    owner: Callable[[SourceSession, str], Any],
) -> None:
    """Takes in a session, or notes why not."""
    place = f"session {found.session_id!r}"
    try:
        if namespace is None:
            namespace = validate_namespace(found.columns.get("namespace", ""))
        store = ImportStore(owner=owner(found, run.using), namespace=namespace, using=run.using)
        outcome = _outcome(SessionImport(run, found, store, place))
    except AgentSessionsError as error:
        # Their words are ids and figures.
        run.report.skip(Skipped(place, str(error)))
        outcome = "left_out"
    setattr(run.report, outcome, getattr(run.report, outcome) + 1)


def _outcome(session: SessionImport) -> str:
    try:
        return session.take()
    except SessionConflictError as error:
        if session.is_taken_by_another():
            raise SessionConflictError(_AT_ONCE) from error
        raise
    except AgentSessionsError:
        raise
    except (ValueError, RecursionError) as error:
        # A text that no database takes, or a value that nothing can walk through. Their words may
        # quote it.
        raise PayloadError(f"it cannot be written: {type(error).__name__}") from error
