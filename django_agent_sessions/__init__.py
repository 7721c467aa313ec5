"""Durable, browsable, redactable AI agent sessions in a Django project's own database.

::

    from django_agent_sessions import SessionStore

    history = SessionStore(owner=request.user).sessions.list()

Importing the package does not import Django: each name is imported at its first use. A settings
file can import ``NOBODY``, ``EVERYBODY`` and the errors; the other names require
``django.setup()``. Import the adapters from their own packages, such as
``django_agent_sessions.adapters.strands``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .db.bridge import arun_orm, run_orm
    from .exceptions import (
        AgentSessionsError,
        SessionBusyError,
        SessionNotFoundError,
    )
    from .governance.legal_hold import hold, release
    from .governance.redaction import (
        Block,
        Detect,
        Find,
        Span,
        WholeMessage,
        aredact,
        redact,
    )
    from .store import SessionStore
    from .values.owners import EVERYBODY, NOBODY

__version__ = "0.2.0"

__all__ = [
    "EVERYBODY",
    "NOBODY",
    "AgentSessionsError",
    "Block",
    "Detect",
    "Find",
    "SessionBusyError",
    "SessionNotFoundError",
    "SessionStore",
    "Span",
    "WholeMessage",
    "aredact",
    "arun_orm",
    "hold",
    "redact",
    "release",
    "run_orm",
]

_MODULES = {
    "EVERYBODY": "values.owners",
    "NOBODY": "values.owners",
    "AgentSessionsError": "exceptions",
    "Block": "governance.redaction",
    "Detect": "governance.redaction",
    "Find": "governance.redaction",
    "SessionBusyError": "exceptions",
    "SessionNotFoundError": "exceptions",
    "SessionStore": "store",
    "Span": "governance.redaction",
    "WholeMessage": "governance.redaction",
    "aredact": "governance.redaction",
    "arun_orm": "db.bridge",
    "hold": "governance.legal_hold",
    "redact": "governance.redaction",
    "release": "governance.legal_hold",
    "run_orm": "db.bridge",
}

# With `__getattr__`, type checkers would accept any name; they read the imports above instead.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name at its first use."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f".{_MODULES[name]}", __name__), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        """List the public names too, before their first use."""
        return sorted({*globals(), *__all__})
