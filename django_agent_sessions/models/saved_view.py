"""Views of the admin's list of sessions that staff members save."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models.content_columns import ContentColumns, ContentKind
from django_agent_sessions.models.users import UserKey, cascade
from django_agent_sessions.values.ids import new_id


class SavedViewQuerySet(models.QuerySet["SavedView"]):
    """Saved views."""

    def visible_to(self, user: models.Model) -> SavedViewQuerySet:
        """Filter the views that a user saved or that are shared."""
        return self.filter(Q(user=user.pk) | Q(shared=True))


class SavedView(models.Model):
    """Filters, columns and order of the admin's list of sessions, under a name."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = UserKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        on_delete=cascade,
        related_name="+",
    )
    name = models.CharField(_("name"), max_length=80)
    query = models.CharField(_("query"), max_length=1000, blank=True)
    shared = models.BooleanField(_("shared with all staff"), default=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    objects = SavedViewQuerySet.as_manager()

    content_columns = ContentColumns(
        "view", {"name": ContentKind.NONE, "query": ContentKind.NONE}, session=None
    )

    class Meta:
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        ordering = ["name", "id"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.name
