"""What was overwritten in a session under legal hold."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.values.ids import new_id

from .content_columns import ContentColumns, ContentKind
from .fields import ExactJSONField
from .sessions import Session, SessionRelated


class HeldCopy(SessionRelated):
    """Content as it was before an agent or a guardrail overwrote it under legal hold.

    The release of the hold deletes it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="held_copies")
    #: What was overwritten, in the words of its content columns, and the row's primary key.
    kind = models.CharField(_("kind"), max_length=32, editable=False)
    row = models.UUIDField(_("row"), editable=False)
    #: The overwritten columns with their values.
    content = ExactJSONField(_("content"), editable=False)
    created_at = models.DateTimeField(_("overwritten"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "held copy", {"kind": ContentKind.NONE, "content": ContentKind.DATA}
    )

    class Meta:
        verbose_name = _("copy kept by a legal hold")
        verbose_name_plural = _("copies kept by legal holds")
        ordering = ["id"]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.row}"
