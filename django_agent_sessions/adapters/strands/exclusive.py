"""Exclusive sessions: one run at a time, each of which continues where the last one ended."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from strands import Agent
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

from django_agent_sessions.adapters.base import ExclusiveRuns
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionConflictError,
)
from django_agent_sessions.values.records import AgentRecord

from .conversation import Conversation
from .newer_names import BIDI_AGENTS, LocalAgent
from .restore import StoredAgent, restore_agent
from .session_operations import SessionOperations


class RunLeases:
    """The leases of the runs of a manager.

    Strands reports the beginning of a run, but not always its end: not if a hook failed before or
    after it. So a lease is renewed only from the first call of a model, tool or node on, when
    Strands guarantees an event for the end, until the end begins. If anything fails outside of
    that, the lease expires soon.
    """

    def __init__(self, work: SessionOperations, runs: ExclusiveRuns) -> None:
        self._work = work
        self._runs = runs

    def register_hooks(self, registry: HookRegistry) -> None:
        """Register the hooks that acquire and release leases, around all other hooks."""
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

    def reject_bidirectional(self, agent: LocalAgent) -> None:
        """Reject an agent whose runs have no beginning that Strands reports."""
        if isinstance(agent, BIDI_AGENTS):
            raise ConfigurationError(
                "exclusive=True does not support a BidiAgent, because Strands does not report "
                "its runs: create the manager without exclusive=True, and run the agent within "
                "leases.acquire()"
            )

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
        # A hook resumes the agent: the same turn continues.
        if event.resume is None:
            await self._runs.aend(event.agent.agent_id)

    async def _on_group_ended(self, event: AfterMultiAgentInvocationEvent) -> None:
        await self._runs.aend(run_key(event.source))

    # --- turns -------------------------------------------------------------------------------

    async def _begin(
        self, source: LocalAgent | MultiAgentBase, catch_up: Callable[[], Any]
    ) -> None:
        key = run_key(source)
        known = self._runs.lease(key)
        if known is not None:
            # The turn continues, or the end of the last one was not reported.
            if key not in self._runs.rejected and await known.arenew():
                return
            await self._runs.aend(key)
        using = self._work.store.using
        session = await bridge.run_async(self._work.open, using=using)
        lease = await self._runs.acquire(session, using, keep=False)
        try:
            await catch_up()
        except BaseException:
            await lease.arelease()
            raise
        self._runs.add(lease, key)

    def _keep(self, source: LocalAgent | MultiAgentBase) -> None:
        if (lease := self._runs.lease(run_key(source))) is not None:
            lease.keep()

    def _let_expire(self, source: LocalAgent | MultiAgentBase) -> None:
        if (lease := self._runs.lease(run_key(source))) is not None:
            lease.let_expire()

    # --- changes by other runs ---------------------------------------------------------------

    async def _catch_up(self, agent: Agent) -> None:
        is_interrupted = agent._interrupt_state.activated
        read = functools.partial(self._read_if_changed, agent)
        found = await bridge.run_async(read, using=self._work.store.using)
        if found is None or (is_interrupted and _is_interrupted(found.record)):
            # The agent continues where it stopped, also with answers that it has just received.
            return
        old = self._work.conversation(agent)
        new_conversation = Conversation(weakref.ref(agent), run_id=old.run_id, spent=old.spent)
        restore_agent(agent, new_conversation, found, self._work.session_id)
        if old.record is not None and agent.agent_id not in self._runs.rejected:
            # Unwritten because the database was unavailable: not lost because of another run.
            new_conversation.pending_messages, new_conversation.may_be_written = (
                old.pending_messages,
                old.may_be_written,
            )
            agent.messages.extend(new.payload for new in old.pending_messages)
        self._runs.rejected.discard(agent.agent_id)
        self._work.conversations[agent.agent_id] = new_conversation
        # Strands interpreted the input of this run, as a text or as answers, before it had a lease.
        if is_interrupted:
            raise SessionConflictError(
                f"the interrupt of agent {agent.agent_id!r} in session {self._work.session_id!r} "
                "was answered in another run; the agent has been reloaded, call it with a prompt"
            )
        if agent._interrupt_state.activated:
            raise SessionConflictError(
                f"agent {agent.agent_id!r} in session {self._work.session_id!r} was interrupted "
                "in another run and waits for an answer; the agent has been reloaded, call it "
                "with the answer"
            )

    def _read_if_changed(self, agent: LocalAgent) -> StoredAgent | None:
        """Read an agent if it differs from what this process knows; None if not."""
        conversation = self._work.conversation(agent)
        record = self._work.store.agents.find(self._work.open(), agent.agent_id)
        if record is None:
            return None
        same = (
            conversation.record is not None
            and conversation.record.id == record.id
            and conversation.known_state == record.data
            and agent.agent_id not in self._runs.rejected
        )
        if same:
            latest = self._work.store.messages.latest(record, 1)
            stored = (latest[0].message_id, _id_of(latest[0].content)) if latest else None
            known = conversation.latest
            if stored == (known and (known.position, _id_of(known.message))):
                return None
        return self._work.read_or_create(conversation, agent)

    async def _catch_up_group(self, source: MultiAgentBase) -> None:
        orchestrators = self._work.orchestrators
        read = functools.partial(orchestrators.changed_elsewhere, source.id)
        state = await bridge.run_async(read, using=self._work.store.using)
        if state is not None:
            self._work.restore_orchestrator(source, state)


def run_key(source: LocalAgent | MultiAgentBase) -> Hashable:
    """Return the key of the run of an agent or orchestrator among those of a manager."""
    return ("group", source.id) if isinstance(source, MultiAgentBase) else source.agent_id


def _is_interrupted(record: AgentRecord) -> bool:
    interrupts = record.data.internal_state.get("interrupt_state") or {}
    return bool(interrupts.get("activated"))


def _id_of(message: Any) -> Any:
    return message.get("tracking_id") if isinstance(message, dict) else None
