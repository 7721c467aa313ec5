"""Compactions of a session: after a run, or when the session's user asks for one."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from agents import RunContextWrapper
from openai import OpenAIError

from django_agent_sessions.adapters.base import ConversationSession
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.values.records import AgentRecord, NewMessage, PositionedPayload

from .compacted_part import ConversationPart, ReadPart, part_read, read_part, replace_part
from .compaction import Compaction, CompactionMode, candidates, is_encrypted
from .model_exchange import seen_digests
from .run_usage import RunUsage, spent_of

logger = logging.getLogger("django_agent_sessions")

R = TypeVar("R")

_Context = RunContextWrapper[Any]


class _RunInThread(Protocol):
    """Runs an operation on the session in a database thread."""

    def __call__(
        self, operate: Callable[[ConversationSession], R], wrapper: _Context | None, /
    ) -> Awaitable[R]: ...


class CompactionRuns:
    """The compactions of one session object."""

    def __init__(self, settings: Compaction, usage: RunUsage) -> None:
        self._settings = settings
        self._usage = usage
        self._read: WeakKeyDictionary[_Context, ReadPart] = WeakKeyDictionary()

    def record_read(
        self,
        wrapper: _Context,
        session: ConversationSession,
        agent: AgentRecord,
        found: Sequence[PositionedPayload],
    ) -> None:
        """Record what a run reads at its beginning."""
        # A resumed run reads only the end, to compare it with what it has written.
        if wrapper not in self._read and not wrapper.usage.requests:
            self._read[wrapper] = part_read(session, agent, found)

    async def run(
        self,
        in_thread: _RunInThread,
        args: Mapping[str, Any],
        wrapper: _Context | None,
        *,
        session_id: str,
        limit: int | None,
        run_id: UUID | None,
    ) -> None:
        """Compact the conversation, if it is due.

        The Runner passes the id of a response, and no mode: its run has succeeded, so that what
        prevents the compaction is then logged and not raised.
        """
        automatic = "response_id" in args and "compaction_mode" not in args
        try:
            if automatic:
                read = None if wrapper is None else self._read.get(wrapper)
                find = partial(read_part, limit=limit, read=read, run_id=run_id)
            else:
                find, limit = partial(read_part, limit=None), None
            part = await in_thread(find, wrapper)
            if part is not None:
                await self._compact(in_thread, part, args, wrapper, limit, automatic)
        except (StaleSessionError, SessionConflictError, SessionNotFoundError) as error:
            # The conversation has changed while the summary was made.
            _raise_or_log(error, session_id, automatic)
        except (OpenAIError, ConfigurationError) as error:
            _raise_or_log(error, session_id, automatic)

    async def _compact(
        self,
        in_thread: _RunInThread,
        part: ConversationPart,
        args: Mapping[str, Any],
        wrapper: _Context | None,
        limit: int | None,
        automatic: bool,
    ) -> None:
        if is_encrypted(part.items):
            raise ConfigurationError(
                "an EncryptedSession is outside of this session, and a model cannot read what it "
                "stores: wrap it in the SDK's OpenAIResponsesCompactionSession instead"
            )
        digests = seen_digests(wrapper) if automatic else None
        if digests is not None:
            part = _seen(part, digests)
        response_id = self._response_id(part, args, automatic)
        shown = part.latest(limit)
        if not self._is_due(shown, args, response_id):
            return
        selected: ConversationPart | None = part
        if automatic and not part.is_complete:
            selected = part.from_user_message()
            response_id = None
            if args.get("compaction_mode", self._settings.compaction_mode) == _CHAIN:
                # The provider's summary would also be one of the items that stay.
                return
        if selected is None:
            return
        if selected.has_waiting_call():
            raise SessionConflictError(
                "a call in the conversation waits for its result: compact it afterwards"
            )
        if selected.items != shown and not self._is_due(selected.items, args, response_id):
            return
        sent = [*selected.sent().values()]
        summary, usage = await self._settings.summarize(sent, response_id)
        if wrapper is not None and usage is not None:
            wrapper.usage.add(usage)
        if not summary:
            raise SessionConflictError("the API returned no summary")
        first, *others = summary
        spent = None if usage is None else spent_of(usage)
        messages = [NewMessage(first, usage=spent), *others]
        keep = self._settings.keep_history
        await in_thread(
            lambda session: replace_part(session, selected, messages, keep_history=keep), wrapper
        )
        self._usage.mark_stored(wrapper, spent)

    def _response_id(
        self, part: ConversationPart, args: Mapping[str, Any], automatic: bool
    ) -> str | None:
        """Return the response that the provider summarizes; None to send the stored items."""
        mode: CompactionMode = args.get("compaction_mode") or self._settings.compaction_mode
        response_id: str | None = args.get("response_id")
        if mode == _CHAIN:
            if response_id is None:
                raise ValueError(f"compaction_mode={_CHAIN!r} requires a response_id")
            if automatic and not part.was_seen:
                raise SessionConflictError("the model has not seen all of the conversation")
            return response_id
        is_stored = args.get("store") is not False
        return response_id if mode == "auto" and part.was_seen and is_stored else None

    def _is_due(self, items: list[Any], args: Mapping[str, Any], response_id: str | None) -> bool:
        return bool(args.get("force")) or self._settings.should_trigger_compaction(
            {
                "response_id": args.get("response_id"),
                "compaction_mode": "input" if response_id is None else _CHAIN,
                "compaction_candidate_items": candidates(items),
                "session_items": items,
            }
        )


_CHAIN = "previous_response_id"


def _seen(part: ConversationPart, digests: Sequence[str]) -> ConversationPart:
    """Return what the model has seen of a part, so that nothing else is summarized or replaced."""
    seen = part.seen_in(digests)
    if seen is None:
        raise SessionConflictError("the model has not seen the end of the conversation")
    return seen


def _raise_or_log(error: Exception, session_id: str, automatic: bool) -> None:
    if not automatic:
        raise error
    # The error of the API may quote content.
    reason = type(error).__name__ if isinstance(error, OpenAIError) else error
    logger.warning("session %s was not compacted and is unchanged: %s", session_id, reason)
