"""What a redaction would do, for people: every place with what stands there before and after."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.masking import mask
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.redaction import Hit, Place, Redaction
from django_agent_sessions.transcripts import displayable

SHOWN = 200
"""Places that a page shows; all of them are redacted."""

_LONGEST = 300
_AROUND = 40
"""Characters that a redaction gives on each side of what it found."""

_ORIGINAL = "original"
_COLUMNS = {
    "title": gettext_lazy("Title"),
    "metadata": gettext_lazy("Metadata"),
    "origin": gettext_lazy("Origin"),
}


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One place, before and after."""

    where: str
    """Column and path, without content."""

    kind: str
    left: str = ""
    found: str = ""
    mask: str = ""
    right: str = ""

    sealed: bool = False
    """Whether it is in a kept original, which this page must not show."""


@dataclass(slots=True)
class Group:
    """The places in one message, agent, orchestrator, or column of the session."""

    kind: str
    name: str
    role: str = ""
    position: str = ""
    branch: int = 0
    message: UUID | None = None
    excerpts: list[Excerpt] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ForkPlaces:
    """How much of a fork would be redacted. What stands there is on the fork's own page."""

    key: UUID
    places: int


@dataclass(frozen=True, slots=True)
class Preview:
    """A redaction that was not made yet."""

    total: int
    shown: int
    groups: list[Group]
    messages: int
    agents: int
    orchestrators: int
    snapshots: int
    objects: int
    columns: list[str]
    """Title, metadata: what of the session itself."""

    kept: list[str]
    states: int
    seal: str
    """What the confirmation must find again."""

    unread: int = 0
    """Messages of which a file was not there to be looked into."""

    forks: list[ForkPlaces] = field(default_factory=list)
    """Forks in which something was found, if these were asked for."""

    @property
    def here(self) -> int:
        """Places in the session itself."""
        return self.total - sum(fork.places for fork in self.forks)

    @property
    def more(self) -> int:
        """Places of the session that are not shown."""
        return self.here - self.shown


def preview(viewer: Viewer, result: Redaction) -> Preview:
    """Prepares a dry run for its page."""
    shown = result.hits[:SHOWN]
    rows = {hit.place.kind: set[UUID]() for hit in result.hits}
    for hit in result.hits:
        rows[hit.place.kind].add(hit.place.key)
    columns = {hit.place.column for hit in result.hits if hit.place.kind == "session"}
    return Preview(
        total=places(result),
        shown=len(shown),
        groups=_groups(viewer, shown),
        messages=result.messages,
        agents=len(rows.get("agent", ())),
        orchestrators=len(rows.get("orchestrator", ())),
        snapshots=len(rows.get("snapshot", ())),
        objects=len(rows.get("object", ())),
        columns=[str(label) for name, label in _COLUMNS.items() if name in columns],
        kept=[f"{place.kind} {place.name}, {place.column}".replace(" ,", ",")
              for place in result.kept],
        states=result.states,
        seal=seal(result),
        unread=unread(result),
        forks=[
            ForkPlaces(fork.session, len(fork.hits))
            for fork in result.forks
            if fork.hits and fork.session
        ],
    )  # fmt: skip


def places(result: Redaction) -> int:
    """Counts the places in a session and, if they were asked for, its forks."""
    return sum(len(one.hits) for one in (result, *result.forks))


def unread(result: Redaction) -> int:
    """Counts the messages of a session and its forks of which a file could not be looked into."""
    return sum(len(one.unread) for one in (result, *result.forks))


def seal(result: Redaction) -> str:
    """Sums up what was found, without saying it, so that a confirmation can be compared with it."""
    found = sorted(
        (hit.place.kind, str(hit.place.key), hit.place.column, hit.kind)
        for one in (result, *result.forks)
        for hit in one.hits
    )
    return salted_hmac("agent_sessions.redact", json.dumps(found), algorithm="sha256").hexdigest()


def _groups(viewer: Viewer, hits: Sequence[Hit]) -> list[Group]:
    messages = _messages(viewer, {h.place.key for h in hits if h.place.kind == "message"})
    groups: dict[tuple[Any, ...], Group] = {}
    for hit in hits:
        place = hit.place
        key = (place.kind, place.key, place.column if place.kind == "session" else "")
        row = messages.get(place.key, {})
        group = groups.setdefault(key, _group(place, row))
        group.excerpts.append(_excerpt(hit))
    return list(groups.values())


def _messages(viewer: Viewer, keys: Iterable[UUID]) -> dict[UUID, dict[str, Any]]:
    rows = SessionMessage.objects.using(viewer.using).filter(
        pk__in=list(keys), session=viewer.session
    )
    found = rows.values("id", "role", "branch", "agent__agent_id")
    return {row["id"]: {**row} for row in found}


def _group(place: Place, row: dict[str, Any]) -> Group:
    if place.kind == "message":
        return Group(
            "message",
            row.get("agent__agent_id", ""),
            role=row.get("role", ""),
            position=place.name,
            branch=row.get("branch", 0),
            message=place.key,
        )
    if place.kind == "session":
        return Group("session", str(_COLUMNS.get(place.column, place.column)))
    return Group(place.kind, place.name)


def _excerpt(hit: Hit) -> Excerpt:
    # Without the row's name, which the group tells.
    where = str(replace(hit.place, name="")).partition(", ")[2]
    if hit.place.column == _ORIGINAL:
        return Excerpt(where, hit.kind, sealed=True)
    if not hit.before:
        # A message or block in which there is nothing to read.
        return Excerpt(where, hit.kind, found=_("all of it"), mask=hit.after)
    left, found, right = _sides(hit)
    return Excerpt(
        where,
        hit.kind,
        left=("…" if len(left) >= _AROUND else "") + displayable(left),
        found=_cut(found),
        mask=mask(hit.kind),
        right=displayable(right) + ("…" if len(right) >= _AROUND else ""),
    )


def _sides(hit: Hit) -> tuple[str, str, str]:
    """Takes an excerpt apart: what stands before, what is masked, what stands behind.

    A model may have written something that looks like a mask, so that the right one is the one
    whose sides are those of the original.
    """
    masked, at = mask(hit.kind), -1
    while (at := hit.after.find(masked, at + 1)) >= 0:
        left, right = hit.after[:at], hit.after[at + len(masked) :]
        if (
            hit.before.startswith(left)
            and hit.before.endswith(right)
            and len(left) + len(right) < len(hit.before)
        ):
            return left, hit.before[len(left) : len(hit.before) - len(right)], right
    return "", hit.before, ""


def _cut(text: str) -> str:
    text = displayable(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
