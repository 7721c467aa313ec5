"""Pair the tool calls and results of a restored conversation, as models require.

Another process may have been killed between a call and its result, or have written messages between
them; a conversation manager may have removed one of both.
"""

from __future__ import annotations

import logging
from collections import Counter
from itertools import chain, pairwise

from strands.types.content import ContentBlock, Message

from .conversation import with_tracking_id

logger = logging.getLogger("django_agent_sessions")


def calls_of(message: Message) -> set[str]:
    """Return the ids of a message's tool calls."""
    return {b["toolUse"]["toolUseId"] for b in message["content"] if "toolUse" in b}


def results_of(message: Message) -> set[str]:
    """Return the ids of the tool calls whose results a message has."""
    return {b["toolResult"]["toolUseId"] for b in message["content"] if "toolResult" in b}


def pair_calls(messages: list[Message]) -> list[Message]:
    """Return messages in which each call has one result in the next message, and no other is left.

    Messages are changed in place, and a missing result is an error. Calls of the last message are
    left open: the agent completes or repairs them when it is called.
    """
    blocks = chain.from_iterable(message["content"] for message in messages)
    if not any("toolUse" in block or "toolResult" in block for block in blocks):
        return messages
    ordered = _move_results_after_calls(messages)
    _drop_repeated_results(ordered)
    paired = _drop_results_without_calls(ordered)
    return _add_missing_results(paired)


def _move_results_after_calls(messages: list[Message]) -> list[Message]:
    """Move results directly after their calls if another process wrote messages in between.

    That happens if two processes continued the same run, or one did so under another run id.
    """
    ordered = list(messages)
    answered = set().union(*map(results_of, messages))
    for index in range(len(ordered) - 1):
        waiting = (calls_of(ordered[index]) & answered) - results_of(ordered[index + 1])
        for later in range(index + 2, len(ordered) if waiting else 0):
            results = results_of(ordered[later])
            if waiting & results and not results & calls_of(ordered[later - 1]):
                ordered.insert(index + 1, ordered.pop(later))
                break
    return ordered


def _drop_repeated_results(messages: list[Message]) -> None:
    """Keep one result of each call, the last."""
    for before, message in pairwise(messages):
        called = Counter(b["toolUse"]["toolUseId"] for b in before["content"] if "toolUse" in b)
        blocks: list[ContentBlock] = []
        for block in reversed(message["content"]):
            if "toolResult" in block and (key := block["toolResult"]["toolUseId"]) in called:
                called[key] -= 1
                if called[key] < 0:
                    continue
            blocks.insert(0, block)
        if len(blocks) < len(message["content"]):
            message["content"] = blocks


def _drop_results_without_calls(messages: list[Message]) -> list[Message]:
    """Drop the results after a message without calls, and a message that has nothing else."""
    kept: list[Message] = []
    for message in messages:
        is_result = message["role"] == "user" and results_of(message)
        if is_result and not (kept and calls_of(kept[-1])):
            logger.warning("a restored conversation has tool results without a call: left out")
            message["content"] = [b for b in message["content"] if "toolResult" not in b]
            if not message["content"]:
                continue
        kept.append(message)
    return kept


def _add_missing_results(messages: list[Message]) -> list[Message]:
    """Give each call but those of the last message its result, in the order of the calls."""
    paired: list[Message] = []
    for message in messages:
        called = _call_ids(paired[-1]) if paired else []
        results = {
            block["toolResult"]["toolUseId"]: block
            for block in message["content"]
            if "toolResult" in block
        }
        if called and results.keys() != set(called):
            logger.warning("a restored conversation has tool calls without a result: errors added")
            answer = message
            if message["content"] and not results:
                # The message begins another turn, or continues without an answer.
                answer = with_tracking_id({"role": "user", "content": []})
                paired.append(answer)
            others = [block for block in answer["content"] if "toolResult" not in block]
            complete = [results.get(key) or _interrupted(key) for key in called]
            answer["content"] = [*complete, *others]
        if not paired or paired[-1] is not message:
            paired.append(message)
    return paired


def _call_ids(message: Message) -> list[str]:
    return [b["toolUse"]["toolUseId"] for b in message["content"] if "toolUse" in b]


def _interrupted(tool_use_id: str) -> ContentBlock:
    """Return the result that Strands, too, gives a call whose process ended."""
    return {
        "toolResult": {
            "toolUseId": tool_use_id,
            "status": "error",
            "content": [{"text": "Tool was interrupted."}],
        }
    }
