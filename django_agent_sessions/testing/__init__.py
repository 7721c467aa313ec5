"""The contract kit: what every adapter and every database must guarantee, as tests to inherit.

A test module of an adapter defines a driver for it and inherits the contracts that it fulfils::

    from django_agent_sessions import testing
    from django_agent_sessions.values.owners import NOBODY


    class RabbitDriver:  # a testing.Driver
        ...


    class TestRabbit(testing.ConversationContract, testing.PopContract):
        def driver(self, *, owner=NOBODY, namespace=""):
            return RabbitDriver(owner, namespace)

Every method of :class:`Driver` is sync; an async adapter wraps its calls in ``asyncio.run``.
The contracts are plain pytest classes. They require pytest-django, and a test database that a
second thread can connect to: for SQLite, a file. This is the only package that imports pytest.

================================  =============================================================
``ConversationContract``          exact, ordered, isolated, transactional: every adapter
``AnyContextContract``            running event loops, and the transactions that wait for them
``BatchContract``                 several messages are written completely or not at all
``PopContract``                   removing the last message
``ClearContract``                 deleting all messages
``RedactionContract``             a redacted original is stored nowhere any more
================================  =============================================================
"""

from __future__ import annotations

from .base import HOSTILE_IDS, INVALID_IDS, Contract
from .context import AnyContextContract
from .conversation import ConversationContract
from .driver import AsyncDriver, ClearingDriver, Driver, PoppingDriver, RedactingDriver
from .leaks import columns_containing, error_texts, files_containing
from .optional_contracts import BatchContract, ClearContract, PopContract, RedactionContract

__all__ = [
    "HOSTILE_IDS",
    "INVALID_IDS",
    "AnyContextContract",
    "AsyncDriver",
    "BatchContract",
    "ClearContract",
    "ClearingDriver",
    "Contract",
    "ConversationContract",
    "Driver",
    "PopContract",
    "PoppingDriver",
    "RedactingDriver",
    "RedactionContract",
    "columns_containing",
    "error_texts",
    "files_containing",
]
