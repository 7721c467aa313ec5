"""What the nodes of a Strands graph or swarm said, read from the orchestrator's state.

The state has the latest message of each node, and the task. Strands numbers its messages
(``tracking_id``), so that a message is recognized in a later state.
"""

from __future__ import annotations

import base64
import binascii
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .base import NodePath
from .parts import EMPTY_SUMMARY, Summary
from .redaction import Message
from .strands import Strands

_COMPLETED = "completed"
_TASK = "current_task"


class StrandsNode(Strands):
    """Messages of the nodes of a graph or a swarm, which Strands never restores into an agent."""

    name = "strands-node"
    label = "Strands graph or swarm"
    is_of_nodes = True

    def recognize(self, payload: Mapping[str, Any]) -> bool:
        return False

    def summarize(self, payload: object) -> Summary:
        """Return the neutral columns without figures, which the session counts for all nodes."""
        summary = super().summarize(payload)
        return EMPTY_SUMMARY._replace(
            role=summary.role, text=summary.text, has_error=summary.has_error
        )

    def node_messages(
        self, state: object, before: Sequence[object]
    ) -> Iterator[tuple[NodePath, Any]]:
        """Yield the messages of a state that none of the earlier states has.

        A task is new if it differs from that of the first earlier state, or if this was completed
        and a node has spoken since.
        """
        if not isinstance(state, dict):
            return
        previous = before[0] if before and isinstance(before[0], dict) else {}
        was_completed = previous.get("status") == _COMPLETED
        if was_completed and state.get("status") != _COMPLETED:
            # A new run, which begins without results: what it says may be said again.
            before = before[1:]
        seen = {_identity(message) for earlier in before for _, message in _said(earlier)}
        new = [(node, message) for node, message in _said(state) if _identity(message) not in seen]
        task = _task(state.get(_TASK))
        if task and ((was_completed and new) or task != _task(previous.get(_TASK))):
            yield (), {"role": "user", "content": task}
        yield from new

    def replace_node_messages(self, state: Any, changes: Sequence[tuple[Message, Message]]) -> Any:
        replacements = {_identity(before): after for before, after in changes}
        replaced = _replaced(state, replacements)
        if isinstance(state, dict) and (task := _task(state.get(_TASK))):
            for before, after in changes:
                if before.get("role") == "user" and before.get("content") == task:
                    replaced = {**replaced, _TASK: after.get("content")}
        return replaced


def _replaced(value: Any, replacements: Mapping[object, Message]) -> Any:
    if isinstance(value, dict):
        if isinstance(value.get("content"), list):
            return replacements.get(_identity(_with_bytes(value)), value)
        items = {key: _replaced(item, replacements) for key, item in value.items()}
        return value if all(items[key] is item for key, item in value.items()) else items
    if isinstance(value, list):
        found = [_replaced(item, replacements) for item in value]
        return value if all(map(operator.is_, found, value)) else found
    return value


def _said(state: object, path: NodePath = ()) -> Iterator[tuple[NodePath, Any]]:
    """Yield the nodes' messages in a state, or in the result of a node that is a graph."""
    results = state.get("results" if path else "node_results") if isinstance(state, dict) else None
    for node, outcome in results.items() if isinstance(results, dict) else ():
        result = outcome.get("result") if isinstance(outcome, dict) else None
        if not isinstance(result, dict):
            continue
        message = result.get("message")
        if result.get("type") == "agent_result" and isinstance(message, dict):
            yield (*path, str(node)), _with_bytes(message)
        elif result.get("type") == "multiagent_result":
            yield from _said(result, (*path, str(node)))


def _identity(message: Message) -> object:
    """Return what identifies a message; its content, if Strands did not number it."""
    tracking_id = message.get("tracking_id")
    return tracking_id if isinstance(tracking_id, str) else repr(message)


def _task(task: object) -> list[Any]:
    if isinstance(task, str):
        return [{"text": task}] if task else []
    return [_with_bytes(block) for block in task] if isinstance(task, list) else []


def _with_bytes(value: Any) -> Any:
    """Replace the markers that Strands writes for bytes in an orchestrator's state."""
    if isinstance(value, dict):
        data = value.get("data")
        if value.get("__bytes_encoded__") is True and len(value) == 2 and isinstance(data, str):
            try:
                return base64.b64decode(data, validate=True)
            except (ValueError, binascii.Error):
                return value
        return {key: _with_bytes(item) for key, item in value.items()}
    return [_with_bytes(item) for item in value] if isinstance(value, list) else value
