"""What staff keep about a session while they review it. Its owner never sees it."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.models.fields import ExactJSONField, IdField
from django_agent_sessions.values.ids import new_id

from .sessions import Session, SessionMessage, SessionRelated

MAX_LABEL = 50
"""The most characters of a label."""


def _message_by_value(related_name: str) -> Any:
    # Without a constraint: the row outlives its message, and ends with the session.
    return models.ForeignKey(
        SessionMessage,
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        related_name=related_name,
        db_index=False,
        db_constraint=False,
    )


def _user_name(label: Any) -> Any:
    # By value, as in audit events: the row outlives the user, whose table may be elsewhere.
    return models.CharField(label, max_length=255, blank=True, default="")


class Review(SessionRelated):
    """The state and the assignee of the review of a session: at most one for each session."""

    class State(models.TextChoices):
        """How far the review is."""

        OPEN = "open", _("open")
        IN_REVIEW = "in_review", _("in review")
        DONE = "done", _("done")

    session = models.OneToOneField(
        Session, on_delete=models.CASCADE, related_name="review", primary_key=True
    )
    state = models.CharField(_("state"), max_length=16, choices=State, default=State.OPEN)
    assignee_id = IdField(_("assignee's key"), blank=True, default="")
    assignee = _user_name(_("assignee"))
    updated_by_id = IdField(_("changed by, key"), blank=True, default="")
    updated_by = _user_name(_("changed by"))
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "review",
        {
            "state": ContentKind.NONE,
            "assignee_id": ContentKind.NONE,
            "assignee": ContentKind.NONE,
            "updated_by_id": ContentKind.NONE,
            "updated_by": ContentKind.NONE,
        },
    )

    class Meta:
        verbose_name = _("review")
        verbose_name_plural = _("reviews")
        ordering = ["session"]
        default_permissions = ()
        indexes = [
            models.Index(fields=["state", "session"], name="agent_sessions_review_state"),
            models.Index(
                fields=["assignee_id", "state", "session"], name="agent_sessions_review_assignee"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.session_id} {self.state}"


class Note(SessionRelated):
    """A note of a staff member on a session, or on one of its messages."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(
        # An index below starts with the session.
        Session,
        on_delete=models.CASCADE,
        related_name="notes",
        db_index=False,
    )
    message = _message_by_value("notes")
    author_id = IdField(_("author's key"), blank=True, default="")
    author = _user_name(_("author"))
    text = ExactJSONField(_("text"), default=str)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "note",
        {"text": ContentKind.DATA, "author_id": ContentKind.NONE, "author": ContentKind.NONE},
    )

    class Meta:
        verbose_name = _("note")
        verbose_name_plural = _("notes")
        ordering = ["id"]
        default_permissions = ()
        indexes = [
            models.Index(fields=["session", "id"], name="agent_sessions_note_session"),
            models.Index(fields=["author_id"], name="agent_sessions_note_author"),
        ]

    def __str__(self) -> str:
        # Not the text, which is content.
        return f"{self.session_id} {self.pk}"


class Label(SessionRelated):
    """A label of a session, or of one of its messages."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="labels", db_index=False
    )
    message = _message_by_value("labels")
    name = IdField(_("name"), max_length=MAX_LABEL)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    content_columns = ContentColumns("label", {"name": ContentKind.ID})

    class Meta:
        verbose_name = _("label")
        verbose_name_plural = _("labels")
        ordering = ["id"]
        default_permissions = ()
        indexes = [
            models.Index(fields=["session", "name"], name="agent_sessions_label_session"),
            models.Index(fields=["name", "session"], name="agent_sessions_label_name"),
        ]

    def __str__(self) -> str:
        return f"{self.session_id} {self.pk}"
