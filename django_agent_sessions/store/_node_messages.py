"""What the nodes of a graph or swarm said, as messages of the session.

An SDK stores only the orchestrator's state, which the next run overwrites. When a state is written,
its new messages are appended to an agent of each node, named ``<orchestrator>/<node>``, so that
they are read, searched, exported and redacted as all other messages. No SDK restores these agents.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from django.utils import timezone

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.models import Session, SessionMultiAgent
from django_agent_sessions.sql import lookup
from django_agent_sessions.values.ids import MAX_ID_LENGTH, id_for_time, new_id, validate_id
from django_agent_sessions.values.records import AgentRecord, Append, NewMessage, SessionRecord

from ._agent_rows import agent_without_state, insert_agent, new_agent

_TASK = "task"
# The messages of a state differ in their times, by which copies of several agents are ordered.
_STEP = timedelta(milliseconds=1)
_DIGEST = 16

logger = logging.getLogger("django_agent_sessions")


def node_appends(
    using: str,
    session: SessionRecord | Session,
    multi_agent_id: str,
    state: object,
    *,
    before: object = None,
    at: datetime | None = None,
) -> Iterator[Append]:
    """Yield the appends of what a state says that the earlier one does not.

    They are to be written in the transaction of the new state, with the session's lock: a retry
    then finds it as the earlier state and appends nothing.
    """
    dialect, messages = dialects.node_messages(state, before)
    if any(len(node) > 1 for node, _ in messages):
        # A graph inside another one may store its nodes' messages itself.
        others = SessionMultiAgent.objects.using(using).filter(session=session.id)
        others = others.exclude(multi_agent_id=multi_agent_id)
        dialect, messages = dialects.node_messages(
            state, before, *others.values_list("state", flat=True)
        )
    start = at or timezone.now() - _STEP * (len(messages) - 1)
    timed = [
        (node, _new_message(message, start + _STEP * place, dated=at is not None))
        for place, (node, message) in enumerate(messages)
    ]
    for node, of_node in itertools.groupby(timed, key=itemgetter(0)):
        agent = _agent(using, session, _agent_id(multi_agent_id, node), dialect)
        if agent is not None:
            yield Append(agent, [message for _, message in of_node])


def has_node_messages(state: object) -> bool:
    """Return whether a state has messages of nodes, or a task."""
    return bool(dialects.node_messages(state)[1])


def _new_message(message: Any, moment: datetime, *, dated: bool) -> NewMessage:
    # A new key is ordered after all earlier ones; that of an imported message by its time.
    key = id_for_time(moment, 0) if dated else new_id()
    return NewMessage(message, id=key, created_at=moment)


def _agent(
    using: str, session: SessionRecord | Session, agent_id: str, dialect: str
) -> AgentRecord | None:
    row = lookup.get_agent(using, session.id, agent_id)
    if row is None:
        return insert_agent(using, new_agent(using, session, agent_id, dialect))
    if row.dialect == dialect:
        return agent_without_state(row)
    logger.warning(
        "agent %s (row %s) has the name of a node, whose messages are only in the state of its "
        "orchestrator",
        agent_id,
        row.id,
    )
    return None


def _agent_id(multi_agent_id: str, node: Sequence[str]) -> str:
    """Return the id of a node's agent: shortened and without characters that an id cannot have."""
    name = "/".join((multi_agent_id, *(node or (_TASK,))))
    try:
        return validate_id(name, "agent_id")
    except InvalidIdError:
        digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST]
        printable = "".join(c if c.isprintable() else "\ufffd" for c in displayable(name))
        return f"{printable[: MAX_ID_LENGTH - _DIGEST - 1]}-{digest}"
