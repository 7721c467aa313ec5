"""Copies of messages in the states of orchestrators, which have what their nodes said last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from django_agent_sessions.content import dialects

from .findings import RowFindings

_STATE = "state"


@dataclass(frozen=True)
class NodeChanges:
    """The messages of nodes that a redaction changes, each with its replacement."""

    by_dialect: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, messages: Iterable[RowFindings]) -> Self:
        """Collect the changed messages of nodes."""
        found: dict[str, list[tuple[Any, Any]]] = {}
        for one in messages:
            name: str = one.copy.row.dialect  # type: ignore[attr-defined] # an annotation
            if one.message is None or not dialects.get(name).is_of_nodes:
                continue
            values = one.copy.values
            before = values["redact_message"] or values["message"]
            if isinstance(before, dict):
                found.setdefault(name, []).append((before, one.message.message))
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self.by_dialect)

    def replace_in(self, found: RowFindings) -> None:
        """Replace the copies of the messages in the state of an orchestrator."""
        state = before = found.values.get(_STATE, found.copy.values[_STATE])
        for name, changes in self.by_dialect.items():
            state = dialects.get(name).replace_node_messages(state, changes)
        if state is not before:
            found.is_copy = True
            found.values[_STATE] = state
