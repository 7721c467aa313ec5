"""Replacing matches with masks, so that texts and payloads stay valid."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects.redaction import mask
from django_agent_sessions.content.paths import Path
from django_agent_sessions.content.work_budget import check_work

from .encodings import parse_embedded_json
from .masks import mask_spans
from .text_finder import Match


def replace_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Mask parts of a text; JSON stays JSON."""
    masks = mask_spans(text)
    unchanged = set(masks)
    found: list[Match] = []
    for start, end in sorted(_widen(span, masks) for span in spans):
        if (start, end) in unchanged:
            continue
        if found and start < found[-1].end:
            found[-1] = Match(found[-1].start, max(end, found[-1].end), "")
        else:
            found.append(Match(start, end, ""))
    return ensure_json(text, mask_matches(text, found)) if found else text


def _widen(span: tuple[int, int], masks: Sequence[tuple[int, int]]) -> tuple[int, int]:
    start, end = span
    before, behind = bisect_left(masks, (start, start)) - 1, bisect_left(masks, (end, end)) - 1
    if before >= 0 and masks[before][1] > start:
        start = masks[before][0]
    if behind >= 0 and masks[behind][1] > start:
        end = max(end, masks[behind][1])
    return start, end


def replace_at(value: Any, path: Path, new: Any) -> Any:
    """Return a copy of a payload with the value at a path replaced."""
    if not path:
        return new
    changed = replace_at(value[path[0]], path[1:], new)
    if isinstance(value, dict):
        copied: dict[Any, Any] = {**value, path[0]: changed}
        return drop_copies(value, copied)
    return [changed if at == path[0] else item for at, item in enumerate(value)]


def replace_texts(value: Any, texts: Mapping[Path, str]) -> Any:
    """Return a copy of a payload with the texts at several paths replaced."""
    if () in texts:
        return texts[()]
    below: dict[Any, dict[Path, str]] = {}
    for path, text in texts.items():
        below.setdefault(path[0], {})[path[1:]] = text
    changed = {key: replace_texts(value[key], inner) for key, inner in below.items()}
    return drop_copies(value, {**value, **changed})


def mask_matches(text: str, found: Iterable[Match]) -> str:
    """Replace each match with a mask; the matches must be sorted and must not overlap.

    Without matches the text itself is returned.
    """
    masked: StringIO | None = None
    end = 0
    for match in found:
        if masked is None:
            masked = StringIO()
        masked.write(text[end : match.start])
        check_work(masked.write(mask(match.kind)) + masked.tell())
        end = match.end
    if masked is None:
        return text
    masked.write(text[end:])
    return masked.getvalue()


def ensure_json(before: str, after: str) -> str:
    """Return ``after``, or a replacement document if it is no longer JSON as ``before`` was."""
    if (
        after == before
        or (parsed := parse_embedded_json(before)) is None
        or parse_embedded_json(after) is not None
    ):
        return after
    return json.dumps({"redacted": mask()} if isinstance(parsed, dict) else [mask()])


def drop_copies(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Remove copies of a changed text in other forms, and signatures of it."""
    changed = frozenset(key for key in after if after[key] is not before.get(key))
    for dialect in dialects.all_dialects():
        after = dialect.drop_copies(before, after, changed)
    return after
