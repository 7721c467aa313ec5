"""Translated descriptions of audit events' details.

Events store untranslated keys and numbers. Unknown keys, such as those that another program
recorded, are shown unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

from django_agent_sessions.models import Operation, Review

_KEYS = frozenset(
    {
        "first",
        "last",
        "by_namespace",
        "finished",
        "data_keys",
        "note",
        "operation_key",
        "owner",
        "user_id",
    }
)
"""Keys of messages, ids and figures in detail, which only the event's own page shows."""

_PAGES: dict[str, Any] = {
    "messages": gettext_lazy("conversation"),
    "compare": gettext_lazy("comparison"),
    "redact": gettext_lazy("preview of a redaction"),
    "agent_sessions_redact": gettext_lazy("preview of a redaction, on the command line"),
    "download": gettext_lazy("a message as a file"),
    "raw": gettext_lazy("a message as it is stored"),
    "text": gettext_lazy("the full text of a message"),
    "media": gettext_lazy("an image or a file"),
    "state": gettext_lazy("stored state"),
}
_FORMATS: dict[str, Any] = {
    "markdown": gettext_lazy("as Markdown"),
    "jsonl": gettext_lazy("as JSON Lines"),
}
_OPERATIONS: dict[str, Any] = dict(Operation.Kind.choices)
_COLUMNS: dict[str, Any] = {
    "metadata": gettext_lazy("metadata"),
    "state": gettext_lazy("state"),
    "conversation_manager_state": gettext_lazy("state of the conversation manager"),
    "internal_state": gettext_lazy("internal state"),
    "window": gettext_lazy("context window"),
}
_FIGURES: dict[str, Any] = {
    "sessions": ngettext_lazy("%(count)s session", "%(count)s sessions", "number"),
    "audit_events": ngettext_lazy("%(count)s audit event", "%(count)s audit events", "number"),
    "usage_rows": ngettext_lazy("%(count)s row of usage", "%(count)s rows of usage", "number"),
    "messages": ngettext_lazy("%(count)s message", "%(count)s messages", "number"),
    "set_aside": ngettext_lazy(
        "%(count)s message moved to a branch", "%(count)s messages moved to a branch", "number"
    ),
    "hits": ngettext_lazy("%(count)s place", "%(count)s places", "number"),
    "reasons": ngettext_lazy(
        "%(count)s reason of an earlier event", "%(count)s reasons of earlier events", "number"
    ),
    # Of a redaction: also titles, metadata, snapshots, comments and stored objects.
    "states": ngettext_lazy(
        "%(count)s title, state or other row", "%(count)s titles, states or other rows", "number"
    ),
    "labels_added": ngettext_lazy("%(count)s label added", "%(count)s labels added", "number"),
    "labels_removed": ngettext_lazy(
        "%(count)s label removed", "%(count)s labels removed", "number"
    ),
}

_LABELS: dict[str, dict[str, Any]] = {
    "page": _PAGES,
    "format": _FORMATS,
    "column": _COLUMNS,
    "operation": _OPERATIONS,
    "state": dict(Review.State.choices),
}


def describe_details(details: Any, *, within: bool = False) -> str:
    """Return a translated, comma-separated description of an event's details."""
    if not isinstance(details, Mapping):
        return _as_text(details)
    phrases = []
    for name, value in details.items():
        if name not in _KEYS:
            phrases.append(_phrase(name, value, within))
    return ", ".join(phrase for phrase in phrases if phrase)


def _phrase(name: str, value: Any, within: bool) -> str:
    if name == "found" and type(value) is int:
        return _found_count(value, within)
    if name == "kinds" and isinstance(value, Mapping):
        kinds = {_("named text") if kind == "NAMED" else kind: n for kind, n in value.items()}
        return _("of which %(kinds)s") % {"kinds": _as_text(kinds)} if kinds else ""
    if name == "sessions" and isinstance(value, list):
        value = len(value)
    if name in _FIGURES and type(value) is int:
        return str(_FIGURES[name] % {"number": value, "count": number_format(value)})
    if name == "assignee":
        return _("assigned to %(name)s") % {"name": value or _("nobody")}
    label_of: Callable[[str], Any] = _LABELS.get(name, {}).get
    label = label_of(value) if isinstance(value, str) else None
    return f"{name} {_as_text(value)}" if label is None else str(label)


def _found_count(number: int, within: bool) -> str:
    count = {"count": number_format(number)}
    if within:
        return ngettext("%(count)s message found", "%(count)s messages found", number) % count
    return ngettext("%(count)s session found", "%(count)s sessions found", number) % count


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_as_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(_as_text(item) for item in value)
    return str(value)
