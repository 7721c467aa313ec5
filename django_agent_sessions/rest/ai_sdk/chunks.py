"""Writing the AI SDK's stream: in which order its chunks may come, and what is open meanwhile.

The chunks: https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from typing import Any

from django_agent_sessions.rest.serializers.fields import shown

from .parts import UIPart

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
"""What the answer says about itself."""

DONE = b"data: [DONE]\n\n"
"""The end of every stream."""

KEEP_ALIVE = b": still here\n\n"
"""What no client reads, and every proxy sees."""


def encoded(chunk: dict[str, Any]) -> bytes:
    """Encodes a chunk as a server-sent event."""
    try:
        text = json.dumps(chunk, allow_nan=False, separators=(",", ":"))
    except ValueError:
        # JavaScript's JSON has no NaN and no infinity.
        text = json.dumps(_finite(chunk), separators=(",", ":"))
    return f"data: {text}\n\n".encode()


class Writer:
    """Writes an answer chunk by chunk."""

    def __init__(self, emit: Callable[[bytes], None]) -> None:
        self._emit = emit
        self._step = False
        self._answered = False
        self._open: tuple[str, Hashable, str] | None = None
        self._count = 0
        # By call id, whether all of the input was told.
        self._calls: dict[str, bool] = {}

    def begin(self, message_id: str) -> None:
        """Begins the answer."""
        self._send("start", messageId=message_id)

    def text(self, delta: str, key: Hashable = None) -> None:
        """Adds to a text; another key is another text."""
        self._say("text", delta, key)

    def reasoning(self, delta: str, key: Hashable = None) -> None:
        """Adds to what the model thinks; another key is another thought."""
        self._say("reasoning", delta, key)

    def close(self) -> None:
        """Ends the text or thought that is being written."""
        if self._open is not None:
            kind, _key, name = self._open
            self._open = None
            self._send(f"{kind}-end", id=name)

    def tool_begins(self, call_id: str, name: str) -> None:
        """Tells that a tool is about to be called."""
        if call_id and call_id not in self._calls:
            self._speak()
            self._calls[call_id] = False
            self._send("tool-input-start", toolCallId=call_id, toolName=name, dynamic=True)

    def tool_input(self, call_id: str, delta: str) -> None:
        """Adds to the input of a call, as JSON text."""
        if self._calls.get(call_id) is False and delta:
            self._send("tool-input-delta", toolCallId=call_id, inputTextDelta=delta)

    def tool(self, part: UIPart) -> None:
        """Tells a call whole."""
        call_id = part["toolCallId"]
        if self._calls.get(call_id):
            return
        if call_id not in self._calls:
            self._speak()
        self.close()
        self._calls[call_id] = True
        self._send(
            "tool-input-available",
            toolCallId=call_id,
            toolName=part["toolName"],
            input=part["input"],
            dynamic=True,
        )

    def knows(self, call_id: str) -> bool:
        """Whether a call was told whole."""
        return self._calls.get(call_id, False)

    def tool_result(self, call_id: str, found: UIPart) -> None:
        """Tells what came of a call."""
        self.close()
        state = found["state"]
        told = {key: value for key, value in found.items() if key != "state"}
        self._send(f"tool-{state}", toolCallId=call_id, dynamic=True, **told)
        self._answered = True

    def part(self, part: UIPart) -> None:
        """Writes a part that comes whole: a text, a thought, a source, a file or data."""
        if part["type"] in ("text", "reasoning"):
            self.close()
            self._say(part["type"], part["text"], None)
            self.close()
        else:
            self._speak()
            self._emit(encoded(shown(part)))

    def finish(self) -> None:
        """Ends an answer that is whole."""
        self._end_step()
        self._send("finish")
        self._emit(DONE)

    def abort(self) -> None:
        """Ends an answer that was stopped."""
        self.close()
        self._send("abort")
        self._emit(DONE)

    def fail(self, text: str) -> None:
        """Ends an answer that cannot be given."""
        self.close()
        self._send("error", errorText=text)
        self._emit(DONE)

    def _say(self, kind: str, delta: str, key: Hashable) -> None:
        if not delta:
            return
        if self._open is None or self._open[:2] != (kind, key):
            self._speak()
            self._count += 1
            self._open = (kind, key, f"{kind}-{self._count}")
            self._send(f"{kind}-start", id=self._open[2])
        self._send(f"{kind}-delta", id=self._open[2], delta=delta)

    def _speak(self) -> None:
        """Makes sure of a step; the model speaks in a new one after a tool's result."""
        self.close()
        if self._answered:
            self._end_step()
        if not self._step:
            self._step = True
            self._send("start-step")

    def _end_step(self) -> None:
        self.close()
        self._answered = False
        if self._step:
            self._step = False
            self._send("finish-step")

    def _send(self, kind: str, **fields: Any) -> None:
        self._emit(encoded(shown({"type": kind, **fields})))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
