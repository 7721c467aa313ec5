"""Write content that exists already, for services. The store's own verbs write new content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import F

from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.models import (
    Label,
    Note,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.models.content_field import sealed_columns, update_one

from ._change_numbers import increment_redaction_epoch
from ._content_rows import walk


def clear_copied_content(using: str, session: Session) -> bool:
    """Empty what a fork has of its source besides the messages, with the session locked.

    Its title, metadata and states become empty; its snapshots, stored objects, notes and labels are
    deleted. Returns False, and changes nothing, if there is none of them.
    """
    if not _has_copied_content(using, session):
        return False
    with secure_delete(using):
        Session.objects.using(using).filter(pk=session.pk).update(title="", metadata={})
        _clear_states(SessionAgent, _EMPTY_STATES, using=using, session=session.pk)
        _clear_states(SessionMultiAgent, {"state": {}}, using=using, session=session.pk)
        for model in _DELETED:
            model._default_manager.using(using).filter(session=session.pk).delete()
    increment_redaction_epoch(using, session)
    return True


def _has_copied_content(using: str, session: Session) -> bool:
    managers = (model._default_manager.using(using) for model in _DELETED)
    states = walk(using, session, Session, SessionAgent, SessionMultiAgent)
    return any(rows.filter(session=session.pk).exists() for rows in managers) or any(
        value for copy in states for name, value in copy.values.items() if name != _ORIGIN
    )


_DELETED: tuple[type[Any], ...] = (Snapshot, StoredObject, Note, Label)
_ORIGIN = "origin"
"""The column that names the source, which a fork keeps."""

_EMPTY_STATES: Mapping[str, Any] = {
    "state": {},
    "conversation_manager_state": {},
    "internal_state": {},
    "window": None,
}


def _clear_states(model: Any, empty: Mapping[str, Any], *, using: str, session: UUID) -> None:
    rows = model._base_manager.using(using).filter(session=session)
    for key in list(rows.values_list("pk", flat=True)):
        rows.filter(pk=key).update(**sealed_columns(model, key, empty, session))


def replace_references(using: str, snapshot: UUID, messages: list[Any], length: int) -> None:
    """Write the references of a snapshot to messages, after these got other positions."""
    rows = Snapshot.objects.using(using).filter(pk=snapshot)
    columns = {"length": length, "revision": F("revision") + 1}
    update_one(rows, {"messages": messages}, **columns)


def replace_window(using: str, agent: UUID, window: Any) -> None:
    """Write an agent's window, after the messages that it refers to got other positions."""
    rows = SessionAgent.objects.using(using).filter(pk=agent)
    update_one(rows, {"window": window})


def replace_derived(using: str, message: UUID, columns: Mapping[str, Any]) -> None:
    """Write the columns that are read from a message's payload."""
    SessionMessage.objects.using(using).filter(pk=message).update(**columns)
