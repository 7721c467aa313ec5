"""Redaction: permanent removal of content from a session and from all of its copies.

::

    from django_agent_sessions.governance.redaction import Detect, Find, redact

    preview = redact(session.id, Find("4111 1111 1111 1111"), reason="GDPR request", dry_run=True)
    for hit in preview.hits:
        print(hit.place)
    redact(session.id, Find("4111 1111 1111 1111"), reason="GDPR request", actor=request.user)

The conversation stays valid for the next model call: roles, blocks, and the ids of calls and
results are kept. The SDKs' guardrails, the admin, the REST API and ``manage.py
agent_sessions_redact`` use these functions or, to replace a whole message with a new text,
``store.messages.redact``.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions import conf
from django_agent_sessions.content.work_budget import WorkBudget
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.db.retries import write
from django_agent_sessions.exceptions import RedactionScopeError
from django_agent_sessions.governance.session_change import change
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.session_names import SessionName, by_key, session_key
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY

from .redaction_plan import RedactionPlan
from .scope_groups import ScopeGroups
from .scopes import (
    Block,
    Detect,
    Find,
    Hit,
    MatchGroup,
    Place,
    Redaction,
    Scope,
    Span,
    WholeMessage,
)
from .visibility import SessionVisibility, Visibility

__all__ = [
    "Block",
    "Detect",
    "Find",
    "Hit",
    "MatchGroup",
    "Place",
    "Redaction",
    "Scope",
    "Span",
    "Visibility",
    "WholeMessage",
    "aredact",
    "descendants_of",
    "redact",
    "request_budget",
]

_STAFF_FACTOR = 10
_ADVICE = (
    "Redact the messages one by one, search for fewer kinds, or ask the site's operator to run "
    "`manage.py agent_sessions_redact`, which has no limit. Nothing was changed."
)


@partial(sync_only, twin="aredact")
def redact(
    session: SessionName,
    *scopes: Scope | str,
    reason: str | None = None,
    actor: Any = None,
    dry_run: bool = False,
    descendants: bool = False,
    within: QuerySet[Session] | None = None,
    visibility: SessionVisibility | None = None,
    expected: str | None = None,
    using: str | None = None,
) -> Redaction:
    """Redact content in a session, in one transaction.

    The search runs before the transaction, so that no other writer waits for it. What was written
    meanwhile is searched again.

    Args:
        session: The session.
        *scopes: What to redact; a string is a text to find.
        reason: The reason, written to the audit log; redacted content is masked in it.
        actor: The user, or a text that names a program and no user.
        dry_run: Search, but write nothing.
        descendants: Also redact in all direct and indirect forks of the session: matches of
            scopes without a message, and the copies of the messages of the other scopes.
        within: The sessions that the caller may redact; other forks are listed in ``unreached``.
            By default all.
        visibility: Returns what the user may see of a session. Neither the result nor an error
            depends on the rest, where only texts are masked that were found in what the user sees.
            By default, everything is searched.
        expected: The ``digest`` of a preview. Redact only if the matches are the same.
        using: The database alias.

    Returns:
        The matches, with one result per fork. Without matches nothing is written or audited, so
        that the function is idempotent; only an original that an earlier version left is
        overwritten, whatever is searched.

    Raises:
        SessionNotFoundError: The session does not exist, or has no such message.
        ReasonRequiredError: The reason is blank, and ``dry_run`` is false.
        ReasonError: The reason has more than 2,000 characters.
        InvalidIdError: ``session`` names no session.
        RedactionScopeError: A scope has a path that does not exist, or an empty or invalid text.
        WorkLimitError: The search takes more than the budget of the request that it is part of.
        MatchesChangedError: The matches are not those of the preview that ``expected`` names.
        LegalHoldError: The session or a fork with matches is under legal hold. Nothing is written.
    """
    if not scopes:
        raise RedactionScopeError("nothing to redact: pass at least one scope")
    alias = bridge.database(using)
    key = session_key(session, alias)
    groups = ScopeGroups(scopes)
    plan = RedactionPlan(
        alias,
        key,
        groups,
        descendants=descendants,
        within=within,
        visibility=visibility,
        dry_run=dry_run,
    )
    what = f"redacting in session {key}"
    if dry_run:
        write(alias, lambda unsure: plan.search(), what=what)
        return plan.result()
    with plan.without_orphans():
        receipt = change(
            key,
            lambda current: plan.apply(current, expected),
            what=what,
            actor=actor,
            action=AuditEvent.Action.REDACTED,
            reason=reason,
            plan=plan,
            content=True,
            using=alias,
        )
    return receipt.result


@sync_only
def descendants_of(session: SessionName, *, using: str | None = None) -> list[UUID]:
    """Return the sessions that :func:`redact` reaches with ``descendants``.

    Args:
        session: The session.
        using: The database alias.

    Returns:
        Primary keys of all direct and indirect forks, including those of other owners.
    """
    key = session_key(session, using)
    return SessionStore(owner=EVERYBODY, using=using).sessions.descendants(by_key(key))


async def aredact(
    session: SessionName,
    *scopes: Scope | str,
    reason: str | None = None,
    actor: Any = None,
    dry_run: bool = False,
    descendants: bool = False,
    within: QuerySet[Session] | None = None,
    visibility: SessionVisibility | None = None,
    expected: str | None = None,
    using: str | None = None,
) -> Redaction:
    """Async version of :func:`redact`."""
    return await bridge.run_async(
        lambda: redact(
            session,
            *scopes,
            reason=reason,
            actor=actor,
            dry_run=dry_run,
            descendants=descendants,
            within=within,
            visibility=visibility,
            expected=expected,
            using=using,
        ),
        using=bridge.database(using),
    )


def request_budget(*, staff: bool) -> WorkBudget:
    """Return the work that one request may cause with a redaction or its preview.

    ``staff`` are users with the permission ``redact``.
    """
    settings = conf.get_settings()
    factor = _STAFF_FACTOR if staff else 1
    return WorkBudget(
        settings.REDACTION_SECONDS * factor, settings.REDACTION_BYTES * factor, _ADVICE
    )
