"""Turns telemetry on: for each public method of the store, and in ``values.observing``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any
from uuid import UUID

from django.core import signals as django_signals

from django_agent_sessions import signals, store
from django_agent_sessions.models import Session
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values import observing
from django_agent_sessions.values.records import AgentRecord, SessionRecord

from . import session_ids
from .observer import SpanObserver

_PARTS: dict[type, str] = {
    store.SessionStore: "",
    store.Agents: "agents.",
    store.BranchNames: "branch_names.",
    store.Branches: "branches.",
    store.Feedback: "feedback.",
    store.Messages: "messages.",
    store.MultiAgents: "multi_agents.",
    store.Sessions: "sessions.",
    store.Snapshots: "snapshots.",
    store.Turns: "turns.",
    SnapshotStorageStore: "storage.",
}
# The three ways in which adapters read a conversation, and the name of the service.
_NAMES = {
    "messages.positioned": "restore",
    "messages.redact": "redact",
    "messages.restore": "restore",
    "payloads": "restore",
}
# These pass `observing` themselves, because appends of several conversations are one statement.
_APPENDS = {"append", "append_many"}
_UID = "agent_sessions_telemetry"

_originals: dict[tuple[type, str], FunctionType] = {}


def start_recording() -> None:
    """Begin to record; called at the start of the project if ``TELEMETRY`` is true."""
    if observing.current is not None:
        return
    observer = SpanObserver()
    for part, name, operation in operations():
        method = vars(part)[name]
        _originals[part, name] = method
        setattr(part, name, _observed(method, operation))
    signals.lease_lost.connect(observer.lease_lost, weak=False, dispatch_uid=_UID)
    # A thread of a WSGI server has the context of its last request.
    django_signals.request_started.connect(session_ids.forget, dispatch_uid=_UID)
    observing.current = observer


def stop_recording() -> None:
    """Stop to record."""
    observing.current = None
    for (part, name), method in _originals.items():
        setattr(part, name, method)
    _originals.clear()
    signals.lease_lost.disconnect(dispatch_uid=_UID)
    django_signals.request_started.disconnect(dispatch_uid=_UID)


def operations() -> Iterator[tuple[type, str, str]]:
    """Return the methods that are observed: class, name and operation."""
    for part, prefix in _PARTS.items():
        for owner in part.__mro__:
            for name, method in list(vars(owner).items()):
                if not _is_operation(name, method):
                    continue
                if owner is store.SessionStore and name in _APPENDS:
                    continue
                operation = f"{prefix}{name}"
                yield owner, name, _NAMES.get(operation, operation)


def _is_operation(name: str, method: object) -> bool:
    return (
        isinstance(method, FunctionType)
        and not name.startswith("_")
        and not inspect.iscoroutinefunction(method)
    )


def _observed(method: FunctionType, operation: str) -> Callable[..., Any]:
    parameters = [*inspect.signature(method).parameters][1:]
    first = parameters[0] if parameters else ""

    @functools.wraps(method)
    def observed(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        observer = observing.current
        if observer is None:
            return method(self, *args, **kwargs)
        ids = _ids(self, first, args[0] if args else kwargs.get(first))
        return observer.run(operation, functools.partial(method, self, *args, **kwargs), ids)

    return observed


def _ids(part: Any, parameter: str, value: Any) -> observing.Ids:
    """Return the ids that the first argument has; any other argument may be content."""
    if isinstance(value, AgentRecord):
        return observing.agent_ids(value)
    if isinstance(value, SessionRecord | Session):
        ids = session_ids.SessionIds(value.session_id, value.namespace)
        return {"agent_sessions.session": value.id, **ids.attributes()}
    if parameter == "session" and isinstance(value, UUID):
        return {"agent_sessions.session": value}
    if parameter in ("session", "session_id") and isinstance(value, str | UUID):
        namespace = getattr(getattr(part, "_context", None), "namespace", "")
        return session_ids.SessionIds(str(value), namespace).attributes()
    return {}
