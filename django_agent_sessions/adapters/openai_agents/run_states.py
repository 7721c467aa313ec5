"""The states of runs that wait for a person, stored with the session's agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from agents import Agent, RunContextWrapper, RunState
from agents.result import RunResult, RunResultStreaming

from django_agent_sessions.adapters.base import ConversationSession
from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError
from django_agent_sessions.store.locking import with_session_lock
from django_agent_sessions.store.snapshots import RUN_STATE
from django_agent_sessions.values.records import AgentRecord

from .branch_session import INITIAL_BRANCH, BranchSession
from .compaction import is_encrypted
from .item_links import call_link

R = TypeVar("R")

_Context = RunContextWrapper[Any]


class WaitingRun(NamedTuple):
    """A run that waits for a person: its state as JSON, and the ids of the calls it asks about."""

    state: dict[str, Any]
    calls: list[str]


class RunStates:
    """The methods of a session for runs that wait for a person."""

    async def _run(
        self, operate: Callable[[ConversationSession], R], wrapper: _Context | None
    ) -> R:
        raise NotImplementedError

    async def save_run_state(
        self, result: RunResult | RunResultStreaming, *, wrapper: _Context | None = None
    ) -> bool:
        """Store the state of a run that was interrupted for approval; it replaces an earlier one.

        ::

            result = await Runner.run(agent, text, session=session)
            waits = await session.save_run_state(result)

        It is stored with the session's agent, so that redactions reach it; what was redacted during
        the run is masked. Call it after each run: for a run that has ended, nothing is stored and
        an earlier state is removed. Returns whether the run waits for a person. ``wrapper`` is the
        context for a callable owner, by default that of the run.

        Raises ``SessionNotFoundError`` if the session does not exist or has another owner, and
        ``ConfigurationError`` if an ``EncryptedSession`` encrypts the items, because the state
        would not be encrypted.
        """
        asked = result.interruptions
        waiting = None
        if asked:
            calls = [each.call_id for each in asked if each.call_id]
            waiting = WaitingRun(result.to_state().to_json(), calls)
        await self._run(partial(_save, waiting=waiting), wrapper or result.context_wrapper)
        return bool(asked)

    async def take_run_state(
        self, agent: Agent[Any], *, wrapper: _Context | None = None, **options: Any
    ) -> RunState[Any, Agent[Any]] | None:
        """Remove the stored state of a run and return it, to decide on its calls and resume it.

        ::

            state = await session.take_run_state(agent)
            if state is not None:
                for interruption in state.get_interruptions():
                    state.approve(interruption)
                result = await Runner.run(agent, state, session=session)
                await session.save_run_state(result)

        Only one of several callers receives it, because a state that is resumed twice calls its
        tools twice. It is None if no run waits, or if the calls that it waits for are no longer in
        the conversation, because it was rewound or cleared. An ``AdvancedDjangoSession`` switches
        to the branch on which the run began.

        ``agent`` is the one that the run began with, ``wrapper`` the context for a callable owner,
        and ``options`` are those of ``RunState.from_json``, such as ``context_override``. Raises
        ``SessionNotFoundError`` if the session has another owner.
        """
        state = await self._run(_take, wrapper)
        return None if state is None else await RunState.from_json(agent, state, **options)


def _save(session: ConversationSession, *, waiting: WaitingRun | None) -> None:
    agent = session.find()
    branch = None if agent is None else session.branch_of(agent)
    if branch is None:
        if waiting is None:
            return
        raise SessionNotFoundError(f"session {session.session_id!r} does not exist")
    value = None
    if waiting is not None:
        items = session.read_positioned(None, branch)
        if is_encrypted([item.payload for item in items]):
            raise ConfigurationError(
                "the state of a run has the conversation in plain text, and the session is "
                "encrypted: encrypt the state, and store it elsewhere"
            )
        stored = _call_ids([item.payload for item in items])
        value = {
            "branch": _branch_name(session),
            # The SDK may hold a call back until it is answered.
            "calls": [call for call in waiting.calls if call in stored],
            "state": waiting.state,
        }
    _swap(session, branch, value)


def _take(session: ConversationSession) -> dict[str, Any] | None:
    agent = session.find()
    if agent is None or not _has_state(agent):
        return None
    waiting = _swap(session, agent, None)
    if not isinstance(waiting, dict):
        return None
    try:
        _go_to(session, str(waiting.get("branch")))
    except ValueError:
        # The branch was deleted.
        return None
    branch = session.branch_of(agent)
    items = [] if branch is None else session.read_from(None, branch) or []
    state: dict[str, Any] = waiting["state"]
    return state if _call_ids(items).issuperset(waiting["calls"]) else None


def awaited_calls(session: ConversationSession) -> frozenset[str]:
    """Return the ids of the calls that a stored run waits for."""
    agent = session.find()
    if agent is None or not _has_state(agent):
        return frozenset()
    waiting = agent.data.state[RUN_STATE]
    return frozenset(waiting["calls"] if isinstance(waiting, dict) else ())


def _call_ids(items: Sequence[Any]) -> set[str]:
    return {link.call_id for item in items if (link := call_link(item)) is not None}


def _has_state(agent: AgentRecord) -> bool:
    return isinstance(agent.data.state, dict) and RUN_STATE in agent.data.state


def _swap(session: ConversationSession, branch: AgentRecord, value: Any) -> Any:
    """Replace the stored state and return the previous one, with the session's row locked."""
    store, what = session.store, f"storing the state of a run of session {session.session_id!r}"

    def swap(_: Any) -> Any:
        found = store.sessions.find_with_agent(session.session_id, session.agent_id)
        if found is None:
            raise SessionNotFoundError(f"{what}: it was deleted")
        record, agent = found
        if value is not None and record.redaction_epoch != session.memory.known.epoch:
            session.reload(branch)
        before = agent.data.state if isinstance(agent.data.state, dict) else {}
        after = {name: item for name, item in before.items() if name != RUN_STATE}
        if value is not None:
            after[RUN_STATE] = session.memory.clean(value)
        if after != before:
            store.agents.update(agent, replace(agent.data, state=after))
        return before.get(RUN_STATE)

    return with_session_lock(session.using, branch.session, swap, what=what)


def _branch_name(session: ConversationSession) -> str:
    return session.memory.place.name if isinstance(session, BranchSession) else INITIAL_BRANCH.name


def _go_to(session: ConversationSession, name: str) -> None:
    if isinstance(session, BranchSession):
        session.memory.place = session.find_branch(name)
