"""The tool calls of an assistant's message, and the call that a result belongs to.

Models may give several calls the same id, in one response or in several. A client finds calls by
their ids, so that each call of a message has an id of its own there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .ui_parts import UIPart

_NO_ID = "call"


@dataclass(slots=True, eq=False)
class ClientCall:
    """A tool call."""

    id: str
    """Its id for the client."""

    model_id: str
    """Its id in the conversation; empty if it has none."""

    step: int
    part: UIPart = field(default_factory=dict)
    results: int = 0
    is_complete: bool = False
    """Whether its whole input is known; otherwise the input is being streamed."""

    @property
    def is_open(self) -> bool:
        """Whether it has no result yet."""
        return self.part.get("state") == "input-available" and not self.results


class ToolCalls:
    """The tool calls of one message, in order."""

    def __init__(self) -> None:
        self._calls: list[ClientCall] = []
        self._ids: set[str] = set()
        self._step = 0

    def begin_step(self) -> None:
        """Begin a response of the model: later results belong to its calls first."""
        self._step += 1

    def add(self, model_id: str) -> ClientCall:
        """Add a call."""
        base = call_id = model_id or _NO_ID
        number = 1
        while call_id in self._ids:
            number += 1
            call_id = f"{base}-{number}"
        self._ids.add(call_id)
        call = ClientCall(call_id, model_id, self._step)
        self._calls.append(call)
        return call

    def started(self, model_id: str) -> ClientCall | None:
        """Return the first call with this id whose input is being streamed."""
        calls = self._with_id(model_id)
        return next((call for call in calls if not call.is_complete), None)

    def answered_by(self, model_id: str) -> ClientCall | None:
        """Return the call that the next result with this id belongs to.

        Results come in the order of the calls; a further result replaces an earlier one.
        """
        calls = self._with_id(model_id)
        order = {call: (call.results > 0, -call.step, call.results) for call in calls}
        return min(calls, key=order.__getitem__, default=None)

    @property
    def open(self) -> list[ClientCall]:
        """The calls without a result."""
        return [call for call in self._calls if call.is_open]

    def _with_id(self, model_id: str) -> list[ClientCall]:
        return [call for call in self._calls if call.model_id == model_id]
