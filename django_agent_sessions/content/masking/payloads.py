"""Masking inside of payloads, which stay valid for the SDK and the model.

Roles, types and the names of tools and nodes are never changed. An id is replaced in the same way
everywhere, so that a result still refers to its call. Everything below a tool's input or below an
agent's own state is content, whatever its keys.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

from django_agent_sessions.content import dialects
from django_agent_sessions.content.detectors import Detector
from django_agent_sessions.content.dialects.redaction import mask
from django_agent_sessions.content.dialects.vocabulary import ValueKind, is_name, may_be_word
from django_agent_sessions.content.exact_json import key_text
from django_agent_sessions.content.paths import Path, value_at
from django_agent_sessions.content.work_budget import check_work, hold_work

from .compressed import CompressedFile, is_compressed
from .encodings import base64_start, decode_base64, parse_embedded_json, within_escape
from .finders import DetectorFinder, Finder, Finders
from .masks import document_name, is_replacement_id, replacement_id
from .replacement import drop_copies, ensure_json, mask_matches, replace_texts
from .text_finder import Match

_BASE64_TEXT = re.compile(r"[A-Za-z0-9+/=\r\n]{8,}\Z")
_BYTES = "__bytes_encoded__"
"""The key with which Strands marks bytes in base64."""
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_LONGEST_PLAIN = 256
_SHORTEST_IN_BASE64 = 8
_EXCERPT = 40
_LONGEST_FOUND = 2000
_VALUES_PER_CHECK = 100

MAX_LISTED_MATCHES = 1000
"""How many matches are kept; all are counted and masked."""


@dataclass(frozen=True, slots=True)
class MaskedMatch:
    """A match that was masked."""

    path: Path = field(repr=False)
    kind: str
    found: str = field(repr=False)
    before: str = field(repr=False)
    after: str = field(repr=False)


class MaskedMatches(list[MaskedMatch]):
    """The first matches, with the number of all of each kind, and their texts."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: Counter[str] = Counter()
        self.texts: set[str] = set()
        self.replaced: list[Path] = []
        """The paths of compressed files that were replaced as a whole."""
        self.unread: list[Path] = []
        """The paths of files that were not searched completely."""

    def record(self, path: Path, text: str, match: Match) -> None:
        self.kinds[match.kind] += 1
        start, end = match.start, match.end
        if end - start <= _LONGEST_FOUND and (found := text[start:end]) not in self.texts:
            hold_work(len(found))
            self.texts.add(found)
        if len(self) >= MAX_LISTED_MATCHES:
            return
        left, right = text[max(0, start - _EXCERPT) : start], text[end : end + _EXCERPT]
        found = text[start : min(end, start + _LONGEST_FOUND)]
        found += "…" * (end - start > _LONGEST_FOUND)
        after = mask(match.kind).join((left, right))
        self.append(MaskedMatch(path, match.kind, found, f"{left}{found}{right}", after))


def mask_text(text: str, detectors: Sequence[Detector]) -> str:
    """Return a text with the matches of detectors masked."""
    return mask_matches(text, Finders([DetectorFinder(detectors)]).search(text))


def mask_tree(
    value: Any,
    finders: Sequence[Finder],
    *,
    free: bool = False,
    kept: list[Path] | None = None,
) -> tuple[Any, MaskedMatches]:
    """Return a payload with the matches of finders masked, and the matches.

    With ``free``, all keys and values are content. ``kept`` receives the paths of names that
    match but are not masked, because programs look them up.
    """
    known = finders if isinstance(finders, Finders) else Finders(finders)
    masker = _Masker(known, [] if kept is None else kept)
    changed = masker.value(value, (), free)
    return changed, masker.hits


