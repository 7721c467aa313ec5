"""Reading of notes, labels and states of reviews in JSON Lines, and where an import puts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django_agent_sessions.content import masking
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import Review, SessionMessage
from django_agent_sessions.store.importing import (
    MAX_LABELS,
    MAX_NOTE,
    MAX_NOTES,
    MAX_USER_NAME,
    ImportedLabel,
    ImportedNote,
    ImportedReview,
    label_name,
)

from .jsonl_values import InvalidValueError, as_dict, as_list, as_time, as_uuid
from .sources import MessagePlace, Skipped, SourceLabel, SourceNote, SourceReview
from .untrusted import valid_key, valid_time

R = TypeVar("R")

_Places = Mapping[UUID, MessagePlace]


def read_review(line: Mapping[str, Any], place: str) -> tuple[SourceReview | None, list[Skipped]]:
    """Return the review of a line, None if it has none, and what of it is invalid."""
    if not any(line.get(name) for name in ("reviews", "notes", "labels")):
        return None, []
    places, skipped = dict(_message_places(line)), list[Skipped]()

    def rows(name: str, most: int, read: Callable[[Mapping[str, Any], _Places], R]) -> list[R]:
        found: list[R] = []
        try:
            listed = as_list(line, name)
        except InvalidValueError as error:
            skipped.append(Skipped(place, str(error)))
            return found
        for number, row in enumerate(listed):
            where = f"{place}, {name} {number}"
            try:
                if number >= most:
                    raise InvalidValueError(f"a session has at most {most} of them")
                found.append(read(as_dict(row, "it"), places))
            except (InvalidValueError, PayloadError) as error:
                skipped.append(Skipped(where, str(error)))
        return found

    [state] = rows("reviews", 1, _state) or [SourceReview()]
    review = SourceReview(
        notes=rows("notes", MAX_NOTES, _note),
        # Those of messages, too.
        labels=rows("labels", MAX_LABELS * MAX_LABELS, _label),
        state=state.state,
        assignee=state.assignee,
        updated_by=state.updated_by,
        updated_at=state.updated_at,
    )
    return review, skipped


def _message_places(line: Mapping[str, Any]) -> Iterator[tuple[UUID, MessagePlace]]:
    """Yield the keys of a line's messages, which may have other keys after the import."""
    for agent in line["agents"]:
        for row in agent.get("messages", ()):
            if not isinstance(row, dict):
                continue
            branch, position = row.get("branch", 0), row.get("message_id")
            if type(branch) is not int or type(position) is not int:
                continue
            try:
                key = as_uuid(row, "id")
            except InvalidValueError:
                continue
            if key is not None:
                redacted = row.get("redacted") is True
                yield key, MessagePlace(agent["agent_id"], branch, position, redacted)


def _state(row: Mapping[str, Any], places: _Places) -> SourceReview:
    state = row.get("state")
    if state not in Review.State.values:
        raise InvalidValueError("its state is unknown")
    return SourceReview(
        state=state,
        assignee=_name(row, "assignee"),
        updated_by=_name(row, "updated_by"),
        updated_at=as_time(row, "updated_at"),
    )


def _note(row: Mapping[str, Any], places: _Places) -> SourceNote:
    text = row.get("text")
    if not isinstance(text, str) or not 0 < len(text.strip()) <= len(text) <= MAX_NOTE:
        raise InvalidValueError(f"its text does not have 1 to {MAX_NOTE} characters")
    return SourceNote(
        id=as_uuid(row, "id"),
        place=_place(row, places),
        author=_name(row, "author"),
        text=text,
        created_at=as_time(row, "created_at"),
        updated_at=as_time(row, "updated_at"),
    )


def _label(row: Mapping[str, Any], places: _Places) -> SourceLabel:
    name = row.get("name")
    if not isinstance(name, str):
        raise InvalidValueError("its name is not a string")
    return SourceLabel(
        id=as_uuid(row, "id"),
        place=_place(row, places),
        name=label_name(name),
        created_at=as_time(row, "created_at"),
    )


def _name(row: Mapping[str, Any], column: str) -> str:
    name = row.get(column, "")
    if not isinstance(name, str) or len(name) > MAX_USER_NAME:
        raise InvalidValueError(f"its {column} is not a name")
    return displayable(name)


def _place(row: Mapping[str, Any], places: _Places) -> MessagePlace | None:
    key = as_uuid(row, "message")
    if key is None:
        return None
    if key not in places:
        raise InvalidValueError("its message is not in the session")
    return places[key]


def imported_review(
    found: SourceReview, session: UUID, *, made: datetime, now: datetime, using: str
) -> ImportedReview:
    """Return the review of a session whose messages are imported already."""
    rows = SessionMessage.objects.using(using).filter(session=session)

    def message(place: MessagePlace | None) -> tuple[UUID | None, bool]:
        """Return the key of a message, and whether the import redacted it."""
        if place is None:
            return None, False
        named = rows.filter(
            agent__agent_id=place.agent_id, branch=place.branch, message_id=place.position
        )
        key, redacted_at = named.values_list("pk", "redacted_at").first() or (None, None)
        return key, redacted_at is not None and not place.redacted

    notes: Sequence[ImportedNote] = [
        ImportedNote(
            id=valid_key(one.id, now),
            message=key,
            author=one.author,
            # A note may quote what was redacted.
            text=masking.mask() if redacted else one.text,
            created_at=(created := valid_time(one.created_at) or made),
            updated_at=valid_time(one.updated_at) or created,
        )
        for one in found.notes
        for key, redacted in [message(one.place)]
    ]
    labels = {
        (key, one.name): ImportedLabel(
            id=valid_key(one.id, now),
            message=key,
            name=one.name,
            created_at=valid_time(one.created_at) or made,
        )
        for one in found.labels
        for key, _ in [message(one.place)]
    }
    return ImportedReview(
        notes=notes,
        labels=list(labels.values()),
        state=found.state,
        assignee=found.assignee,
        updated_by=found.updated_by,
        updated_at=valid_time(found.updated_at),
    )
