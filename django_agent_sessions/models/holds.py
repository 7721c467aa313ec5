"""What a legal hold forbids. Models, querysets, the store and services all ask here.

Content that a session under legal hold has is neither deleted nor changed, and not moved to another
place. Content can be added. A program that replaces content as a matter of course, such as an
agent's state, goes through the store, which keeps the replaced version: ``store._held_versions``.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.core.exceptions import FieldDoesNotExist
from django.db import NotSupportedError, models, transaction

from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.models.content_columns import ContentKind, content_columns_of

if TYPE_CHECKING:
    from django_agent_sessions.models import Session

_PARENTS = ("session", "stored")
"""The foreign keys that lead from a row to its session."""

_PLACES = (*_PARENTS, "agent", "multi_agent", "branch", "message_id")
"""Columns that say where content is."""

_HOLD = "legal_hold"
_MAX_NAMED = 100
_SAVE_ARGUMENTS = ("force_insert", "force_update", "using", "update_fields")
_EMPTY: tuple[Any, ...] = (None, "", {}, [])


def legal_hold_error(sessions: Collection[Session], what: str = "") -> LegalHoldError:
    """Return the error for an operation that a legal hold forbids."""
    names = ", ".join(repr(session.session_id) for session in list(sessions)[:5])
    text = f"session {names} is under legal hold; release it first"
    return LegalHoldError(f"{what}: {text}" if what else text, sessions)


def refuse_if_held(session: Session, what: str = "") -> None:
    """Raise ``LegalHoldError`` if a session, whose row the caller has locked, is under hold."""
    if session.legal_hold:
        raise legal_hold_error([session], what)


def check_none_held(
    sessions: models.QuerySet[Session] | Iterable[models.QuerySet[Session]], what: str = ""
) -> None:
    """Raise ``LegalHoldError`` if one of the sessions is under legal hold.

    Called before a deletion, because an error in the middle of one would break the caller's
    transaction.
    """
    groups = [sessions] if isinstance(sessions, models.QuerySet) else sessions
    held: dict[Any, Session] = {}
    for rows in groups:
        held |= {row.pk: row for row in rows.filter(legal_hold=True)[: _MAX_NAMED - len(held)]}
        if len(held) == _MAX_NAMED:
            break
    if held:
        raise legal_hold_error(list(held.values()), what)


@functools.cache
def protected_columns(model: type[models.Model]) -> frozenset[str]:
    """Return the fields of a model that a legal hold protects: its content and its place."""
    declared = content_columns_of(model).columns
    content = {
        name for name, kind in declared.items() if kind not in (ContentKind.NONE, ContentKind.AUDIT)
    }
    fields = {field.name for field in model._meta.concrete_fields}
    if not content:
        return frozenset()
    return frozenset(fields & {*content, *_PLACES, _HOLD})


def is_protected(model: type[models.Model], columns: Mapping[str, Any]) -> bool:
    """Return whether an update of these columns may change what a legal hold protects."""
    names = _names(model, columns) & protected_columns(model)
    # Setting a hold loses nothing.
    return bool(names - {_HOLD}) or (_HOLD in names and columns[_HOLD] is not True)


def lock_and_check(rows: models.QuerySet[Any]) -> list[Session]:
    """Lock the sessions of these rows, and raise ``LegalHoldError`` if one is under legal hold.

    Locked first, so that none is put under legal hold meanwhile.
    """
    sessions = _sessions_of(rows)
    # Not the title and metadata, whose key may have been destroyed.
    locked = list(sessions.select_for_update().order_by("pk").only("session_id", _HOLD))
    if held := [row for row in locked if row.legal_hold]:
        raise legal_hold_error(held)
    return locked


def count_change(sessions: Collection[Session], using: str) -> None:
    """Increase the change number of locked sessions."""
    for model in {type(session) for session in sessions}:
        rows = model._base_manager.using(using).filter(pk__in=[row.pk for row in sessions])
        rows.update(change=models.F("change") + 1)


def refuse_upsert(model: type[models.Model], columns: Collection[str] | None) -> None:
    """Refuse an insert that updates content of existing rows, whose sessions are not known."""
    if _names(model, columns or ()) & protected_columns(model):
        raise NotSupportedError(
            f"bulk_create(update_conflicts=True) cannot check the legal hold of {model.__name__} "
            "rows: use update(), bulk_update() or SessionStore"
        )


class HeldModel(models.Model):
    """Base class of rows whose content a legal hold protects."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the row; raise ``LegalHoldError`` if that would change content under legal hold."""
        given = {**dict(zip(_SAVE_ARGUMENTS, args, strict=False)), **kwargs}
        columns = self._content_to_save(given.get("update_fields"))
        if self._state.adding or given.get("force_insert") or not columns:
            super().save(*args, **kwargs)
            return
        using = given.get("using") or self._state.db
        rows = type(self)._base_manager.using(using).filter(pk=self.pk)
        with transaction.atomic(using):
            sessions = _sessions_of(rows).select_for_update()
            if (session := sessions.first()) is not None and session.legal_hold:
                self._refuse_changes(session, rows.values(*columns).first() or {})
            self._before_update(rows, columns)
            super().save(*args, **kwargs)

    def _before_update(self, rows: models.QuerySet[Any], columns: frozenset[str]) -> None:
        """Prepare the stored row for an update of these columns."""

    def _content_to_save(self, update_fields: Iterable[str] | None) -> frozenset[str]:
        if update_fields is not None:
            return _names(type(self), update_fields) & protected_columns(type(self))
        deferred = _names(type(self), self.get_deferred_fields())
        return protected_columns(type(self)) - deferred

    def _refuse_changes(self, session: Session, stored: Mapping[str, Any]) -> None:
        for name, value in stored.items():
            field: Any = self._meta.get_field(name)
            adds_only = value in _EMPTY
            if not adds_only and field.value_from_object(self) != value:
                raise legal_hold_error([session], f"changing {name} of {self._meta.model_name}")


def _sessions_of(rows: models.QuerySet[Any]) -> models.QuerySet[Session]:
    """Return the sessions of rows, which are sessions, belong to one, or are parts of such."""
    model, path = rows.model, []
    while name := next((name for name in _PARENTS if _has(model, name)), None):
        model = model._meta.get_field(name).related_model
        path.append(name)
    sessions: models.QuerySet[Session] = model._base_manager.using(rows.db)
    return sessions.filter(pk__in=rows.order_by().values("__".join(path) or "pk"))


def _has(model: type[models.Model], name: str) -> bool:
    return any(field.name == name for field in model._meta.concrete_fields)


def _names(model: type[models.Model], columns: Iterable[str]) -> frozenset[str]:
    """Return the names of fields that are given by their names or their columns' attributes."""
    names = set()
    for column in columns:
        try:
            names.add(model._meta.get_field(column).name)
        except FieldDoesNotExist:
            continue  # Django raises its own error.
    return frozenset(names)
