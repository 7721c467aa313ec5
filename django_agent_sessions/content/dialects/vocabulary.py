"""The vocabulary of a message format: the keys and values in it that are never content."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Any

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]{0,63}")
_NAME = re.compile(r"[^\W\d][\w.\-/: ]{0,63}")
_EMPTY: frozenset[str] = frozenset()
_OTHER_FIELDS = ("base64", "words")


def terms(text: str) -> frozenset[str]:
    """Return the words of a text: a set of many names, to be read as names."""
    return frozenset(text.split())


class ValueKind(Enum):
    """What a value is, if that depends on more than its key."""

    CONTENT = auto()
    """Content, with all keys below it."""

    NAME = auto()
    """A name that programs look up."""

    WORD = auto()
    """An enumerated value."""

    DOCUMENT = auto()
    """The name of a document, which must stay valid and unique in its conversation."""


@dataclass(frozen=True)
class Vocabulary:
    """What a redaction must know of a format, so that its messages stay valid.

    All fields but ``words`` are sets of keys. A key in none of them is content, like its value. The
    redaction of a whole message or block removes such a key, and masks each value that its field
    does not keep. A redacted *text* is masked in all values but those that its field keeps.

    A key may be in several fields: the key of a tool's name in ``names`` and in ``tool_names``.
    """

    keys: frozenset[str] = _EMPTY
    """Other keys of the format: kept, while their values are content."""

    enums: frozenset[str] = _EMPTY
    """Keys of enumerated values, which both redactions keep: ``"role"``, with ``words``."""

    options: frozenset[str] = _EMPTY
    """Keys of enumerated values, kept only by the redaction of a whole message."""

    names: frozenset[str] = _EMPTY
    """Keys of names that programs look up, kept only by the redaction of a text."""

    name_keyed: frozenset[str] = _EMPTY
    """Keys of dicts whose keys are such names: ``{"results": {"planner": …}}``."""

    id_keyed: frozenset[str] = _EMPTY
    """Keys of dicts whose keys are ids: ``{"interrupts": {"i-1": …}}``."""

    ids: frozenset[str] = _EMPTY
    """Keys of ids. A redacted one gets the same replacement everywhere."""

    prefixed_ids: frozenset[str] = _EMPTY
    """Those of ``ids`` whose values may begin with a prefix for the type: ``"fc_1"``."""

    object_ids: frozenset[str] = _EMPTY
    """Keys of ids, kept only by the redaction of a whole message."""

    tool_names: frozenset[str] = _EMPTY
    """Keys of names, kept by the redaction of a whole message if they have the form of one."""

    file_names: frozenset[str] = _EMPTY
    """Keys of names of files, whose extensions providers need."""

    tools: frozenset[str] = _EMPTY
    """Keys that occur beside the ``name`` of a tool, and not beside the name of a person."""

    counts: frozenset[str] = _EMPTY
    """Keys of numbers, or of dicts that consist of numbers only: ``"usage"``."""

    numbers: frozenset[str] = _EMPTY
    """Keys of positions, sizes and counts, which both redactions keep."""

    free: frozenset[str] = _EMPTY
    """Keys of values whose keys are content, too: a tool's arguments."""

    sealed: frozenset[str] = _EMPTY
    """Keys of signatures and of encrypted texts, which are invalid if a part of them is masked."""

    digests: frozenset[str] = _EMPTY
    """Keys of SHA-256 digests, kept only by the redaction of a text."""

    base64: frozenset[str] = _EMPTY
    """Keys of texts in base64, which are searched decoded. Other texts there are content."""

    words: frozenset[str] = _EMPTY
    """The enumerated values themselves: ``"user"``, ``"assistant"``."""

    def __or__(self, other: Vocabulary) -> Vocabulary:
        """Return the vocabulary of both formats."""
        fields = (f.name for f in dataclasses.fields(self))
        return Vocabulary(**{name: getattr(self, name) | getattr(other, name) for name in fields})

    @cached_property
    def all_keys(self) -> frozenset[str]:
        """The keys of the format; all other keys are content."""
        fields = (f.name for f in dataclasses.fields(self) if f.name not in _OTHER_FIELDS)
        return _EMPTY.union(*(getattr(self, name) for name in fields))

    @cached_property
    def not_joined(self) -> frozenset[str]:
        """Keys of values that never continue in the next block."""
        named = (self.sealed, self.enums, self.names, self.ids, self.free, self.file_names)
        return frozenset({"name"}).union(*named)

    def is_word(self, value: object) -> bool:
        """Return whether a value is an enumerated value."""
        return isinstance(value, str) and value in self.words

    def is_tool(self, parent: Mapping[str, Any]) -> bool:
        """Return whether the ``name`` in a dict is the name of a tool."""
        return not self.tools.isdisjoint(parent) or parent.get("role") in ("function", "tool")


def may_be_word(value: str) -> bool:
    """Return whether a value may be an enumerated value of a newer version of a format."""
    return _WORD.fullmatch(value) is not None


def is_name(value: object) -> bool:
    """Return whether a value may be the name of a tool, a node or a class."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None
