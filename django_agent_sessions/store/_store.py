"""The store of sessions."""

from __future__ import annotations

from ._agents import AgentStore
from ._forks import ForkStore
from ._multi_agents import MultiAgentStore
from ._redaction import RedactionStore
from ._turns import TurnStore


class SessionStore(ForkStore, TurnStore, RedactionStore, MultiAgentStore, AgentStore):
    """Sessions of one owner in one namespace.

    ::

        store = SessionStore(owner=request.user)
        session = store.open("user-123", title="Holiday plans")
        agent = store.agents.open(session)
        store.append(agent, {"role": "user", "content": "Where shall we go?"})
        history = store.payloads(agent)

    Args:
        owner: The user who owns the sessions, or that user's primary key. Left out, only sessions
            without an owner are reached and created. ``EVERYBODY`` reaches all sessions; the
            caller then checks access itself.
        namespace: The namespace of the session ids. Two bots with different namespaces can use
            the same ids.
        using: The database alias; by default ``AGENT_SESSIONS["DATABASE"]`` or the choice of the
            database routers.
        create: Whether :meth:`open` creates a missing session. The default is True, except with
            ``owner=EVERYBODY``, where ``create=True`` creates sessions without an owner.

    Raises:
        InvalidIdError: The namespace is invalid.
        ConfigurationError: The owner is None. A user who cannot own sessions, such as an anonymous
            user, is refused at the first use.
    """
