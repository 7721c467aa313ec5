"""The store: the one writer of sessions, agents, messages and orchestrators.

It needs no SDK. The sync methods are plain ORM, for code that may use the ORM. Each has an async
twin (``aappend`` for ``append``) that works in any event loop without blocking it.
"""

from __future__ import annotations

from .agents import AgentStore
from .forks import ForkStore
from .multi_agents import MultiAgentStore
from .redacting import RedactionStore
from .turns import TurnStore

__all__ = ["SessionStore"]


class SessionStore(ForkStore, TurnStore, RedactionStore, MultiAgentStore, AgentStore):
    """Sessions of one owner in one namespace.

    ::

        store = SessionStore(owner=request.user)
        session = store.open("user-123", title="Holiday plans")
        agent = store.open_agent(session)
        store.append(agent, {"role": "user", "content": "Where shall we go?"})
        history = store.payloads(agent)

    Args:
        owner: The user whose sessions these are, or that user's primary key. Left out, the store
            reaches and creates sessions without an owner. ``EVERYBODY`` reaches every session, for
            code that decides by itself who may see what.
        namespace: The space of session ids; two bots with one namespace each never meet.
        using: The alias of the database; by default ``AGENT_SESSIONS["DATABASE"]`` or the
            database routers decide.
        create: Whether :meth:`open` creates a session that does not exist. By default it does,
            unless the owner is ``EVERYBODY``; with ``create=True`` the session has no owner then.

    Raises:
        InvalidIdError: The namespace cannot be one.
        ConfigurationError: The owner is None. One who cannot own sessions, such as an anonymous
            user, is refused at the first use.
    """
