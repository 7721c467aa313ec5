"""Leases: one active run per session, across processes.

::

    session = SessionStore(owner=request.user).open(session_id)
    with leases.acquire(session):
        agent = Agent(session_manager=DjangoSessionManager(session_id, owner=request.user))
        agent("Hello")

A lease is a row with a token and an expiry in the database's time. It is renewed while it is held,
so that it expires soon after its process was killed. No transaction, lock or connection is held
meanwhile, so that leases also work behind a connection pooler.
"""

from __future__ import annotations

from .lease import Lease, aacquire, acquire

__all__ = ["Lease", "aacquire", "acquire"]
