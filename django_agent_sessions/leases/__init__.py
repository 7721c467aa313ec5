"""One active run of a session at a time, whichever process it is in.

::

    session = SessionStore(owner=request.user).open(session_id)
    with leases.acquire(session.id):
        agent = Agent(session_manager=DjangoSessionManager(session_id, owner=request.user))
        agent("Hello")

A lease is a row with a token and an expiry by the database's clock. It is renewed while it is held,
so that it is over soon after its process was killed. No transaction, lock or state of a connection
is held meanwhile, so that it works behind a pooler too.
"""

from __future__ import annotations

from .acquiring import aacquire, acquire
from .lease import Lease

__all__ = ["Lease", "aacquire", "acquire"]
