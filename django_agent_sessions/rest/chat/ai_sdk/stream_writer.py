"""A writer of the AI SDK's stream that keeps its chunks in a valid order.

The chunks: https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from typing import Any

from django_agent_sessions.content.dialects import Part
from django_agent_sessions.rest.serializers.fields import displayable_json

from .tool_calls import ClientCall, ToolCalls
from .ui_parts import UIPart, tool_call_part

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
"""The headers of a stream."""

DONE = b"data: [DONE]\n\n"
"""The end of every stream."""

CUT = "The connection to the answer was ended. Reload the messages."
"""The error of a stream that ends before its answer does: the AI SDK takes any other end for that
of a complete answer."""

KEEP_ALIVE = b": still here\n\n"
"""A comment that clients ignore, and that keeps proxies from closing the connection."""


def encode_chunk(chunk: dict[str, Any]) -> bytes:
    """Encode a chunk as a server-sent event."""
    try:
        text = json.dumps(chunk, allow_nan=False, separators=(",", ":"))
    except ValueError:
        # JSON in JavaScript has no NaN and no infinity.
        text = json.dumps(_finite(chunk), separators=(",", ":"))
    return f"data: {text}\n\n".encode()


def start_chunk(message_id: str) -> bytes:
    """Return the beginning of a stream."""
    return encode_chunk({"type": "start", "messageId": message_id})


def error_end(text: str) -> bytes:
    """Return the end of a stream whose answer is incomplete."""
    return encode_chunk({"type": "error", "errorText": text}) + DONE


class Writer:
    """A writer of an answer, chunk by chunk, to ``emit``."""

    def __init__(self, emit: Callable[[bytes], None]) -> None:
        self._emit = emit
        self._in_step = False
        self._has_results = False
        self._open_part: tuple[str, Hashable, str] | None = None
        self._count = 0
        self._calls = ToolCalls()

    def begin(self, message_id: str) -> None:
        self._emit(start_chunk(message_id))

    def text(self, delta: str, key: Hashable = None) -> None:
        """Append to a text; another key starts another text."""
        self._write_delta("text", delta, key)

    def reasoning(self, delta: str, key: Hashable = None) -> None:
        """Append to the model's reasoning; another key starts another part."""
        self._write_delta("reasoning", delta, key)

    def close(self) -> None:
        """End the text or reasoning that is open."""
        if self._open_part is not None:
            kind, _key, name = self._open_part
            self._open_part = None
            self._send(f"{kind}-end", id=name)

    def start_tool_call(self, model_id: str, name: str) -> ClientCall:
        """Start a tool call whose input follows in deltas."""
        self._start_part()
        call = self._calls.add(model_id)
        self._send("tool-input-start", toolCallId=call.id, toolName=name, dynamic=True)
        return call

    def append_tool_input(self, call: ClientCall, delta: str) -> None:
        """Append to the input of a call, as JSON text."""
        if delta and not call.is_complete:
            self._send("tool-input-delta", toolCallId=call.id, inputTextDelta=delta)

    def write_tool_call(self, part: Part) -> ClientCall:
        """Write a complete tool call, which may have been started."""
        call = self._calls.started(part.call_id)
        if call is None:
            self._start_part()
            call = self._calls.add(part.call_id)
        self.close()
        call.is_complete = True
        call.part = tool_call_part(part, call.id)
        fields = {key: call.part[key] for key in ("toolCallId", "toolName", "input")}
        self._send("tool-input-available", **fields, dynamic=True)
        return call

    def find_call(self, model_id: str) -> ClientCall | None:
        """Return the call of the next result with this id, if it was written completely."""
        call = self._calls.answered_by(model_id)
        return call if call is not None and call.is_complete else None

    def tool_result(self, call: ClientCall, outcome: UIPart, *, same_item: bool = False) -> None:
        """Write the result of a call.

        The model continues after it, unless call and result are the same item of a provider.
        """
        self.close()
        call.results += 1
        state = outcome["state"]
        fields = {key: value for key, value in outcome.items() if key != "state"}
        self._send(f"tool-{state}", toolCallId=call.id, dynamic=True, **fields)
        self._has_results |= not same_item

    def write_part(self, part: UIPart) -> None:
        """Write a complete part: a text, reasoning, a source, a file or data."""
        if part["type"] in ("text", "reasoning"):
            self.close()
            self._write_delta(part["type"], part["text"], None)
            self.close()
        else:
            self._start_part()
            self._emit(encode_chunk(displayable_json(part)))

    def finish(self) -> None:
        """End a complete answer."""
        self._end_step()
        self._send("finish")
        self._emit(DONE)

    def abort(self) -> None:
        """End an answer that a user stopped: the AI SDK shows it as complete."""
        self.close()
        self._send("abort")
        self._emit(DONE)

    def fail(self, text: str) -> None:
        """End an answer that failed."""
        self.close()
        self._emit(error_end(text))

    def _write_delta(self, kind: str, delta: str, key: Hashable) -> None:
        if not delta:
            return
        if self._open_part is None or self._open_part[:2] != (kind, key):
            self._start_part()
            self._count += 1
            self._open_part = (kind, key, f"{kind}-{self._count}")
            self._send(f"{kind}-start", id=self._open_part[2])
        self._send(f"{kind}-delta", id=self._open_part[2], delta=delta)

    def _start_part(self) -> None:
        """Open a step if none is open; a new one after the results of tools."""
        self.close()
        if self._has_results:
            self._end_step()
        if not self._in_step:
            self._in_step = True
            self._calls.begin_step()
            self._send("start-step")

    def _end_step(self) -> None:
        self.close()
        self._has_results = False
        if self._in_step:
            self._in_step = False
            self._send("finish-step")

    def _send(self, kind: str, **fields: Any) -> None:
        self._emit(encode_chunk(displayable_json({"type": kind, **fields})))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
