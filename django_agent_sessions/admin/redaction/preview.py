"""The preview of a redaction: excerpts before and after, and counts of what is affected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.masking import mask
from django_agent_sessions.content.role_labels import OTHER_ROLE, ROLE_LABELS
from django_agent_sessions.governance.redaction import Hit, Place, Redaction
from django_agent_sessions.models import SessionMessage

MAX_SHOWN_PLACES = 200
"""The most places that the page shows; all of them are redacted."""

_MAX_FOUND = 300
_CONTEXT = 40
"""The most characters of context that a hit has on each side."""

_COLUMN_LABELS = {
    "title": gettext_lazy("Title"),
    "metadata": gettext_lazy("Metadata"),
    "origin": gettext_lazy("Origin"),
}
_PLACE_NAMES: dict[str, Any] = {
    "message": gettext_lazy("Message %(position)s"),
    "agent": gettext_lazy("State of agent %(name)s"),
    "orchestrator": gettext_lazy("State of orchestrator %(name)s"),
    "session": gettext_lazy("Session"),
    "snapshot": gettext_lazy("Snapshot %(name)s"),
    "object": gettext_lazy("Stored object %(name)s"),
    "branch": gettext_lazy("Branch %(name)s"),
    "label": gettext_lazy("Label"),
}


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One place, before and after."""

    where: str
    """The column and the path."""

    left: str = ""
    found: str = ""
    mask: str = ""
    right: str = ""


class Group(NamedTuple):
    """The places in one message, agent or orchestrator, or in one column of the session."""

    place: Place
    name: str
    role: str
    branch: int
    excerpts: list[Excerpt]


def build_preview(viewer: Viewer, result: Redaction) -> dict[str, Any]:
    """Return a dry run as the template shows it."""
    page, total = result.hits[:MAX_SHOWN_PLACES], count_places(result)
    rows: dict[str, set[UUID]] = {}
    for group in result.counts:
        rows.setdefault(group.kind, set()).add(group.key)
    columns = {group.column for group in result.counts if group.kind == "session"}
    here = total - sum(fork.total for fork in result.forks)
    return {
        "total": total,
        # The places in the session itself, and those of them that are not shown.
        "here": here,
        "shown": len(page),
        "more": here - len(page),
        "groups": group_places(viewer, page),
        "messages": result.messages,
        "rows": {kind: len(keys) for kind, keys in rows.items()},
        "columns": [label for name, label in _COLUMN_LABELS.items() if name in columns],
        "kept": [_kept_name(place) for place in result.kept],
        # The confirmation must match it.
        "seal": result.digest,
        # The fork's own page shows its places.
        "forks": [fork for fork in result.forks if fork.total and fork.session],
    }


def _kept_name(place: Place) -> str:
    name = _PLACE_NAMES.get(place.kind, "%(name)s") % {"name": place.name, "position": place.name}
    return f"{name} ({place.column})"


def count_places(result: Redaction) -> int:
    """Return the number of places in the session and the included forks."""
    return sum(each.total for each in (result, *result.forks))


def count_unsearched_messages(result: Redaction) -> int:
    """Return the number of messages with a missing file, which could not be searched."""
    return sum(len(each.unread) for each in (result, *result.forks))


def group_places(viewer: Viewer, hits: Sequence[Hit]) -> list[Group]:
    """Return the places as the template shows them, in groups."""
    messages = _message_rows(viewer, {h.place.key for h in hits if h.place.kind == "message"})
    groups: dict[tuple[Any, ...], Group] = {}
    for hit in hits:
        place = hit.place
        key = (place.kind, place.key, place.column if place.kind == "session" else "")
        row = messages.get(place.key, {})
        group = groups.setdefault(key, _group(place, row))
        group.excerpts.append(_excerpt(viewer, hit))
    return list(groups.values())


def _message_rows(viewer: Viewer, keys: Iterable[UUID]) -> dict[UUID, dict[str, Any]]:
    rows = SessionMessage.objects.using(viewer.using).filter(
        pk__in=list(keys), session=viewer.session
    )
    values = rows.values("id", "role", "branch", "agent__agent_id")
    return {row["id"]: {**row} for row in values}


def _group(place: Place, row: dict[str, Any]) -> Group:
    name, role = place.name, ""
    if place.kind == "message":
        name = row.get("agent__agent_id", "")
        role = _(ROLE_LABELS.get(row.get("role", ""), OTHER_ROLE))
    elif place.kind == "session":
        name = str(_COLUMN_LABELS.get(place.column, place.column))
    return Group(place, name, role, row.get("branch", 0), [])


def _excerpt(viewer: Viewer, hit: Hit) -> Excerpt:
    # Without the row's name, which is the heading of the group.
    where = str(replace(hit.place, name="")).partition(", ")[2]
    if hit.place.kind == "note" and not viewer.can_review:
        return Excerpt(where, found=_("not shown"), mask=mask(hit.kind))
    if not hit.before:
        # A message or block without text.
        return Excerpt(where, found=_("everything"), mask=hit.after)
    left, found, right = _split_excerpt(hit)
    return Excerpt(
        where,
        left=("…" if len(left) >= _CONTEXT else "") + displayable(left),
        found=_truncate(found),
        mask=mask(hit.kind),
        right=displayable(right) + ("…" if len(right) >= _CONTEXT else ""),
    )


def _split_excerpt(hit: Hit) -> tuple[str, str, str]:
    """Split an excerpt into the text before, at and after the mask.

    The conversation itself may contain something that looks like a mask. The right one is the
    one whose sides are those of the original.
    """
    mask_text, at = mask(hit.kind), -1
    while (at := hit.after.find(mask_text, at + 1)) >= 0:
        left, right = hit.after[:at], hit.after[at + len(mask_text) :]
        if (
            hit.before.startswith(left)
            and hit.before.endswith(right)
            and len(left) + len(right) < len(hit.before)
        ):
            return left, hit.before[len(left) : len(hit.before) - len(right)], right
    return "", hit.before, ""


def _truncate(text: str) -> str:
    text = displayable(text)
    return text if len(text) <= _MAX_FOUND else f"{text[:_MAX_FOUND]}…"
