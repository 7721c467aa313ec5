"""Reading of feedback in JSON Lines, and the users to whom an import gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.store.importing import (
    MAX_COMMENT,
    ImportedFeedback,
    is_feedback_value,
    valid_feedback_source,
)

from .jsonl_values import InvalidValueError, as_dict, as_list, as_time, as_uuid
from .sources import Skipped, SourceFeedback
from .untrusted import valid_key, valid_time

_MAX_SOURCE = 32


def read_feedback(
    message: Mapping[str, Any], place: str
) -> tuple[list[SourceFeedback], list[Skipped]]:
    """Return the feedback in a message of a line, and what of it is invalid."""
    found: list[SourceFeedback] = []
    skipped: list[Skipped] = []
    try:
        rows = as_list(message, "feedback")
    except InvalidValueError as error:
        return [], [Skipped(place, str(error))]
    for number, row in enumerate(rows):
        try:
            found.append(_feedback(as_dict(row, "it")))
        except (InvalidValueError, InvalidIdError) as error:
            skipped.append(Skipped(f"{place}, feedback {number}", str(error)))
    return found, skipped


def _feedback(row: Mapping[str, Any]) -> SourceFeedback:
    user, comment = row.get("user", ""), row.get("comment", "")
    value = row.get("value")
    if not isinstance(user, str):
        raise InvalidValueError("its user is not a string")
    if not isinstance(comment, str) or len(comment) > MAX_COMMENT:
        raise InvalidValueError(f"its comment is not a text of at most {MAX_COMMENT} characters")
    if not is_feedback_value(value):
        raise InvalidValueError("its value is not 1, 0 or -1")
    return SourceFeedback(
        id=as_uuid(row, "id"),
        user=user,
        source=valid_feedback_source(row.get("source")),
        value=value,
        comment=comment,
        created_at=as_time(row, "created_at"),
        updated_at=as_time(row, "updated_at"),
    )


def imported_feedback(
    found: Sequence[SourceFeedback],
    *,
    owners: tuple[Any, Any],
    made: datetime,
    now: datetime,
) -> tuple[list[ImportedFeedback], int]:
    """Return the feedback of a message with users of this project, and the number of duplicates.

    ``owners`` are the key of the session's owner in the source, and of its owner here. No other
    user of a source is known here, so that feedback of several of them gets numbered sources.
    """
    theirs, ours = owners
    seen: set[tuple[str, str]] = set()
    used: set[tuple[str, str]] = set()
    feedback = []
    for one in found:
        if (one.user, one.source) in seen:
            continue
        seen.add((one.user, one.source))
        user = str(ours) if one.user and one.user == theirs and ours is not None else ""
        source = _free_source(user, one.source, used)
        used.add((user, source))
        created = valid_time(one.created_at) or made
        feedback.append(
            ImportedFeedback(
                id=valid_key(one.id, now),
                user=user,
                source=source,
                value=one.value,
                comment=one.comment,
                created_at=created,
                updated_at=valid_time(one.updated_at) or created,
            )
        )
    return feedback, len(found) - len(feedback)


def _free_source(user: str, source: str, used: set[tuple[str, str]]) -> str:
    name, number = source, 1
    while (user, name) in used:
        number += 1
        suffix = f".{number}"
        name = source[: _MAX_SOURCE - len(suffix)] + suffix
    return name
