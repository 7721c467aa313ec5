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

from typing import Any
from uuid import UUID

from django.db import transaction

from django_agent_sessions import bridge
from django_agent_sessions.exceptions import (
    ReasonRequiredError,
    RedactionScopeError,
    SessionNotFoundError,
)
from django_agent_sessions.models import Session
from django_agent_sessions.store.base import write
from django_agent_sessions.store.redacting import lock_session
from django_agent_sessions.store.vendors import overwrite_leftovers

from .scopes import Block, Detect, Find, Hit, Place, Redaction, Scope, Span, WholeMessage
from .work import ChangedMeanwhileError, Plan, Work

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
    "redact",
]


def redact(
    session: UUID,
    *scopes: Scope,
    reason: str,
    actor: Any = None,
    dry_run: bool = False,
    using: str | None = None,
) -> Redaction:
    """Redacts in a session: all of it in one transaction, or nothing.

    Args:
        session: Primary key of the session.
        *scopes: What to redact.
        reason: Why; it is audited with the actor, and what is redacted is masked in it.
        actor: Who redacts: a user, or text for a program.
        dry_run: Only find out what would be redacted.
        using: The alias of the database.

    Returns:
        What was found. Without a hit nothing is written, and nothing audited: once more is no
        different from once.

    Raises:
        SessionNotFoundError: There is no such session, or a scope's message is not in it.
        ReasonRequiredError: The reason is blank, and this is no dry run.
        RedactionScopeError: A scope names a place that is not there, or nothing to look for.
        LegalHoldError: The session is held, and something is found that keeps no original.
    """
    if not scopes:
        raise RedactionScopeError("there is nothing to redact: give at least one scope")
    if not dry_run and not reason.strip():
        raise ReasonRequiredError("a redaction needs a reason")
    alias = bridge.database(using)
    plan = Plan(scopes)

    def run(row: Session | None) -> Redaction:
        if row is None:
            raise SessionNotFoundError(f"there is no session {session}")
        return Work(alias, row, plan).run(reason, actor, dry_run=dry_run)

    def work(unsure: bool) -> Redaction | None:
        if dry_run:
            # Agents go on meanwhile: what is found is no promise.
            return run(Session.objects.using(alias).filter(pk=session).first())
        try:
            with overwrite_leftovers(alias), transaction.atomic(alias):
                return run(lock_session(alias, session))
        except ChangedMeanwhileError:
            return None

    return write(alias, work, what=f"redacting in session {session}")


async def aredact(
    session: UUID,
    *scopes: Scope,
    reason: str,
    actor: Any = None,
    dry_run: bool = False,
    using: str | None = None,
) -> Redaction:
    """Does what :func:`redact` does."""
    return await bridge.run_async(
        lambda: redact(session, *scopes, reason=reason, actor=actor, dry_run=dry_run, using=using),
        using=bridge.database(using),
    )
