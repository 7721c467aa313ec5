"""Deletion in the admin: recorded with who did it, and refused for what is under legal hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import quote
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

from django_agent_sessions import audit, batches
from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.transcripts import displayable

from .permissions import Allowed, require

if TYPE_CHECKING:
    # Only the type checker knows whose admin it is.
    _ModelAdmin = admin.ModelAdmin[Session]
else:
    _ModelAdmin = admin.ModelAdmin


class Deletion(_ModelAdmin):
    """How the admin of sessions deletes. Nothing of it goes into Django's own log."""

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[Any, int], set[Any], list[Any]]:
        """Tells what a deletion takes with it, by the sessions' figures.

        Django would read every message with its payload, to name each of them on the page.
        """
        sessions: Sequence[Session] = list(objs)
        # Django's page only says that they are protected, and not by what.
        held = [
            format_html("{} – {}", self._named(session), _("under legal hold"))
            for session in sessions
            if session.legal_hold
        ]
        counts = {
            Session._meta.verbose_name_plural: len(sessions),
            SessionMessage._meta.verbose_name_plural: sum(s.message_count for s in sessions),
        }
        lacking = {
            Session._meta.verbose_name
            for session in sessions
            if not self.has_delete_permission(request, session)
        }
        return [self._named(session) for session in sessions], counts, lacking, held

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Deletes a session, once that is confirmed."""
        require(request, Allowed.VIEW, Allowed.DELETE)
        try:
            return super().delete_view(request, object_id, extra_context)
        except LegalHoldError:
            return self._held_meanwhile(request)

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: Any) -> HttpResponse:
        """Goes back to the list. Django does so only for who may change what is in it."""
        answer = super().response_delete(request, obj_display, obj_id)
        if not isinstance(answer, HttpResponseRedirect):
            return answer
        opts = self.opts
        url = reverse(f"{self.admin_site.name}:{opts.app_label}_{opts.model_name}_changelist")
        kept = self.get_preserved_filters(request)
        return HttpResponseRedirect(
            add_preserved_filters({"preserved_filters": kept, "opts": opts}, url)
        )

    def delete_model(self, request: HttpRequest, obj: Session) -> None:
        """Deletes a session in the name of the user."""
        with audit.acting(request.user):
            # From where it was read: a router may send the deletion elsewhere. Django has a
            # transaction open, which is not to last as long as very many messages take.
            batches.delete_after_commit(obj, str(obj._state.db))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> None:
        """Deletes sessions in the name of the user."""
        parts = batches.are_possible(queryset.db)
        # One that is open around it has to outlive a refusal.
        guard: Any = nullcontext() if parts else transaction.atomic(queryset.db)
        with guard, audit.acting(request.user):
            super().delete_queryset(request, queryset)

    # An action's reason is in no report of an error.
    @method_decorator(sensitive_post_parameters("reason"))
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Shows the list, or runs an action."""
        try:
            return super().changelist_view(request, extra_context)
        except LegalHoldError:
            return self._held_meanwhile(request)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Writes nothing: the audit trail has what there is to know."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Writes nothing."""

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """Writes nothing."""

    def _named(self, session: Session) -> SafeString:
        site, opts = self.admin_site.name, self.opts
        url = reverse(f"{site}:{opts.app_label}_{opts.model_name}_change", args=[quote(session.pk)])
        return format_html('<a href="{}">{}</a>', url, displayable(str(session)))

    def _held_meanwhile(self, request: HttpRequest) -> HttpResponse:
        """Says that somebody put a session under hold between the question and the answer."""
        text = _("Nothing was deleted: a session is under legal hold.")
        self.message_user(request, text, messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())
