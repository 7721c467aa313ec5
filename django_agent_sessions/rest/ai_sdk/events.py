"""What agents yield, as the AI SDK's stream; of either framework, known by its shape.

Strands' ``Agent.stream_async`` yields dicts, and ``RunResultStreaming.stream_events()`` of the
OpenAI Agents SDK objects with a ``type``. Whole messages and items are read as in a transcript, so
that a stream and a reload show the same. Where a model delivers no deltas, they are all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from django_agent_sessions.transcripts import OPENAI, STRANDS, PartKind
from django_agent_sessions.transcripts.blocks import blocks

from .chunks import Writer
from .parts import UIPart, call, content, outcome, sources

_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = {
    "response.reasoning_summary_text.delta": "summary_index",
    "response.reasoning_text.delta": "content_index",
}
_ENDS = ("response.output_text.done", "response.refusal.done", "response.output_item.done")


class Translator:
    """Translates events."""

    def __init__(self, writer: Writer) -> None:
        self.cancel: Callable[[], Any] | None = None
        self.cancelled = False
        self._writer = writer
        # What was streamed of the message that is being said.
        self._said: set[Hashable] = set()
        self._thought: set[Hashable] = set()
        self._calls: dict[Hashable, str] = {}
        self._call = ""
        self._block = 0

    def feed(self, event: Any) -> None:
        """Takes an event; one of no known shape says nothing to a user."""
        if isinstance(event, dict):
            self._strands(event)
        else:
            self._openai(event)

    # --- Strands -----------------------------------------------------------------------------

    def _strands(self, event: dict[str, Any]) -> None:
        cancel = getattr(event.get("agent"), "cancel", None)
        if callable(cancel):
            self.cancel = cancel
        kind = event.get("type")
        if isinstance(kind, str) and kind.startswith("data-"):
            self._writer.part({key: event[key] for key in ("type", "id", "data") if key in event})
        elif isinstance(event.get("message"), dict):
            self._strands_message(event["message"])
        elif isinstance(event.get("data"), str):
            self._said.add(0)
            self._writer.text(event["data"], self._block)
        elif isinstance(event.get("reasoningText"), str):
            self._thought.add(0)
            self._writer.reasoning(event["reasoningText"], self._block)
        elif isinstance(event.get("event"), dict):
            self._strands_chunk(event["event"])
        elif "result" in event:
            self.cancelled |= getattr(event["result"], "stop_reason", "") == "cancelled"

    def _strands_chunk(self, chunk: dict[str, Any]) -> None:
        use = _in(chunk, "contentBlockStart", "start", "toolUse")
        if isinstance(use, dict) and isinstance(use.get("toolUseId"), str):
            self._call = use["toolUseId"]
            self._writer.tool_begins(self._call, str(use.get("name") or "tool"))
        typed = _in(chunk, "contentBlockDelta", "delta", "toolUse", "input")
        if isinstance(typed, str):
            self._writer.tool_input(self._call, typed)
        if "contentBlockStop" in chunk:
            self._writer.close()
            self._block += 1

    def _strands_message(self, message: dict[str, Any]) -> None:
        said, thought = bool(self._said), bool(self._thought)
        self._said.clear()
        self._thought.clear()
        whole = message.get("role") == "assistant"
        self._whole(STRANDS, message, said=said, thought=thought, speaks=whole)

    # --- OpenAI ------------------------------------------------------------------------------

    def _openai(self, event: Any) -> None:
        kind = getattr(event, "type", "")
        if kind == "raw_response_event":
            self._openai_raw(event.data)
        elif kind == "run_item_stream_event":
            self._openai_item(event.item)

    def _openai_raw(self, data: Any) -> None:
        kind = getattr(data, "type", "")
        place = getattr(data, "output_index", 0)
        delta = getattr(data, "delta", None)
        if kind in _TEXTS and isinstance(delta, str):
            if delta:
                self._said.add(place)
            self._writer.text(delta, (place, getattr(data, "content_index", 0)))
        elif kind in _THOUGHTS and isinstance(delta, str):
            if delta:
                self._thought.add(place)
            self._writer.reasoning(delta, (place, getattr(data, _THOUGHTS[kind], 0)))
        elif kind == "response.output_item.added":
            item = data.item
            if getattr(item, "type", "") == "function_call":
                self._calls[place] = item.call_id
                self._writer.tool_begins(item.call_id, item.name)
        elif kind == "response.function_call_arguments.delta" and isinstance(delta, str):
            self._writer.tool_input(self._calls.get(place, ""), delta)
        elif kind in _ENDS:
            self._writer.close()

    def _openai_item(self, item: Any) -> None:
        payload = _payload(item)
        if payload is None:
            return
        kind = payload.get("type")
        # Each message that was streamed comes whole, too, some time after it.
        said = kind == "message" and _take(self._said)
        thought = kind == "reasoning" and _take(self._thought)
        self._whole(OPENAI, payload, said=said, thought=thought, speaks=True)

    # --- both --------------------------------------------------------------------------------

    def _whole(
        self, dialect: str, payload: dict[str, Any], *, said: bool, thought: bool, speaks: bool
    ) -> None:
        """Writes of a whole message what was not streamed of it."""
        cited: list[UIPart] = []
        for number, block in enumerate(blocks(dialect, payload)):
            for part in block.parts:
                if part.kind is PartKind.TOOL_RESULT:
                    call_id = part.call_id or f"call-{number}"
                    if not self._writer.knows(call_id):
                        # It was called before this answer began.
                        self._writer.tool(call(part, call_id) | {"input": {}})
                    self._writer.tool_result(call_id, outcome(block, part))
                elif not speaks:
                    continue
                elif part.kind is PartKind.TOOL_CALL:
                    self._writer.tool(call(part, f"call-{number}"))
                elif (found := content(part, block.path)) is not None:
                    cited.extend(sources(part))
                    streamed = {"text": said, "reasoning": thought}.get(found["type"], False)
                    if not streamed:
                        self._writer.part(found)
        self._writer.close()
        for source in cited:
            self._writer.part(source)


def _payload(item: Any) -> dict[str, Any] | None:
    """Reads an item of a run as it is stored."""
    read = getattr(item, "to_input_item", None)
    try:
        found = read() if callable(read) else getattr(item, "raw_item", None)
    except Exception:
        # Some items, such as approvals, have no stored form.
        return None
    return found if isinstance(found, dict) else None


def _take(waiting: set[Hashable]) -> bool:
    if waiting:
        waiting.pop()
        return True
    return False


def _in(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
