"""What people and programs think of messages."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.models.fields import ExactJSONField, IdField
from django_agent_sessions.values.ids import new_id

from .sessions import Session, SessionMessage, SessionRelated


class MessageFeedback(SessionRelated):
    """A rating of a message, with a comment: one for each message, user and source.

    It is deleted with its message. Only the session is a database constraint, because rows with a
    constraint on the message would have to be deleted one by one with the messages.
    """

    class Value(models.IntegerChoices):
        """The rating."""

        BAD = -1, _("bad")
        NEUTRAL = 0, _("neutral")
        GOOD = 1, _("good")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # An index below starts with the session, and the unique constraint with the message.
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="feedback", db_index=False
    )
    message = models.ForeignKey(
        SessionMessage,
        on_delete=models.DO_NOTHING,
        related_name="feedback",
        db_index=False,
        db_constraint=False,
    )
    #: By value, because feedback outlives the user, and the users' table may be elsewhere.
    user = IdField(_("user"), blank=True, default="")
    source = IdField(_("source"), max_length=32, default="user")
    value = models.SmallIntegerField(_("value"), choices=Value)
    comment = ExactJSONField(_("comment"), default=str, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "feedback",
        {
            "comment": ContentKind.DATA,
            "user": ContentKind.NONE,
            "source": ContentKind.NONE,
        },
        name="message_id",
    )

    class Meta:
        verbose_name = _("feedback")
        verbose_name_plural = _("feedback")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["message", "user", "source"], name="agent_sessions_feedback_unique"
            ),
        ]
        indexes = [
            models.Index(fields=["session", "value"], name="agent_sessions_feedback_sess"),
            # For lists of the sessions with bad feedback, and for all feedback of a user.
            models.Index(fields=["value", "session"], name="agent_sessions_feedback_value"),
            models.Index(fields=["user", "id"], name="agent_sessions_feedback_user"),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} {self.value}"
