"""For tests: sessions for those of a project, and the contract kit for those of an adapter.

:func:`make_session` creates a session with messages, and ``django_agent_sessions.testing.fixtures``
has it as a pytest fixture. The models ``EchoModel`` of the adapters' modules ``echo`` answer
without a network.

The contract kit is what every adapter and every database must guarantee, as tests to inherit.

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
``ProcessContract``               several processes, and killed ones
``StatementContract``             the number of statements of a call
``MemoryContract``                what is redacted is not written back from memory
``RewriteContract``               nor when a history is replaced from memory
``AgentContract``                 a redacted conversation of the SDK's agents goes on
``ExclusiveContract``             one run of a session at a time
``BatchContract``                 several messages are written completely or not at all
``PopContract``                   removing the last message
``ClearContract``                 deleting all messages
``ReplaceContract``               replacing the history with a summary
``RedactionContract``             a redacted original is stored nowhere any more
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
    """What every adapter keeps. Its drivers use one object per session, as a program does."""


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
