"""Compaction: when a conversation is summarized, and by which request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Literal

from agents import TResponseInputItem
from agents.usage import Usage
from openai import AsyncOpenAI

CompactionMode = Literal["previous_response_id", "input", "auto"]

_LEAST_CANDIDATES = 10
_COMPACTION = "compaction"


def has_ten_candidates(context: dict[str, Any]) -> bool:
    """Return whether ten items could be summarized; the SDK's default."""
    return len(context["compaction_candidate_items"]) >= _LEAST_CANDIDATES


@dataclass(frozen=True)
class Compaction:
    """How a session is compacted: the API of OpenAI summarizes a conversation that became long.

    The arguments are those of the SDK's ``OpenAIResponsesCompactionSession``.

    Args:
        model: The model that writes the summary.
        client: The client of the API; by default an ``AsyncOpenAI()`` for each request.
        compaction_mode: What is summarized: ``"input"`` the stored items, which are sent again;
            ``"previous_response_id"`` what the provider stored of the last response. ``"auto"``
            uses the latter if it is the whole conversation, nothing was redacted meanwhile, and
            the provider stored it.
        should_trigger_compaction: Decides whether to compact, given a dict with the keys
            ``response_id``, ``compaction_mode``, ``session_items`` and
            ``compaction_candidate_items``: the items that are neither messages of the user nor
            summaries. By default 10 candidates are enough.
        keep_history: Whether the replaced items are kept on a branch; otherwise they are deleted,
            unless the session is under legal hold.
    """

    model: str = "gpt-4.1"
    client: AsyncOpenAI | None = None
    compaction_mode: CompactionMode = "auto"
    should_trigger_compaction: Callable[[dict[str, Any]], bool] = has_ten_candidates
    keep_history: bool = True

    async def summarize(
        self, items: Sequence[TResponseInputItem], response_id: str | None
    ) -> tuple[list[TResponseInputItem], Usage | None]:
        """Request the items that replace a conversation, and the usage of the request."""
        given: dict[str, Any] = (
            {"input": list(items)} if response_id is None else {"previous_response_id": response_id}
        )
        async with AsyncExitStack() as stack:
            client = self.client
            if client is None:
                client = await stack.enter_async_context(AsyncOpenAI())
            answer = await client.responses.compact(model=self.model, **given)
        return _input_items(answer.output or []), _usage(answer.usage)


def is_user_message(item: Any) -> bool:
    """Return whether an item is a message of the user."""
    if not isinstance(item, dict) or item.get("role") != "user":
        return False
    return item.get("type") == "message" or ("type" not in item and "content" in item)


def candidates(items: Sequence[Any]) -> list[Any]:
    """Return the items that a summary would replace and that are no summaries themselves."""
    return [
        item
        for item in items
        if not is_user_message(item)
        and not (isinstance(item, dict) and item.get("type") == _COMPACTION)
    ]


def is_encrypted(items: Sequence[Any]) -> bool:
    """Return whether items are the envelopes of the SDK's ``EncryptedSession``."""
    return any(isinstance(item, dict) and "__enc__" in item for item in items)


def _input_items(output: Sequence[Any]) -> list[TResponseInputItem]:
    """Convert items of a response to items that a model accepts as input."""
    # The API returns messages of the user in the class of the model's messages.
    items = [
        dict(item)
        if isinstance(item, dict)
        else item.model_dump(exclude_unset=True, warnings=False)
        for item in output
    ]
    has_reasoning = any(item.get("type") == "reasoning" for item in items)
    return [_input_item(item, has_reasoning) for item in items]


def _input_item(item: dict[str, Any], has_reasoning: bool) -> Any:
    if is_user_message(item) and isinstance(item.get("content"), list):
        return {**item, "content": [_content_part(part) for part in item["content"]]}
    if item.get("role") == "assistant" and not has_reasoning:
        # With its id, the API requires the reasoning that belonged to the message.
        return {key: value for key, value in item.items() if key != "id"}
    return item


_SOURCES = {
    "input_image": ("image_url", "file_id"),
    "input_file": ("file_data", "file_url", "file_id"),
}
_OPTIONS = ("detail", "filename")


def _content_part(part: Any) -> Any:
    """Keep one source of an image or a file, because the API rejects empty and further ones."""
    sources = _SOURCES.get(str(part.get("type"))) if isinstance(part, dict) else None
    if sources is None:
        return part
    source = next((name for name in sources if part.get(name)), None)
    kept = ("type", *([] if source is None else [source]), *_OPTIONS)
    return {name: part[name] for name in kept if part.get(name)}


def _usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=usage.input_tokens_details,
        output_tokens_details=usage.output_tokens_details,
    )
