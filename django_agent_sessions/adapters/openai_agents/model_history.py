"""A conversation as a model's provider accepts it.

Providers refuse a conversation in which a result answers no call, or in which reasoning and the
item that it led to are not together. A rewind, a limit, a deletion or a redaction may have taken
one of them. The rows stay: only what is sent to a model is corrected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from django_agent_sessions.values.records import PositionedPayload

from .item_links import TOOL_CALLS, ItemLink, call_link, is_of_model, kind_of, result_link

_REASONING = "reasoning"
_WITH_REQUIRED_ID = frozenset({"computer_call", "local_shell_call", "mcp_approval_request"})
# The API requires their id, and with it the reasoning that led to them.
_HOSTED_CALLS = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
    }
)


def items_for_model(
    found: Sequence[PositionedPayload],
    *,
    before: PositionedPayload | None = None,
    without: Collection[int] = (),
) -> dict[int, Any]:
    """Return the items of a conversation that a provider accepts, by their indexes in it.

    ``before`` is the item before the first one, if that is not the conversation's first.
    ``without`` are the indexes of items that are not sent in any case.
    """
    items = [placed.payload for placed in found]
    if any(kind_of(item) == "item_reference" for item in items):
        # It may refer to any call or reasoning, which only the provider knows.
        return {index: item for index, item in enumerate(items) if index not in without}
    left_out = {*without, *_orphaned_results(items), *_abandoned_calls(items)}
    left_out |= {index for index in range(len(found)) if _is_bare(found, index, left_out)}
    without_reasoning = set(_without_reasoning(found, before, left_out))
    sent = {}
    for index, item in enumerate(items):
        if index in left_out:
            continue
        if index in without_reasoning:
            if kind_of(item) in _HOSTED_CALLS:
                continue
            if kind_of(item) not in _WITH_REQUIRED_ID:
                item = {name: value for name, value in item.items() if name != "id"}
        sent[index] = item
    return sent


def open_calls(items: Sequence[Any]) -> dict[int, ItemLink]:
    """Return the calls without a result, by their indexes."""
    answered = {link for item in items if (link := result_link(item)) is not None}
    calls = ((index, call_link(item)) for index, item in enumerate(items))
    return {index: link for index, link in calls if link is not None and link not in answered}


def start_of_turns(found: Sequence[PositionedPayload], turns: int) -> int:
    """Return the index at which the latest turns begin; 0 if there are not more."""
    begins = [
        index
        for index, placed in enumerate(found)
        if isinstance(placed.payload, dict) and placed.payload.get("role") == "user"
    ]
    return begins[-turns] if turns <= len(begins) else 0


def _orphaned_results(items: Sequence[Any]) -> set[int]:
    """Return the indexes of results whose calls are not before them.

    A run that waits for a user's approval has stored its calls, and stores their results when it is
    resumed: perhaps after a rewind, or after the session was cleared or deleted.
    """
    calls: set[ItemLink] = set()
    orphans = set()
    for index, item in enumerate(items):
        if (call := call_link(item)) is not None:
            calls.add(call)
        elif (result := result_link(item)) is not None and result not in calls:
            orphans.add(index)
    return orphans


def _abandoned_calls(items: Sequence[Any]) -> Iterator[int]:
    """Yield the indexes of the calls that the Runner does not send, because they have no result.

    It also leaves out the reasoning before such a call, but not the ids of the calls beside it.
    """
    for index, link in open_calls(items).items():
        # Others, such as those of a program, may go on at the provider.
        if link.kind in TOOL_CALLS and not items[index].get("caller"):
            yield index


def _is_bare(found: Sequence[PositionedPayload], index: int, left_out: Collection[int]) -> bool:
    """Return whether an item is reasoning without the item of the model that it led to.

    Redacted reasoning is bare, too: the provider cannot read it, or has it in full by its id.
    """
    if kind_of(found[index].payload) != _REASONING:
        return False
    if found[index].redacted:
        return True
    previous = found[index]
    for position in range(index + 1, len(found)):
        following = found[position]
        if following.position != previous.position + 1:
            return True
        if kind_of(following.payload) != _REASONING:
            return position in left_out or not is_of_model(following.payload)
        previous = following
    return True


def _without_reasoning(
    found: Sequence[PositionedPayload],
    before: PositionedPayload | None,
    left_out: Collection[int],
) -> Iterator[int]:
    """Yield the indexes of the model's items whose reasoning is not sent, or may be missing."""
    next_position = 0 if before is None else before.position + 1
    is_lost = before is not None and is_of_model(before.payload)
    for index, placed in enumerate(found):
        is_lost = is_lost or placed.position != next_position
        next_position = placed.position + 1
        if kind_of(placed.payload) == _REASONING:
            is_lost = index in left_out
        elif not is_of_model(placed.payload):
            is_lost = False
        elif is_lost:
            yield index
