"""What operations are told to OpenTelemetry."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from django.utils import timezone
from opentelemetry import trace
from opentelemetry.trace import Span, StatusCode

from django_agent_sessions import __version__
from django_agent_sessions.exceptions import (
    SessionBusyError,
    SessionConflictError,
    StaleSessionError,
)
from django_agent_sessions.values.observing import Ids

from . import session_ids
from .metrics import Instruments

R = TypeVar("R")

OPERATION = "agent_sessions.operation"
ERROR_TYPE = "error.type"

_CONFLICTS = (SessionBusyError, SessionConflictError, StaleSessionError)


@dataclass(slots=True)
class _Operation:
    """The operation that runs; what it calls is part of it, and has no span of its own."""

    retries: int = 0
    messages: int = 0
    size: int = 0


_running: ContextVar[_Operation | None] = ContextVar("agent_sessions_operation", default=None)


class SpanObserver:
    """Spans and metrics of operations; an :class:`~..values.observing.Observer`."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("django_agent_sessions", __version__)
        self.instruments = Instruments(__version__)

    def use(self, namespace: str, session_id: str, agent: Hashable) -> None:
        agent_id = agent if isinstance(agent, str) else ""
        session_ids.enter_session(session_ids.SessionIds(session_id, namespace, agent_id))

    def run(self, operation: str, function: Callable[[], R], ids: Ids) -> R:
        if _running.get() is not None:
            return function()
        current = _Operation()
        token = _running.set(current)
        started, error = time.perf_counter(), ""
        try:
            with self._tracer.start_as_current_span(
                _name(operation),
                attributes=_attributes(operation, ids),
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                try:
                    result = function()
                except BaseException as raised:
                    error = type(raised).__name__
                    self._record_error(span, raised, operation)
                    raise
                finally:
                    _set_figures(span, current)
                if isinstance(result, list):
                    span.set_attribute("agent_sessions.count", len(result))
                return result
        finally:
            _running.reset(token)
            self._record_duration(operation, time.perf_counter() - started, error)

    def append_ended(self, ids: Ids, started: datetime) -> None:
        # It began when the group was prepared, perhaps in another turn of the thread.
        ended = timezone.now()
        span = self._tracer.start_span(
            _name("append"), attributes=_attributes("append", ids), start_time=_nanoseconds(started)
        )
        span.set_attribute("agent_sessions.grouped", True)
        span.end(_nanoseconds(ended))
        self._record_duration("append", max(0.0, (ended - started).total_seconds()), "")

    def count_written(self, messages: int, size: int) -> None:
        self.instruments.messages.add(messages)
        self.instruments.bytes.add(size)
        if (current := _running.get()) is not None:
            current.messages += messages
            current.size += size

    def count_retry(self, reason: Literal["conflict", "outage"]) -> None:
        self.instruments.retries.add(1, {"agent_sessions.reason": reason})
        if (current := _running.get()) is not None:
            current.retries += 1

    def lease_lost(self, **kwargs: Any) -> None:
        """A receiver of the signal."""
        self.instruments.conflicts.add(1, {ERROR_TYPE: "LeaseLost"})

    def _record_error(self, span: Span, error: BaseException, operation: str) -> None:
        # Its type only: the message of a driver's error quotes rows.
        span.set_status(StatusCode.ERROR)
        span.set_attribute(ERROR_TYPE, type(error).__name__)
        if isinstance(error, _CONFLICTS):
            attributes = {ERROR_TYPE: type(error).__name__, OPERATION: operation}
            self.instruments.conflicts.add(1, attributes)

    def _record_duration(self, operation: str, seconds: float, error: str) -> None:
        attributes = {OPERATION: operation, **({ERROR_TYPE: error} if error else {})}
        self.instruments.duration.record(seconds, attributes)


def _name(operation: str) -> str:
    return f"agent_sessions.{operation}"


def _attributes(operation: str, ids: Ids) -> dict[str, Any]:
    context = session_ids.ids_of()
    known = {} if context is None else context.attributes()
    own = {name: value if isinstance(value, int) else str(value) for name, value in ids.items()}
    return {OPERATION: operation, **known, **own}


def _set_figures(span: Span, operation: _Operation) -> None:
    figures = {
        "agent_sessions.retries": operation.retries,
        "agent_sessions.messages": operation.messages,
        "agent_sessions.bytes": operation.size,
    }
    span.set_attributes({name: value for name, value in figures.items() if value})


def _nanoseconds(when: datetime) -> int:
    return int(when.timestamp() * 1_000_000_000)
