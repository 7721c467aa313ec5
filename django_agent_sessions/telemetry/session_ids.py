"""The session in OpenTelemetry's context: for spans that start, and as baggage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

from opentelemetry import baggage, context, trace
from opentelemetry.context.context import Context

from django_agent_sessions import conf
from django_agent_sessions.values.ids import validate_id, validate_namespace

CONVERSATION_ID = "gen_ai.conversation.id"
SESSION_ID = "agent_sessions.session_id"
NAMESPACE = "agent_sessions.namespace"
AGENT_ID = "agent_sessions.agent_id"

ATTRIBUTES = (CONVERSATION_ID, SESSION_ID, NAMESPACE, AGENT_ID)

_KEY = context.create_key("agent-sessions")


class SessionIds(NamedTuple):
    """What identifies a session and its agent; no scope, which often is a user's id."""

    session_id: str
    namespace: str = ""
    agent_id: str = ""

    def attributes(self) -> dict[str, str]:
        """Return the attributes of spans, and the entries of baggage."""
        found = {
            CONVERSATION_ID: self.session_id,
            SESSION_ID: self.session_id,
            NAMESPACE: self.namespace,
            AGENT_ID: self.agent_id,
        }
        return {name: value for name, value in found.items() if value}


def ids_of(within: Context | None = None) -> SessionIds | None:
    """Return the ids in a context, by default in the present one."""
    found = context.get_value(_KEY, within)
    return found if isinstance(found, SessionIds) else None


def enter_session(ids: SessionIds) -> None:
    """Set the session on the current span, and for what follows in this thread or task."""
    known = ids_of()
    if known is not None and not ids.agent_id and known[:2] == ids[:2]:
        ids = known
    trace.get_current_span().set_attributes(ids.attributes())
    if ids != known:
        context.attach(_with_session(ids))


def forget(**kwargs: Any) -> None:
    """Remove the session that an earlier request of this thread used."""
    if ids_of() is not None:
        context.attach(context.set_value(_KEY, None, _without_baggage()))


@contextmanager
def session_context(
    session_id: str | UUID, *, namespace: str = "", agent_id: str = ""
) -> Iterator[None]:
    """Set the session for the spans that start in a block, and restore the context after it.

    For queue tasks and scripts, whose threads keep the session of an earlier task otherwise, and
    for code that uses :class:`~django_agent_sessions.store.SessionStore` without an SDK.

    Args:
        session_id: The id of the session.
        namespace: Its namespace.
        agent_id: The id of the agent, if there is one.

    Raises:
        InvalidIdError: An id is invalid.
    """
    ids = SessionIds(validate_id(session_id), validate_namespace(namespace), agent_id)
    token = context.attach(_with_session(ids))
    try:
        yield
    finally:
        context.detach(token)


def _with_session(ids: SessionIds) -> Context:
    changed = context.set_value(_KEY, ids, _without_baggage())
    if conf.get_settings().TELEMETRY_BAGGAGE:
        for name, value in ids.attributes().items():
            changed = baggage.set_baggage(name, value, changed)
    return changed


def _without_baggage() -> Context:
    found: Mapping[str, object] = baggage.get_all()
    changed = context.get_current()
    for name in ATTRIBUTES:
        if name in found:
            changed = baggage.remove_baggage(name, changed)
    return changed
