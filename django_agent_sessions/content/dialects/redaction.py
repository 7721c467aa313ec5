"""Redaction of whole messages: which values of a message stay, and what replaces the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .vocabulary import Vocabulary

Message = dict[str, Any]


class SafeId(Protocol):
    """Returns an id unchanged if it has the form of an id, else its replacement."""

    def __call__(self, text: str, *, prefixed: bool = False, chosen: bool = False) -> str:
        """``prefixed``: keep a prefix for the type; ``chosen``: a client chose the id."""
        ...


def mask(kind: str = "") -> str:
    """Return the mask for a kind such as ``"IMAGE"``, or the general mask."""
    return f"[REDACTED:{kind}]" if kind else "[REDACTED]"


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces the values of a message.

    The functions need the settings, which a dialect does not read.
    """

    vocabulary: Vocabulary
    is_mask: Callable[[str], bool]
    """Returns whether a text consists of one mask of a known kind."""

    safe_id: SafeId
    pseudonym: Callable[[str], str]
    """Returns the replacement of an id that no other item refers to."""

    safe_name: Callable[[str], str]
    """Returns a name unchanged if it has the form of a name, else a replacement."""

    def text(self, value: Any) -> str:
        """Return a mask for a text; a mask of a kind such as IMAGE is kept."""
        return value if isinstance(value, str) and self.is_mask(value) else mask()

    def ids(self, value: Any, *keys: str, chosen: bool = False) -> Message:
        """Return the ids at these keys."""
        prefixed = self.vocabulary.prefixed_ids
        return {
            key: self.safe_id(text, prefixed=key in prefixed, chosen=chosen)
            for key, text in select(value, *keys).items()
            if isinstance(text, str)
        }

    def name(self, value: Any) -> Message:
        """Return the name of a tool, if there is one."""
        return {
            key: self.safe_name(name if isinstance(name, str) else "")
            for key, name in select(value, "name").items()
        }

    def key(self, key: Any) -> Any:
        """Return a key of the format unchanged, and a mask for others."""
        return key if not isinstance(key, str) or key in self.vocabulary.all_keys else mask()

    def field(self, key: str, value: Any) -> Any:
        """Keep ids, names, enumerated values and numbers of the format; mask all else."""
        known = self.vocabulary
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return value if key in known.numbers or key in known.counts else mask()
        if isinstance(value, str) and key not in known.counts:
            return self._text_field(key, value)
        if isinstance(value, list) and (key in known.enums or key in known.options):
            return [self.field(key, one) for one in value]
        return self.values(value)

    def _text_field(self, key: str, value: str) -> str:
        known = self.vocabulary
        if key in known.ids or key in known.object_ids:
            return self.safe_id(value, prefixed=key in known.prefixed_ids)
        if key in known.tool_names:
            return self.safe_name(value)
        is_enum = key in known.enums or key in known.options
        return value if is_enum and known.is_word(value) else mask()

    def values(self, value: Any) -> Any:
        """Mask all values below; keep the keys that an item of this type requires."""
        if isinstance(value, list):
            return [self.values(item) for item in value]
        if isinstance(value, dict):
            # Other keys are those of an application: they and their number are content.
            value = {key: item for key, item in value.items() if key in self.vocabulary.all_keys}
            is_tool = self.vocabulary.is_tool(value)
            return {
                key: mask() if key == "name" and not is_tool else self.field(key, item)
                for key, item in value.items()
            }
        return value if value is None or isinstance(value, bool) else mask()


def select(value: Any, *keys: str) -> Message:
    """Return the entries of a dict with these keys."""
    return {key: value[key] for key in keys if key in value} if isinstance(value, dict) else {}
