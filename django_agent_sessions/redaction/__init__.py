"""Redaction: taking something out of a session for good, wherever it stands in it.

::

    from django_agent_sessions.redaction import Detect, Find, redact

    preview = redact(session.id, Find("4111 1111 1111 1111"), reason="GDPR request", dry_run=True)
    for hit in preview.hits:
        print(hit.place)
    redact(session.id, Find("4111 1111 1111 1111"), reason="GDPR request", actor=request.user)

The conversation stays valid for the next model call: roles, blocks, and the ids that pair a call
with its result. The SDKs' guardrails, the admin, the REST API and ``manage.py
redact_agent_session`` all come here or, for a whole message whose new text they bring along, to
``SessionStore.redact_message``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from django_agent_sessions import bridge
from django_agent_sessions.exceptions import (
    ReasonRequiredError,
    RedactionScopeError,
    SessionNotFoundError,
)
from django_agent_sessions.leftovers import overwrite_leftovers
from django_agent_sessions.models import Session
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.alone import alone, lock_session
from django_agent_sessions.store.base import write

from .plan import Plan
from .scopes import Block, Detect, Find, Hit, Place, Redaction, Scope, Span, WholeMessage
from .work import redact_all

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
    """Redacts in a session: all of it in one transaction, or nothing.

    Args:
        session: Primary key of the session.
        *scopes: What to redact.
        reason: Why; it is audited with the actor, and what is redacted is masked in it.
        actor: Who redacts: a user, or text for a program.
        dry_run: Only find out what would be redacted.
        descendants: Redact in all that was forked from the session, too, and from that: what is
            named everywhere, and the copies of the messages that scopes name.
        using: The alias of the database.

    Returns:
        What was found; in forks, session by session. Without a hit nothing is written, and nothing
        audited: once more is no different from once.

    Raises:
        SessionNotFoundError: There is no such session, or a scope's message is not in it.
        ReasonRequiredError: The reason is blank, and this is no dry run.
        RedactionScopeError: A scope names a place that is not there, or nothing to look for; or
            the session is named by something else than its primary key.
        LegalHoldError: The session or a fork is held, and something is found there that keeps no
            original; nothing was written.
    """
    if not scopes:
        raise RedactionScopeError("there is nothing to redact: give at least one scope")
    if not dry_run and not reason.strip():
        raise ReasonRequiredError("a redaction needs a reason")
    session = _key(session)
    alias = bridge.database(using)
    plan = Plan(scopes)

    def run(row: Session, forks: Sequence[Session]) -> Redaction:
        return redact_all(alias, row, forks, plan, reason=reason, actor=actor, dry_run=dry_run)

    def find(row: Session | None) -> Session:
        if row is None:
            raise SessionNotFoundError(f"there is no session {session}")
        return row

    def look(unsure: bool) -> Redaction:
        # Agents go on meanwhile: what is found is no promise.
        rows = Session.objects.using(alias)
        keys = descendants_of(session, using=alias) if descendants else []
        forks = list(rows.filter(pk__in=keys).order_by("pk"))
        return run(find(rows.filter(pk=session).first()), forks)

    def work(row: Session) -> Redaction:
        return run(row, _locked_forks(alias, session) if descendants else [])

    what = f"redacting in session {session}"
    if dry_run:
        return write(alias, look, what=what)
    return alone(
        alias,
        lambda: find(lock_session(alias, session)),
        work,
        what=what,
        around=lambda: overwrite_leftovers(alias),
        changed=lambda done: any(one.hits or one.states for one in done.sessions),
    )


def _key(session: object) -> UUID:
    """Reads what names a session: its primary key, also as text.

    Raises:
        RedactionScopeError: It is none.
    """
    with suppress(ValueError):
        return session if isinstance(session, UUID) else UUID(str(session))
    # Not what was given: a session's name may be content, and a record's text is.
    raise RedactionScopeError(
        "a session is redacted in by its primary key, a UUID: give session.id, not its session_id"
    )


def descendants_of(session: UUID, *, using: str | None = None) -> list[UUID]:
    """Finds what ``descendants`` of :func:`redact` would reach.

    Args:
        session: Primary key of the session.
        using: The alias of the database.

    Returns:
        Primary keys of its forks, of their forks and so on, whoever owns them.
    """
    return SessionStore(owner=EVERYBODY, using=using).descendants(session)


def _locked_forks(using: str, session: UUID) -> list[Session]:
    """Locks all forks of a locked session, each after what it was forked from."""
    locked: dict[UUID, Session | None] = {}
    # Until it was locked, each could be forked. Keys are made in time, so that whoever else locks
    # some of them does so in the same order.
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
    """Does what :func:`redact` does."""
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
