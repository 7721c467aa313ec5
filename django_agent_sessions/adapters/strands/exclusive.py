"""Taking turns: one run of a session at a time, each of which goes on where the last one ended."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from strands import Agent
from strands.bidi import BidiAgent
from strands.hooks.events import (
    AfterInvocationEvent,
    AfterMultiAgentInvocationEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeMultiAgentInvocationEvent,
    BeforeNodeCallEvent,
    BeforeToolCallEvent,
)
from strands.hooks.registry import HookRegistry
from strands.multiagent.base import MultiAgentBase
from strands.types.agent import LocalAgent

from django_agent_sessions import bridge, leases
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionBusyError,
    SessionConflictError,
)
from django_agent_sessions.records import AgentRecord

from .conversation import Conversation
from .restoring import Found, restore
from .work import SessionWork

R = TypeVar("R")


class Turns:
    """The leases of the runs of one manager.

    Strands says that a run begins and ends, but not always that it ended: not where a hook failed
    before it or after it. So a lease is kept only from the first call of a model, tool or node,
    which Strands makes where the end is certain to be told, until the end begins. Whatever fails
    outside of that, the lease expires soon.
    """

    def __init__(self, work: SessionWork, *, wait: float | None) -> None:
        self._work = work
        self._wait = wait
        self._leases: dict[object, leases.Lease] = {}
        # Agents that have in memory what they were not allowed to write.
        self._unwritten: set[object] = set()

    def register_hooks(self, registry: HookRegistry) -> None:
        """Registers what takes and gives back, around whatever other hooks do."""
        first, last = -math.inf, math.inf
        registry.add_callback(BeforeInvocationEvent, self._on_agent_begins, order=first)
        registry.add_callback(BeforeMultiAgentInvocationEvent, self._on_group_begins, order=first)
        registry.add_callback(BeforeModelCallEvent, self._on_agent_works)
        registry.add_callback(BeforeToolCallEvent, self._on_agent_works)
        registry.add_callback(BeforeNodeCallEvent, self._on_group_works)
        registry.add_callback(AfterInvocationEvent, self._on_agent_ends, order=first)
        registry.add_callback(AfterMultiAgentInvocationEvent, self._on_group_ends, order=first)
        registry.add_callback(AfterInvocationEvent, self._on_agent_ended, order=last)
        registry.add_callback(AfterMultiAgentInvocationEvent, self._on_group_ended, order=last)

    def refuse_endless(self, agent: LocalAgent) -> None:
        """Refuses an agent whose runs have no beginning that Strands would tell."""
        if isinstance(agent, BidiAgent):
            raise ConfigurationError(
                "exclusive=True is not for a BidiAgent, which does not say when it begins: make "
                "the manager without it, and run the agent within leases.acquire()"
            )

    def guarded(
        self, source: LocalAgent | MultiAgentBase, write: Callable[[], R]
    ) -> Callable[[], R]:
        """Makes a write one that fails when the run has lost the session."""
        key = _key(source)

        def guarded() -> R:
            if (lease := self._leases.get(key)) is not None:
                try:
                    lease.check()
                except SessionBusyError:
                    self._unwritten.add(key)
                    raise
            return write()

        return guarded

    async def end(self, source: LocalAgent | MultiAgentBase) -> None:
        """Ends a run's turn, if it has one."""
        if (lease := self._leases.pop(_key(source), None)) is not None:
            await lease.arelease()

    # --- Strands' events ---------------------------------------------------------------------

    async def _on_agent_begins(self, event: BeforeInvocationEvent) -> None:
        agent = event.agent
        await self._begin(agent, functools.partial(self._catch_up, agent))

    async def _on_group_begins(self, event: BeforeMultiAgentInvocationEvent) -> None:
        source = event.source
        await self._begin(source, functools.partial(self._catch_up_group, source))

    def _on_agent_works(self, event: BeforeModelCallEvent | BeforeToolCallEvent) -> None:
        self._keep(event.agent)

    def _on_group_works(self, event: BeforeNodeCallEvent) -> None:
        self._keep(event.source)

    def _on_agent_ends(self, event: AfterInvocationEvent) -> None:
        self._let_expire(event.agent)

    def _on_group_ends(self, event: AfterMultiAgentInvocationEvent) -> None:
        self._let_expire(event.source)

    async def _on_agent_ended(self, event: AfterInvocationEvent) -> None:
        # A hook has more to say to the agent: the same turn goes on.
        if event.resume is None:
            await self.end(event.agent)

    async def _on_group_ended(self, event: AfterMultiAgentInvocationEvent) -> None:
        await self.end(event.source)

    # --- turns -------------------------------------------------------------------------------

    async def _begin(
        self, source: LocalAgent | MultiAgentBase, catch_up: Callable[[], Any]
    ) -> None:
        key = _key(source)
        known = self._leases.get(key)
        if known is not None:
            # The turn goes on, or the end of the last one was not told.
            if key not in self._unwritten and await known.arenew():
                return
            await self.end(source)
        using = self._work.store.using
        session = await bridge.run_async(self._work.open, using=using)
        lease = await leases.aacquire(session.id, wait=self._wait, using=using, keep=False)
        try:
            await catch_up()
        except BaseException:
            await lease.arelease()
            raise
        self._leases[key] = lease

    def _keep(self, source: LocalAgent | MultiAgentBase) -> None:
        if (lease := self._leases.get(_key(source))) is not None:
            lease.keep()

    def _let_expire(self, source: LocalAgent | MultiAgentBase) -> None:
        if (lease := self._leases.get(_key(source))) is not None:
            lease.let_expire()

    # --- what others did meanwhile -----------------------------------------------------------

    async def _catch_up(self, agent: Agent) -> None:
        asked = agent._interrupt_state.activated
        read = functools.partial(self._read_if_changed, agent)
        found = await bridge.run_async(read, using=self._work.store.using)
        if found is None or (asked and _asks(found.record)):
            # It goes on where it stopped, also with the answers that it was just given.
            return
        before = self._work.conversation(agent)
        after = Conversation(weakref.ref(agent), run_id=before.run_id, spent=before.spent)
        restore(agent, after, found)
        if before.record is not None and _key(agent) not in self._unwritten:
            # The database could not be reached; another run's turn is no reason to forget it.
            after.unwritten, after.unsure = before.unwritten, before.unsure
            agent.messages.extend(new.payload for new in before.unwritten)
        self._unwritten.discard(_key(agent))
        self._work.conversations[agent.agent_id] = after
        # Strands took what this run begins with for a text, or for answers, before it was its turn.
        if asked:
            raise SessionConflictError(
                f"what agent {agent.agent_id!r} asked in session {self._work.session_id!r} was "
                "answered in another run; the agent holds what that left and takes a text now"
            )
        if agent._interrupt_state.activated:
            raise SessionConflictError(
                f"agent {agent.agent_id!r} in session {self._work.session_id!r} waits for the "
                "answer to what it asked in another run; the agent holds the question and takes "
                "the answer now"
            )

    def _read_if_changed(self, agent: LocalAgent) -> Found | None:
        """Reads an agent that is not as this process knows it; database work."""
        conversation = self._work.conversation(agent)
        record = self._work.store.read_agent(self._work.open(), agent.agent_id)
        if record is None:
            return None
        same = (
            conversation.record is not None
            and conversation.record.id == record.id
            and conversation.known_state == record.data
            and _key(agent) not in self._unwritten
        )
        if same:
            latest = self._work.store.latest(record, 1)
            there = (latest[0].message_id, _id_of(latest[0].content)) if latest else None
            known = conversation.latest
            if there == (known and (known.position, _id_of(known.message))):
                return None
        return self._work.read_or_make(conversation, agent)

    async def _catch_up_group(self, source: MultiAgentBase) -> None:
        orchestrators = self._work.orchestrators
        read = functools.partial(orchestrators.changed_elsewhere, source.id)
        state = await bridge.run_async(read, using=self._work.store.using)
        if state is not None:
            orchestrators.restore(source, state)


def _key(source: LocalAgent | MultiAgentBase) -> object:
    return ("group", source.id) if isinstance(source, MultiAgentBase) else source.agent_id


def _asks(record: AgentRecord) -> bool:
    interrupts = record.data.internal_state.get("interrupt_state") or {}
    return bool(interrupts.get("activated"))


def _id_of(message: Any) -> Any:
    return message.get("tracking_id") if isinstance(message, dict) else None
