"""Redaction: permanent removal of content from a session and from all of its copies.

::

    from django_agent_sessions.governance.redaction import Detect, Find, redact

    preview = redact(session.id, Find("4111 1111 1111 1111"), reason="GDPR request", dry_run=True)
    for hit in preview.hits:
        print(hit.place)
    redact(session.id, Find("4111 1111 1111 1111"), reason="GDPR request", actor=request.user)

The conversation stays valid for the next model call: roles, blocks, and the ids of calls and
results are kept. The SDKs' guardrails, the admin, the REST API and ``manage.py
redact_agent_session`` use these functions or, to replace a whole message with a new text,
``store.messages.redact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from django_agent_sessions.db import bridge
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.exceptions import (
    ReasonRequiredError,
    RedactionScopeError,
    SessionNotFoundError,
)
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.locking import lock_session, with_lock, write
from django_agent_sessions.values.owners import EVERYBODY

from .plan import Plan
from .scopes import Block, Detect, Find, Hit, Place, Redaction, Scope, Span, WholeMessage
from .session_redaction import redact_all

__all__ = [
    "Block",
    "Detect",
    "Find",
    "Hit",
    "Place",
    "Redaction",
    "Scope",
    "Span",
    "WholeMessage",
    "aredact",
    "descendants_of",
    "redact",
]


def redact(
    session: UUID,
    *scopes: Scope,
    reason: str,
    actor: Any = None,
    dry_run: bool = False,
    descendants: bool = False,
    using: str | None = None,
) -> Redaction:
    """Redact content in a session, in one transaction.

    Args:
        session: Primary key of the session.
        *scopes: What to redact.
        reason: The reason, written to the audit log; redacted content is masked in it.
        actor: The user, or a text that names a program.
        dry_run: Search, but write nothing.
        descendants: Also redact in all direct and indirect forks of the session: matches of
            scopes without a message, and the copies of the messages of the other scopes.
        using: The database alias.

    Returns:
        The matches, with one result per fork. Without matches nothing is written or audited, so
        that the function is idempotent.

    Raises:
        SessionNotFoundError: The session does not exist, or has no such message.
        ReasonRequiredError: The reason is blank, and ``dry_run`` is false.
        RedactionScopeError: A scope has a path that does not exist, or an empty or invalid text;
            or ``session`` is not a primary key.
        LegalHoldError: The session or a fork is under legal hold, and a match is in a row whose
            original cannot be kept. Nothing is written.
    """
    if not scopes:
        raise RedactionScopeError("nothing to redact: pass at least one scope")
    if not dry_run and not reason.strip():
        raise ReasonRequiredError("a redaction requires a reason")
    session = _key(session)
    alias = bridge.database(using)
    plan = Plan(scopes)

    def run(row: Session, forks: Sequence[Session]) -> Redaction:
        return redact_all(alias, row, forks, plan, reason=reason, actor=actor, dry_run=dry_run)

    def require_row(row: Session | None) -> Session:
        if row is None:
            raise SessionNotFoundError(f"session {session} does not exist")
        return row

    def search(uncertain: bool) -> Redaction:
        # Without a lock: agents may change the session meanwhile.
        rows = Session.objects.using(alias)
        keys = descendants_of(session, using=alias) if descendants else []
        forks = list(rows.filter(pk__in=keys).order_by("pk"))
        return run(require_row(rows.filter(pk=session).first()), forks)

    def work(row: Session) -> Redaction:
        return run(row, _locked_forks(alias, session) if descendants else [])

    what = f"redacting in session {session}"
    if dry_run:
        return write(alias, search, what=what)
    return with_lock(
        alias,
        lambda: require_row(lock_session(alias, session)),
        work,
        what=what,
        around=lambda: secure_delete(alias),
        changed=lambda redaction: any(one.hits or one.states for one in redaction.sessions),
    )


def _key(session: object) -> UUID:
    """Return the primary key of a session, which may be a string."""
    with suppress(ValueError):
        return session if isinstance(session, UUID) else UUID(str(session))
    # Without the value: a session_id may be content.
    raise RedactionScopeError(
        "redact() requires the session's primary key, a UUID: pass session.id, not session_id"
    )


def descendants_of(session: UUID, *, using: str | None = None) -> list[UUID]:
    """Return the sessions that :func:`redact` reaches with ``descendants``.

    Args:
        session: Primary key of the session.
        using: The database alias.

    Returns:
        Primary keys of all direct and indirect forks, including those of other owners.
    """
    return SessionStore(owner=EVERYBODY, using=using).sessions.descendants(session)


def _locked_forks(using: str, session: UUID) -> list[Session]:
    """Lock all forks of a locked session, each after the session it was forked from."""
    locked: dict[UUID, Session | None] = {}
    # A session could be forked until it was locked. Keys are ordered by time, so that other
    # processes lock the same sessions in the same order.
    while more := [key for key in descendants_of(session, using=using) if key not in locked]:
        for key in sorted(more):
            locked[key] = lock_session(using, key)
    return [row for row in locked.values() if row is not None]


async def aredact(
    session: UUID,
    *scopes: Scope,
    reason: str,
    actor: Any = None,
    dry_run: bool = False,
    descendants: bool = False,
    using: str | None = None,
) -> Redaction:
    """Async twin of :func:`redact`."""
    return await bridge.run_async(
        lambda: redact(
            session,
            *scopes,
            reason=reason,
            actor=actor,
            dry_run=dry_run,
            descendants=descendants,
            using=using,
        ),
        using=bridge.database(using),
    )
