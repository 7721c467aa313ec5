"""What an audit event's details say, in words.

Events keep keys and figures, which no translation may change. Details are open: what another
program recorded, or a later version of this one, is shown as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

_KEYS = frozenset({"first", "last"})
"""Keys of messages, which nobody can read: the event's own page has them."""

_PAGES: dict[str, Any] = {
    "messages": gettext_lazy("conversation"),
    "compare": gettext_lazy("comparison of branches"),
    "redact": gettext_lazy("preview of a redaction"),
    "redact_agent_session": gettext_lazy("preview of a redaction, on the command line"),
    "download": gettext_lazy("a message as a file"),
    "raw": gettext_lazy("a message as it is stored"),
    "text": gettext_lazy("the whole text of a message"),
    "media": gettext_lazy("an image or a file"),
    "state": gettext_lazy("stored state"),
}
_FORMATS: dict[str, Any] = {
    "markdown": gettext_lazy("as Markdown"),
    "jsonl": gettext_lazy("as JSON Lines"),
}
_COLUMNS: dict[str, Any] = {
    "metadata": gettext_lazy("metadata"),
    "state": gettext_lazy("state"),
    "conversation_manager_state": gettext_lazy("state of the conversation manager"),
    "internal_state": gettext_lazy("internal state"),
    "window": gettext_lazy("what the model sees"),
}
_FIGURES: dict[str, Any] = {
    "messages": ngettext_lazy("%(count)s message", "%(count)s messages", "number"),
    "set_aside": ngettext_lazy(
        "%(count)s message set aside", "%(count)s messages set aside", "number"
    ),
    "hits": ngettext_lazy("%(count)s place", "%(count)s places", "number"),
    "states": ngettext_lazy("%(count)s state", "%(count)s states", "number"),
}


def in_words(details: Any, *, within: bool = False) -> str:
    """Says what an event's details are."""
    if not isinstance(details, Mapping):
        return _plain(details)
    found = []
    for name, value in details.items():
        if name not in _KEYS:
            found.append(_said(name, value, within))
    return ", ".join(words for words in found if words)


def _said(name: str, value: Any, within: bool) -> str:
    if name == "found" and type(value) is int:
        return _found(value, within)
    if name == "kinds" and isinstance(value, Mapping):
        return _("of these %(kinds)s") % {"kinds": _plain(value)} if value else ""
    if name in _FIGURES and type(value) is int:
        return str(_FIGURES[name] % {"number": value, "count": number_format(value)})
    named: Callable[[str], Any] = {"page": _PAGES, "format": _FORMATS, "column": _COLUMNS}.get(
        name, {}
    ).get
    known = named(value) if isinstance(value, str) else None
    return f"{name} {_plain(value)}" if known is None else str(known)


def _found(number: int, within: bool) -> str:
    count = {"count": number_format(number)}
    if within:
        return ngettext("%(count)s message found", "%(count)s messages found", number) % count
    return ngettext("%(count)s session found", "%(count)s sessions found", number) % count


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(_plain(one) for one in value)
    return str(value)
