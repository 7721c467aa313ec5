"""Who has a part in a session beside its owner: participants, and links that show it."""

from __future__ import annotations

import hashlib

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.models.fields import IdField
from django_agent_sessions.models.users import UserKey, cascade
from django_agent_sessions.values.ids import new_id

from .sessions import Session


class Participant(models.Model):
    """A user who may read or write another user's session."""

    class Role(models.TextChoices):
        """What a participant may do."""

        READER = "reader", _("reader")
        WRITER = "writer", _("writer")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # The unique constraint below is an index on the session too, and an index starts with the user.
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="participants", db_index=False
    )
    user = UserKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        on_delete=cascade,
        related_name="+",
        db_index=False,
    )
    role = models.CharField(_("role"), max_length=16, choices=Role)
    #: By value, because the row outlives the user who added it.
    added_by = IdField(_("added by"), blank=True, default="", editable=False)
    added_at = models.DateTimeField(_("added"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "participant", {"role": ContentKind.NONE, "added_by": ContentKind.NONE}
    )

    class Meta:
        verbose_name = _("participant")
        verbose_name_plural = _("participants")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "user"], name="agent_sessions_participant_unique"
            ),
        ]
        indexes = [
            models.Index(fields=["user", "session"], name="agent_sessions_partic_user"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role}"


class ShareLink(models.Model):
    """A link with which anyone can read a session until it expires or is revoked.

    Only a hash of its token is stored, so that reading the table does not reveal the link.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="share_links")
    token_hash = models.CharField(_("hash"), max_length=64, unique=True, editable=False)
    expires_at = models.DateTimeField(_("expires"))
    revoked_at = models.DateTimeField(_("revoked"), null=True, editable=False)
    #: By value, because the row outlives the user who created it.
    created_by = IdField(_("created by"), blank=True, default="", editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "link", {"token_hash": ContentKind.NONE, "created_by": ContentKind.NONE}
    )

    class Meta:
        verbose_name = _("share link")
        verbose_name_plural = _("share links")
        ordering = ["id"]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def is_valid(self) -> bool:
        """Whether the link shows its session now."""
        return self.revoked_at is None and self.expires_at > timezone.now()


def hash_of(token: str) -> str:
    """Return the stored hash of a link's token, which is too random to need a salt."""
    return hashlib.sha256(token.encode()).hexdigest()
