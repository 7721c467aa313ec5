"""Putting masks in the place of what was found, so that texts and payloads stay what they were."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django_agent_sessions.references import Path

from .encoded import container
from .finders import Found
from .masks import mask
from .masks import spans as masks_in


def replace_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Masks parts of a text; JSON stays JSON."""
    masks = masks_in(text)
    alone = set(masks)
    found: list[Found] = []
    for start, end in sorted(_widened(span, masks) for span in spans):
        if (start, end) in alone:
            continue
        if found and start < found[-1].end:
            found[-1] = Found(found[-1].start, max(end, found[-1].end), "")
        else:
            found.append(Found(start, end, ""))
    return sound(text, replaced(text, found)) if found else text


def _widened(span: tuple[int, int], masks: Sequence[tuple[int, int]]) -> tuple[int, int]:
    start, end = span
    before, behind = bisect_left(masks, (start, start)) - 1, bisect_left(masks, (end, end)) - 1
    if before >= 0 and masks[before][1] > start:
        start = masks[before][0]
    if behind >= 0 and masks[behind][1] > start:
        end = max(end, masks[behind][1])
    return start, end


def replace_at(value: Any, path: Path, new: Any) -> Any:
    """Replaces what is at a place in a payload."""
    if not path:
        return new
    changed = replace_at(value[path[0]], path[1:], new)
    if isinstance(value, dict):
        copied: dict[Any, Any] = {**value, path[0]: changed}
        return without_copies(value, copied)
    return [changed if at == path[0] else item for at, item in enumerate(value)]


def replace_texts(value: Any, texts: Mapping[Path, str]) -> Any:
    """Replaces several texts in a payload at once."""
    if () in texts:
        return texts[()]
    below: dict[Any, dict[Path, str]] = {}
    for path, text in texts.items():
        below.setdefault(path[0], {})[path[1:]] = text
    changed = {key: replace_texts(value[key], inner) for key, inner in below.items()}
    return without_copies(value, {**value, **changed})


def replaced(text: str, found: Iterable[Found]) -> str:
    """Puts a mask in each place that was found; the places are in order."""
    pieces, end = [], 0
    for place in found:
        pieces += [text[end : place.start], mask(place.kind)]
        end = place.end
    return "".join([*pieces, text[end:]])


def sound(before: str, after: str) -> str:
    """Keeps JSON in a string JSON, whatever was cut out of it."""
    if after == before or (parsed := container(before)) is None or container(after) is not None:
        return after
    return json.dumps({"redacted": mask()} if isinstance(parsed, dict) else [mask()])


def without_copies(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Drops what repeats a changed text in another form, or vouches for how it was."""
    reasoning = after.get("reasoningContent")
    if reasoning is not None and reasoning is not before["reasoningContent"]:
        words = reasoning.get("reasoningText") if isinstance(reasoning, dict) else None
        if isinstance(words, dict) and words.get("signature"):
            # Providers refuse reasoning whose signature does not fit any more.
            return {"text": mask()}
    changed = {key for key in after if after[key] is not before.get(key)}
    if "logprobs" in after and "text" in changed:
        after["logprobs"] = []
    if "providerMetadata" in after and "text" in changed:
        del after["providerMetadata"]
    if "encrypted_content" in after and changed & {"summary", "content"}:
        after["encrypted_content"] = None
    return after
