"""The registry of content columns: which columns contain words of a conversation, and in what form.

A model declares its columns in the attribute ``content_columns``; a project's own model may, too,
so that a redaction searches its rows with those of the session::

    class Ticket(models.Model):
        session = models.ForeignKey(Session, on_delete=models.CASCADE)
        note = models.TextField()

        content_columns = ContentColumns("ticket", {"note": ContentKind.DATA})
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.db import models


class ContentKind(enum.Enum):
    """The form of a column's content, which decides how it is searched and written."""

    PAYLOAD = "payload"
    """A message in the format of its SDK."""
    DERIVED = "derived"
    """Read from the payload of the same row, and written with it."""
    STATE = "state"
    """A state in the format of an SDK, whose keys are not content."""
    ORCHESTRATOR = "orchestrator"
    """A state with the id of its orchestrator."""
    DATA = "data"
    """Data of the application, whose keys are content, too."""
    ORIGIN = "origin"
    """Data of the application that contains the chain of forks."""
    DOCUMENT = "document"
    """The document of a snapshot."""
    REFERENCES = "references"
    """References to messages of the conversation, and messages in another form than there."""
    BYTES = "bytes"
    """Bytes of an unknown format."""
    ID = "id"
    """A name that programs use. It is searched and reported, but never changed."""
    AUDIT = "audit"
    """Masked before it is written, and never changed."""
    NONE = "none"
    """No content, but figures, digests and words of this package."""


_FIXED = (ContentKind.ID, ContentKind.AUDIT, ContentKind.NONE, ContentKind.DERIVED)


@dataclass(frozen=True, slots=True)
class ContentColumns:
    """The content columns of a model.

    Attributes:
        kind: What a row is called in the results of a redaction.
        columns: The form of each column that can contain text.
        name: The column that names a row in the results; none by default.
        session: The lookup of the session's primary key; None if rows belong to no session.
        stage: Rows of a higher stage are searched later.
        revision: Whether each write of content increases a column ``revision``.
        sealed_as: Earlier columns for which the texts of a column may have been sealed.
    """

    kind: str
    columns: Mapping[str, ContentKind] = field(default_factory=dict)
    name: str = ""
    session: str | None = "session"
    stage: int = 0
    revision: bool = False
    sealed_as: Mapping[str, str] = field(default_factory=dict)

    stored: tuple[str, ...] = field(init=False)
    """The columns that a redaction may change."""
    ids: tuple[str, ...] = field(init=False)
    """The columns that a redaction searches but does not change."""

    def __post_init__(self) -> None:
        columns = self.columns.items()
        stored = tuple(name for name, kind in columns if kind not in _FIXED)
        ids = tuple(name for name, kind in columns if kind is ContentKind.ID)
        object.__setattr__(self, "stored", stored)
        object.__setattr__(self, "ids", ids)


def content_columns_of(model: type[models.Model] | models.Model) -> ContentColumns:
    """Return the declaration of a model that has one."""
    declared: Any = getattr(model, "content_columns", None)
    assert isinstance(declared, ContentColumns)  # noqa: S101 - the caller passes such a model
    return declared


def models_with(kind: ContentKind) -> list[type[models.Model]]:
    """Return the models that have a column of this form, in the order of a search."""
    return [
        model for model in content_models() if kind in content_columns_of(model).columns.values()
    ]


def content_models() -> list[type[models.Model]]:
    """Return the models whose rows contain content of a session, in the order of a search."""
    found = [
        model
        for model in apps.get_models()
        if isinstance(declared := getattr(model, "content_columns", None), ContentColumns)
        and declared.session is not None
        and (declared.stored or declared.ids)
    ]
    return sorted(found, key=lambda model: content_columns_of(model).stage)


def tables_with_content() -> frozenset[str]:
    """Return the tables that lose content when rows are deleted.

    Without those whose rows belong to a row with content: the parts of a stored object are deleted
    with it, and replaced whenever it is written.
    """
    return frozenset(
        model._meta.db_table
        for model in apps.get_models()
        if isinstance(declared := getattr(model, "content_columns", None), ContentColumns)
        and (
            ContentKind.AUDIT in declared.columns.values()
            or (declared.session is not None and (declared.stored or declared.ids))
        )
    )
