"""Masking of the columns of states, titles, metadata and objects, each by its form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django_agent_sessions.models import Session
from django_agent_sessions.models.content_columns import ContentKind

from .findings import RowFindings, with_subpath
from .scopes import Place
from .snapshot_columns import mask_snapshot_document

_FORK = "fork"


class _DuplicateKeyError(ValueError):
    """A JSON object repeats a key, so that parsing it would lose a value."""


def mask_columns(found: RowFindings) -> None:
    """Mask the columns of a row whose form does not depend on other rows."""
    columns = found.copy.columns
    for name, value in found.copy.values.items():
        kind = columns.columns[name]
        if kind in _FORMLESS:
            changed = found.mask(value, found.place(name), free=kind is ContentKind.DATA)
        elif kind in _MASKS:
            changed = _MASKS[kind](found, value, found.place(name))
        else:
            continue
        if changed is not value:
            found.values[name] = _shortened(found, name, changed)
    for name in columns.ids:
        found.keep_id(getattr(found.copy.row, name), found.place(name))


def _shortened(found: RowFindings, name: str, value: Any) -> Any:
    """Return a value that fits its column: a mask may be longer than the text."""
    if not isinstance(value, str):
        return value
    return value[: getattr(found.copy.row._meta.get_field(name), "max_length", None)]


def _mask_origin(found: RowFindings, origin: Any, place: Place) -> Any:
    """Mask an origin except its line of ancestors, by which forks are found."""
    session = found.copy.row
    if not (isinstance(session, Session) and session.forked_from and isinstance(origin, dict)):
        return found.mask(origin, place, free=True)
    for key in origin.get(_FORK, {}).get("line", ()):
        found.keep_id(str(key), with_subpath(place, (_FORK,)))
    rest = {key: value for key, value in origin.items() if key != _FORK}
    changed = found.mask(rest, place, free=True)
    return origin if changed is rest else {**changed, _FORK: origin[_FORK]}


def _mask_orchestrator(found: RowFindings, state: Any, place: Place) -> Any:
    if not isinstance(state, dict) or "id" not in state:
        return found.mask(state, place)
    # The application looks up its orchestrator by this id.
    orchestrator_id = state["id"]
    if isinstance(orchestrator_id, str):
        found.keep_id(orchestrator_id, with_subpath(place, ("id",)))
    rest = {key: value for key, value in state.items() if key != "id"}
    changed = found.mask(rest, place)
    if changed is rest:
        return state
    # A masked key keeps its position: a live orchestrator compares the states item by item.
    others = iter(changed.items())
    return dict(item if item[0] == "id" else next(others) for item in state.items())


def _mask_bytes(found: RowFindings, data: bytes, place: Place) -> bytes:
    """Mask bytes: JSON stays JSON, and in other texts and bytes the matches are masked in place."""
    try:
        text = data.decode()
        tree = json.loads(text, object_pairs_hook=_unique_pairs)
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict | list):
        # Masked as text, or as bytes of the same length.
        masked: bytes = found.mask(data, place)
        return masked
    # The format is unknown, so that all keys and values are content.
    changed = found.mask(tree, place, free=True)
    if changed is tree:
        return data
    try:
        return json.dumps(changed, ensure_ascii=text.isascii()).encode()
    except UnicodeEncodeError:
        # A lone surrogate, which JSON can only express as an escape.
        return json.dumps(changed).encode()


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _DuplicateKeyError
    return result


_FORMLESS = (ContentKind.STATE, ContentKind.DATA)
"""Columns that are masked as any value is."""
_MASKS: dict[ContentKind, Callable[[RowFindings, Any, Place], Any]] = {
    ContentKind.ORIGIN: _mask_origin,
    ContentKind.ORCHESTRATOR: _mask_orchestrator,
    ContentKind.DOCUMENT: mask_snapshot_document,
    ContentKind.BYTES: _mask_bytes,
}