class _Names:
    """Unique names for masked keys."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def new(self, masked: str) -> str:
        """Return a name, with a number if it is taken."""
        name, number = masked, self._numbers.get(masked, 1)
        while name in self._taken:
            number += 1
            name = f"{masked} ({number})"
        self._numbers[masked] = number
        self._taken.add(name)
        return name


class _Masker:
    def __init__(self, finders: Finders, kept: list[Path]) -> None:
        self._finders = finders
        self._kept = kept
        self._kinds = dialects.value_kinds()
        self._known = dialects.vocabulary()
        self._exact = finders.exact
        self.hits = MaskedMatches()
        self._visited = 0

    def value(self, value: Any, path: Path, free: bool) -> Any:
        self._visited += 1
        if self._visited % _VALUES_PER_CHECK == 0:
            check_work()
        if isinstance(value, str):
            return self._string(value, path)
        if isinstance(value, dict):
            return self._dict(value, path, free)
        if isinstance(value, list | tuple):
            return self._list(value, path, free)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._binary(bytes(value), path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._number(value, path, free)
        return value

    def _dict(self, value: dict[str, Any], path: Path, free: bool) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        # A masked key must not overwrite an existing one.
        names = _Names(value)
        for key, item in value.items():
            masked = self._key(key, path, free)
            name = key if masked == key else names.new(masked)
            changed[name] = self._item(value, key, item, (*path, key), free)
        if all(key in changed and changed[key] is item for key, item in value.items()):
            return value
        return changed if free else drop_copies(value, changed)

    def _item(self, parent: dict[str, Any], key: str, item: Any, path: Path, free: bool) -> Any:
        if key == "data" and parent.get(_BYTES) is True and isinstance(item, str):
            return self._base64(item, path)
        if free:
            return self.value(item, path, True)
        kind = self._kind(parent, key, item)
        if kind is ValueKind.WORD:
            return item
        if kind is ValueKind.NAME:
            return self._name(item, path)
        if kind is ValueKind.DOCUMENT:
            return self._file_name(item, path, limited=True)
        if isinstance(item, str) and (mask_text := self._text_masker(key, item)) is not None:
            return mask_text(item, path)
        if key in self._known.counts and isinstance(item, dict):
            return self._counts(item, path)
        return self.value(item, path, kind is ValueKind.CONTENT or key in self._known.free)

    def _kind(self, parent: dict[str, Any], key: str, item: Any) -> ValueKind | None:
        if key in self._known.names or (key == "name" and self._known.is_tool(parent)):
            return ValueKind.NAME
        for kind_of in self._kinds.get(key, ()):
            if (kind := kind_of(parent, item)) is not None:
                return kind
        return None

    def _text_masker(self, key: str, text: str) -> Callable[[str, Path], str] | None:
        """Return the method that masks the text at a key; None if it is plain."""
        known = self._known
        if key in known.enums:
            return _unchanged if text in known.words else self._word
        if key in known.digests and _DIGEST.match(text):
            return _unchanged
        if key in known.sealed:
            return self._sealed
        if key in known.file_names:
            return self._file_name
        if key in known.ids:
            return self._prefixed_id if key in known.prefixed_ids else self._id
        if key in known.base64 and _BASE64_TEXT.match(text):
            return self._base64
        return None

    def _list(self, value: Sequence[Any], path: Path, free: bool) -> Sequence[Any]:
        changed: list[Any] = []
        for index, item in enumerate(value):
            # Not a comprehension: before Python 3.12 it adds a frame per level.
            changed.append(self.value(item, (*path, index), free))
        changed_across = self._mask_across_blocks(changed, path, free)
        if not changed_across and all(a is b for a, b in zip(changed, value, strict=True)):
            return value
        return changed

    def _mask_across_blocks(self, items: list[Any], path: Path, free: bool) -> bool:
        """Mask matches that begin in one block and end in another."""
        indexes_by_path: dict[Path, list[int]] = {}
        for index, item in enumerate(items):
            for inner in self._text_paths(item, free):
                indexes_by_path.setdefault(inner, []).append(index)
        changed: dict[int, dict[Path, str]] = {}
        for inner, members in indexes_by_path.items():
            if len(members) < 2:
                continue
            texts = [str(value_at(items[index], inner)) for index in members]
            masked_texts = self._mask_joined(texts, path, members, inner, "", self._finders)
            if self._exact:
                # Blocks may also be separate lines.
                masked_texts = self._mask_joined(
                    masked_texts, path, members, inner, "\n", self._exact
                )
            for index, before, after in zip(members, texts, masked_texts, strict=True):
                if after is not before:
                    changed.setdefault(index, {})[inner] = after
        # All texts of a block at once: each call copies the block.
        for index, texts_of in changed.items():
            items[index] = replace_texts(items[index], texts_of)
        return bool(changed)

    def _text_paths(self, item: Any, free: bool, depth: int = 3) -> Iterator[Path]:
        """Yield the paths of texts in a block that may continue in the next block."""
        if isinstance(item, str):
            yield ()
        elif isinstance(item, dict) and depth:
            for key, inner in item.items():
                if free or key not in self._known.not_joined:
                    for rest in self._text_paths(inner, free, depth - 1):
                        yield (key, *rest)

    def _mask_joined(
        self,
        texts: list[str],
        path: Path,
        members: list[int],
        inner: Path,
        between: str,
        finders: Finders,
    ) -> list[str]:
        joined = between.join(texts)
        starts = list(accumulate((len(text) + len(between) for text in texts), initial=0))
        parts: dict[int, list[Match]] = {}
        for found in finders.find(joined):
            first = index = bisect_right(starts, found.start) - 1
            if starts[index + 1] >= found.end:
                continue
            own_parts: dict[int, Match] = {}
            while index < len(texts) and starts[index] < found.end:
                start = max(found.start - starts[index], 0)
                end = min(found.end - starts[index], len(texts[index]))
                if start < end:
                    own_parts[index] = Match(start, end, found.kind)
                index += 1
            if len(own_parts) < 2:
                # The rest of the match is the separator.
                continue
            self.hits.record((*path, members[first], *inner), joined, found)
            for index, part in own_parts.items():
                parts.setdefault(index, []).append(part)
        return [
            mask_matches(text, parts[index]) if index in parts else text
            for index, text in enumerate(texts)
        ]

    def _string(self, text: str, path: Path) -> str:
        if start := base64_start(text):
            return self._base64(text, path, start)
        parsed = parse_embedded_json(text, len(path))
        return self._plain(text, path) if parsed is None else self._json(text, parsed, path)

    def _plain(self, text: str, path: Path) -> str:
        return self._mask_matches(text, self._finders.find(text), path)

    def _mask_matches(self, text: str, found: Iterable[Match], path: Path) -> str:
        matches = iter(found)
        first = next(matches, None)
        if first is None:
            return text
        return mask_matches(text, self._record(text, chain([first], matches), path))

    def _record(self, text: str, found: Iterable[Match], path: Path) -> Iterator[Match]:
        for match in found:
            self.hits.record(path, text, match)
            yield match

    def _json(self, text: str, parsed: Any, path: Path) -> str:
        """Mask inside of JSON in a string, which stays JSON."""
        changed = self.value(parsed, path, True)
        if changed is not parsed:
            text = json.dumps(changed, ensure_ascii=text.isascii())
        # A named text may contain JSON punctuation, and detectors need a key with its value.
        found = (
            match
            for match in self._finders.find(text)
            if not within_escape(text, match.start) and not within_escape(text, match.end)
        )
        return ensure_json(text, self._mask_matches(text, found, path))

    def _key(self, key: Any, path: Path, free: bool) -> Any:
        if not isinstance(key, str):
            # It is stored as text.
            text = str(key_text(key))
            masked = self._mask_matches(text, self._finders.find(text), (*path, text))
            return key if masked is text else masked
        if not free and key in self._known.all_keys:
            return key
        if not free and path and path[-1] in self._known.name_keyed:
            return self._name(key, (*path, key))
        if not free and path and path[-1] in self._known.id_keyed:
            return self._id(key, (*path, key))
        return self._mask_matches(key, self._finders.find(key), (*path, key))

    def _word(self, text: str, path: Path) -> str:
        """Mask a value unless it may be one of a newer SDK and only a part of it matches."""
        found = list(self._finders.find(text))
        if found and may_be_word(text) and (found[0].start, found[-1].end) != (0, len(text)):
            self._kept.append(path)
            return text
        return self._mask_matches(text, found, path)

    def _name(self, item: Any, path: Path) -> Any:
        """Keep names, which programs look up, and record their paths."""
        if isinstance(item, list) and all(isinstance(name, str) for name in item):
            changed = [self._name(name, (*path, index)) for index, name in enumerate(item)]
            return item if changed == item else changed
        if not is_name(item):
            return self.value(item, path, True)
        if any(self._finders.find(item)):
            self._kept.append(path)
        return item

    def _sealed(self, text: str, path: Path) -> str:
        """Mask text that was written in place of a signature."""
        return self._mask_long_matches(text, self._finders.strings, path)

    def _counts(self, value: dict[str, Any], path: Path) -> dict[str, Any]:
        """Mask the values that are not numbers."""
        changed: dict[str, Any] = {}
        names = _Names(value)
        for key, item in value.items():
            masked = self._key(key, path, False)
            is_number = isinstance(item, int | float)
            changed[key if masked == key else names.new(masked)] = (
                item if is_number else self.value(item, (*path, key), False)
            )
        same = all(key in changed and changed[key] is item for key, item in value.items())
        return value if same else changed

    def _prefixed_id(self, text: str, path: Path) -> str:
        return self._id(text, path, prefixed=True)

    def _id(self, text: str, path: Path, *, prefixed: bool = False) -> str:
        first = next(iter(self._exact.find(text)), None)
        if first is None or is_replacement_id(text):
            return text
        self.hits.record(path, text, first)
        return replacement_id(text, first.start, prefixed=prefixed)

    def _file_name(self, text: str, path: Path, *, limited: bool = False) -> str:
        """Mask a name so that providers accept it, and no other name is equal."""
        masked = self._plain(text, path)
        return text if masked is text else document_name(text, masked, limited=limited)

    def _number(self, number: float, path: Path, free: bool) -> Any:
        if not free and any(step in self._known.numbers for step in path[-2:]):
            return number
        try:
            text = repr(number)
        except ValueError:
            return number
        first = next(iter(self._finders.find(text)), None)
        if first is None:
            return number
        self.hits.record(path, text, first)
        return mask(first.kind)

    def _binary(self, data: bytes, path: Path) -> bytes:
        if is_compressed(data) and (masked_file := self._compressed(data, path)) is not None:
            return masked_file
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._opaque(data, path)
        masked = self._plain(text, path)
        if masked is text and b"\0" in data:
            # UTF-16.
            return self._opaque(data, path)
        return data if masked is text else masked.encode()

    def _compressed(self, data: bytes, path: Path) -> bytes | None:
        """Return a mask instead of a file that contains a match; None if it has none."""
        file = CompressedFile(data)
        match = file.find(self._finders)
        if match is None:
            if file.unread:
                self.hits.unread.append(path)
            return None
        masked = mask(match.kind)
        self.hits.kinds[match.kind] += 1
        self.hits.append(MaskedMatch(path, match.kind, "", "", masked))
        self.hits.replaced.append(path)
        return masked.encode()

    def _opaque(self, data: bytes, path: Path) -> bytes:
        # One character per byte, so that positions are equal. The length must not change.
        text = data.decode("latin-1")
        masked: bytearray | None = None
        for match in self._exact.search(text, is_bytes=True):
            self.hits.record(path, text, match)
            masked = masked or bytearray(data)
            masked[match.start : match.end] = b"*" * (match.end - match.start)
        return data if masked is None else bytes(masked)

    def _base64(self, text: str, path: Path, start: int = 0) -> str:
        data = decode_base64(text[start:])
        if data is None:
            return self._plain(text, path)
        masked = self._binary(data, path)
        if masked is data:
            return self._words(text, path, start)
        return self._plain(text[:start], path) + base64.b64encode(masked).decode()

    def _words(self, text: str, path: Path, start: int) -> str:
        """Mask in a text that looks like base64, but may be plain."""
        if start:
            head = text[:start]
            masked = self._plain(head, path)
            return text if masked is head else masked + text[start:]
        if len(text) <= _LONGEST_PLAIN:
            return self._plain(text, path)
        return self._mask_long_matches(text, self._exact, path)

    def _mask_long_matches(self, text: str, finders: Finders, path: Path) -> str:
        # A signature, or the base64 of an image, may contain a short text by chance.
        found = finders.find(text)
        long = [match for match in found if match.end - match.start >= _SHORTEST_IN_BASE64]
        return self._mask_matches(text, long, path)


def _unchanged(text: str, path: Path) -> str:
    return text
