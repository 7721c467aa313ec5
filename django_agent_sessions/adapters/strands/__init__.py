"""Strands Agents on the project's database.

One line gives an agent persistent sessions::

    agent = Agent(session_manager=DjangoSessionManager(session_id, owner=request.user))

* :class:`DjangoSessionManager` is the recommended class.
* :class:`DjangoSessionRepository` is the repository alone, for Strands' own
  ``RepositorySessionManager`` and for scripts.
* :class:`DjangoStorage` is for Strands' ``SnapshotSessionManager`` and other users of a storage.
* :class:`StorageSessionRepository` stores files in a Django storage, without a database.
"""

from __future__ import annotations

from typing import NoReturn

from django_agent_sessions.exceptions import ConfigurationError, MissingDependencyError
from django_agent_sessions.values.dependencies import require_version

try:
    import strands  # noqa: F401 - imported here so that the error names the extra
except ImportError as error:
    raise MissingDependencyError("strands-agents", extra="strands") from error
else:
    require_version("strands-agents", "1.43", extra="strands")

from strands._async import run_async

from django_agent_sessions.db import bridge

from .manager import DjangoSessionManager
from .repository import DjangoSessionRepository
from .storage import StorageSessionRepository

__all__ = [
    "DjangoSessionManager",
    "DjangoSessionRepository",
    "DjangoStorage",
    "StorageSessionRepository",
]

try:
    from .snapshots import DjangoStorage
except ImportError:
    # Strands has storages with a search from 1.54 on; the message log needs none.
    def __getattr__(name: str) -> NoReturn:
        if name == "DjangoStorage":
            raise ConfigurationError(
                "DjangoStorage requires strands-agents 1.54 or newer, for its storages; "
                "DjangoSessionManager does not"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ``agent("Hello")`` runs the agent's event loop in a new thread and blocks the caller until that
# thread has ended, so that the call may join the caller's transaction. ``run_async`` creates
# ``execute_async`` itself, runs it in that thread, and waits for it before it returns.
bridge.register_waiting_call(run_async.__code__, "execute_async")
