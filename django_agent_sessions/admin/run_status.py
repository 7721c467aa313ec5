"""Why a session does not run, as its stored states tell: it waits for a person, or it failed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID

from django.db.models import Case, Q, QuerySet, TextField, When
from django.db.models.lookups import Contains, GreaterThan, LessThanOrEqual
from django.utils.translation import gettext_lazy

from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import EncryptionError
from django_agent_sessions.models import SessionAgent, SessionMultiAgent
from django_agent_sessions.models.fields import ExactJSONField
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.models.stored_text import StoredText

logger = logging.getLogger(__name__)

WAITING, FAILED = "waiting", "failed"

RUN_STATUS_LABELS: dict[str, Any] = {
    WAITING: gettext_lazy("Waiting for a person"),
    FAILED: gettext_lazy("Failed"),
}

MAX_STATE = 64 * 1024
"""Bytes of the largest state that is read."""

EMPTY_SIZE = 2
"""Bytes of an empty state."""

MAX_STATES = 200
"""The most states of agents, and of orchestrators, that are read for a page of the list."""

_WAITING_MARKERS = {"internal_state": '"activated":true', "state": '"run_state":{'}
_ENDED = {"interrupted": WAITING, FAILED: FAILED}


def run_status(sessions: Collection[UUID], using: str) -> dict[UUID, str]:
    """Return why sessions wait or failed, by two statements, for those of which it is known.

    The caller may read these sessions: states are content.
    """
    if not sessions:
        return {}
    found: dict[UUID, str] = {}
    agents = SessionAgent.objects.using(using).filter(_may_wait(), session__in=sessions)
    for session, *values in _read(agents, "state", "internal_state"):
        if waits(*values):
            found[session] = WAITING
    orchestrators = SessionMultiAgent.objects.using(using).filter(session__in=sessions)
    for session, state in _read(orchestrators, "state"):
        status = _ENDED.get(str(member(state, "status")))
        if status and found.get(session) != WAITING:
            found[session] = status
    return found


def _may_wait() -> Q:
    """Return a condition that leaves out most states that tell nothing, unless they are sealed."""
    condition = Q()
    if codec.is_plain():
        for column, marker in _WAITING_MARKERS.items():
            condition |= Q(Contains(StoredText(column, output_field=TextField()), marker))
    return condition


def _read(rows: QuerySet[Any], *columns: str) -> Iterator[tuple[Any, ...]]:
    try:
        states = map(small_state, columns)
        yield from rows.order_by("pk").values_list("session", *states)[:MAX_STATES]
    except EncryptionError as error:
        # The list is for all owners, and one of them may have no key any more.
        logger.warning("the states of a page's sessions cannot be decrypted: %s", error)


def waits(state: Any, internal: Any) -> bool:
    """Return whether a run waits for a person: of the OpenAI Agents SDK, or of Strands."""
    interrupts = member(internal, "interrupt_state")
    return bool(member(state, "run_state") or member(interrupts, "activated"))


def member(value: Any, key: str) -> Any:
    """Return a member of a value if it is an object that has it."""
    return value.get(key) if isinstance(value, dict) else None


def small_state(column: str) -> Case:
    """Return an expression that is NULL if the column is empty or large, so that it is not read."""
    return Case(
        When(is_small(OctetLength(column)), then=StoredText(column, output_field=ExactJSONField())),
        default=None,
        output_field=ExactJSONField(null=True),
    )


def is_small(size: OctetLength) -> Q:
    return Q(GreaterThan(size, EMPTY_SIZE)) & Q(LessThanOrEqual(size, MAX_STATE))
