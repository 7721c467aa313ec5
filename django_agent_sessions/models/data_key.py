"""The keys that encrypt the content of an owner."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.models.fields import IdField
from django_agent_sessions.values.ids import new_id


class DataKey(models.Model):
    """A data key of an owner, wrapped by a master key. The newest generation encrypts.

    It may be in another database than the owner, which is named by value. Deleting an owner's rows
    makes everything that they encrypted unreadable.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = IdField(_("owner"), blank=True, default="")
    generation = models.PositiveIntegerField(_("generation"), default=1)
    master = IdField(_("master key"), max_length=64)
    wrapped = models.CharField(_("wrapped key"), max_length=255)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    content_columns = ContentColumns(
        "data_key",
        {
            "owner": ContentKind.NONE,
            "master": ContentKind.NONE,
            "wrapped": ContentKind.NONE,
        },
        session=None,
    )

    class Meta:
        verbose_name = _("data key")
        verbose_name_plural = _("data keys")
        ordering = ["owner", "generation"]
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "generation"], name="agent_sessions_key_unique_generation"
            ),
        ]

    def __str__(self) -> str:
        return self.id.hex
