"""Sessions for the tests of a project, and the contract kit for the tests of an adapter.

:func:`make_session` creates a session with messages, and ``django_agent_sessions.testing.fixtures``
provides it as a pytest fixture. The ``EchoModel`` in each adapter's module ``echo`` answers
without a network.

The contract kit tests what every adapter must guarantee on every database.

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
``AdapterContract``               all of the next five: every adapter
``ConversationContract``          exact, ordered, isolated, transactional
``AnyContextContract``            running event loops, and the transactions that wait for them
``CancellationContract``          the outcome of a cancelled write is known
``ProcessContract``               concurrent processes, and killed ones
``StatementContract``             the number of statements of a call
``MemoryContract``                redacted text is not written back from memory
``RewriteContract``               a history that is replaced from memory stays redacted
``AgentContract``                 the SDK's agents continue a redacted conversation
``ExclusiveContract``             one run of a session at a time
``BatchContract``                 several messages are written completely or not at all
``PopContract``                   removing the last message
``ClearContract``                 deleting all messages
``ReplaceContract``               replacing the history with a summary
``RedactionContract``             no copy of a redacted original is stored
================================  =============================================================
"""

from __future__ import annotations

from .base import HOSTILE_IDS, INVALID_IDS, Contract
from .cancellation import CancellationContract
from .context import A, AnyContextContract
from .conversation import ConversationContract
from .driver import (
    AgentDriver,
    AsyncDriver,
    ClearingDriver,
    Driver,
    ExclusiveDriver,
    PoppingDriver,
    RedactingDriver,
    ReplacingDriver,
    ToolCall,
)
from .exclusive import ExclusiveContract
from .factory import make_session
from .leaks import columns_containing, error_texts, files_containing
from .memory import AgentContract, MemoryContract, RewriteContract
from .optional_contracts import (
    BatchContract,
    ClearContract,
    PopContract,
    RedactionContract,
    ReplaceContract,
)
from .processes import ProcessContract
from .statements import StatementContract


class AdapterContract(
    ConversationContract[A],
    AnyContextContract[A],
    CancellationContract[A],
    ProcessContract[A],
    StatementContract[A],
):
    """The contract of every adapter. Its drivers use one object per session, as a program does."""


__all__ = [
    "HOSTILE_IDS",
    "INVALID_IDS",
    "AdapterContract",
    "AgentContract",
    "AgentDriver",
    "AnyContextContract",
    "AsyncDriver",
    "BatchContract",
    "CancellationContract",
    "ClearContract",
    "ClearingDriver",
    "Contract",
    "ConversationContract",
    "Driver",
    "ExclusiveContract",
    "ExclusiveDriver",
    "MemoryContract",
    "PopContract",
    "PoppingDriver",
    "ProcessContract",
    "RedactingDriver",
    "RedactionContract",
    "ReplaceContract",
    "ReplacingDriver",
    "RewriteContract",
    "StatementContract",
    "ToolCall",
    "columns_containing",
    "error_texts",
    "files_containing",
    "make_session",
]
