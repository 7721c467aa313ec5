"""Translation of agents' events to the AI SDK's stream; both frameworks are recognized by shape.

Strands' ``Agent.stream_async`` yields dicts, ``RunResultStreaming.stream_events()`` of the OpenAI
Agents SDK objects with a ``type``. Whole messages and items are read like those of a transcript, so
that a stream and a reload show the same. They are the only source if a model sends no deltas.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import OPENAI, STRANDS, Part, PartKind

from .stream_writer import Writer
from .tool_calls import ClientCall
from .ui_parts import UIPart, content_part, outcome_fields, source_parts, tool_result_fields

_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = {
    "response.reasoning_summary_text.delta": "summary_index",
    "response.reasoning_text.delta": "content_index",
}
_ENDS = ("response.output_text.done", "response.refusal.done", "response.output_item.done")


class Translator:
    """A translator of an agent's events to chunks of a writer.

    ``cancel`` stops the agent gently, once an event has named the agent. ``cancelled`` is set if
    the agent reports that it was stopped.
    """

    def __init__(self, writer: Writer) -> None:
        self.cancel: Callable[[], Any] | None = None
        self.cancelled = False
        self._writer = writer
        # What was streamed of the current message.
        self._streamed_texts: set[Hashable] = set()
        self._streamed_reasoning: set[Hashable] = set()
        self._calls: dict[Hashable, ClientCall] = {}
        self._block = 0

    def feed(self, event: Any) -> None:
        """Translate an event; an unknown shape writes nothing."""
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
            self._writer.write_part(
                {key: event[key] for key in ("type", "id", "data") if key in event}
            )
        elif isinstance(event.get("message"), dict):
            self._strands_message(event["message"])
        elif isinstance(event.get("data"), str):
            self._streamed_texts.add(0)
            self._writer.text(event["data"], self._block)
        elif isinstance(event.get("reasoningText"), str):
            self._streamed_reasoning.add(0)
            self._writer.reasoning(event["reasoningText"], self._block)
        elif isinstance(event.get("event"), dict):
            self._strands_chunk(event["event"])
        elif "result" in event:
            self.cancelled |= getattr(event["result"], "stop_reason", "") == "cancelled"

    def _strands_chunk(self, chunk: dict[str, Any]) -> None:
        use = _nested(chunk, "contentBlockStart", "start", "toolUse")
        if isinstance(use, dict) and isinstance(use.get("toolUseId"), str):
            name = str(use.get("name") or "tool")
            self._calls[self._block] = self._writer.start_tool_call(use["toolUseId"], name)
        delta = _nested(chunk, "contentBlockDelta", "delta", "toolUse", "input")
        if isinstance(delta, str) and (call := self._calls.get(self._block)) is not None:
            self._writer.append_tool_input(call, delta)
        if "contentBlockStop" in chunk:
            self._writer.close()
            self._block += 1

    def _strands_message(self, message: dict[str, Any]) -> None:
        text_streamed, reasoning_streamed = (
            bool(self._streamed_texts),
            bool(self._streamed_reasoning),
        )
        self._streamed_texts.clear()
        self._streamed_reasoning.clear()
        is_answer = message.get("role") == "assistant"
        self._write_rest(
            STRANDS,
            message,
            text_streamed=text_streamed,
            reasoning_streamed=reasoning_streamed,
            is_answer=is_answer,
        )

    # --- OpenAI ------------------------------------------------------------------------------

    def _openai(self, event: Any) -> None:
        kind = getattr(event, "type", "")
        if kind == "raw_response_event":
            self._openai_raw(event.data)
        elif kind == "run_item_stream_event":
            self._openai_item(event.item)

    def _openai_raw(self, data: Any) -> None:
        kind = getattr(data, "type", "")
        index = getattr(data, "output_index", 0)
        delta = getattr(data, "delta", None)
        if kind in _TEXTS and isinstance(delta, str):
            if delta:
                self._streamed_texts.add(index)
            self._writer.text(delta, (index, getattr(data, "content_index", 0)))
        elif kind in _THOUGHTS and isinstance(delta, str):
            if delta:
                self._streamed_reasoning.add(index)
            self._writer.reasoning(delta, (index, getattr(data, _THOUGHTS[kind], 0)))
        elif kind == "response.output_item.added":
            item = data.item
            if getattr(item, "type", "") == "function_call":
                self._calls[index] = self._writer.start_tool_call(item.call_id, item.name)
        elif kind == "response.function_call_arguments.delta" and isinstance(delta, str):
            if (call := self._calls.get(index)) is not None:
                self._writer.append_tool_input(call, delta)
        elif kind in _ENDS:
            self._writer.close()

    def _openai_item(self, item: Any) -> None:
        payload = _payload(item)
        if payload is None:
            return
        kind = payload.get("type")
        # A streamed message is also sent as a whole later.
        text_streamed = kind == "message" and _discard_one(self._streamed_texts)
        reasoning_streamed = kind == "reasoning" and _discard_one(self._streamed_reasoning)
        self._write_rest(
            OPENAI,
            payload,
            text_streamed=text_streamed,
            reasoning_streamed=reasoning_streamed,
            is_answer=True,
        )

    # --- both --------------------------------------------------------------------------------

    def _write_rest(
        self,
        dialect: str,
        payload: dict[str, Any],
        *,
        text_streamed: bool,
        reasoning_streamed: bool,
        is_answer: bool,
    ) -> None:
        """Write the parts of a whole message that were not streamed."""
        citations: list[UIPart] = []
        calls: list[tuple[ClientCall, Part]] = []
        for block in dialects.get(dialect).blocks(payload):
            for part in block.parts:
                if part.kind is PartKind.TOOL_RESULT:
                    call = self._writer.find_call(part.call_id)
                    if call is None:
                        # The call was made before this answer began.
                        call = self._writer.write_tool_call(replace(part, data=None))
                    is_same = any(call is own for own, _part in calls)
                    outcome = tool_result_fields(block, part)
                    self._writer.tool_result(call, outcome, same_item=is_same)
                elif not is_answer:
                    continue
                elif part.kind is PartKind.TOOL_CALL:
                    calls.append((self._writer.write_tool_call(part), part))
                elif (ui_part := content_part(part, block.path)) is not None:
                    citations.extend(source_parts(part))
                    streamed = {"text": text_streamed, "reasoning": reasoning_streamed}.get(
                        ui_part["type"], False
                    )
                    if not streamed:
                        self._writer.write_part(ui_part)
        for call, part in calls:
            if not call.results and (outcome := outcome_fields(part)):
                self._writer.tool_result(call, outcome, same_item=True)
        self._writer.close()
        for source in citations:
            self._writer.write_part(source)


def _payload(item: Any) -> dict[str, Any] | None:
    """Return an item of a run as it is stored."""
    convert = getattr(item, "to_input_item", None)
    try:
        payload = convert() if callable(convert) else getattr(item, "raw_item", None)
    except Exception:
        # Items such as approvals have no stored form.
        return None
    return payload if isinstance(payload, dict) else None


def _discard_one(waiting: set[Hashable]) -> bool:
    if waiting:
        waiting.pop()
        return True
    return False


def _nested(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
