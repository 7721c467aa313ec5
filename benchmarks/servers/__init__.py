"""Database servers of one run alone: in a directory of theirs, on a free port, killed at will.

Whatever breaks a server on purpose starts one of these, so that nobody else's data is in reach.
"""

from __future__ import annotations

from .interface import Server, ServerError
from .mariadb import MariaDBServer
from .places import free_port, scratch
from .postgresql import PostgreSQLServer
from .processes import end_on_sigterm

__all__ = [
    "MariaDBServer",
    "PostgreSQLServer",
    "Server",
    "ServerError",
    "end_on_sigterm",
    "free_port",
    "scratch",
]
