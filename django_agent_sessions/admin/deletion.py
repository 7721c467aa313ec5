"""Deletion in the admin: recorded in the audit trail, and refused under legal hold."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from django.contrib import messages
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from django_agent_sessions import audit
from django_agent_sessions.audit import MAX_REASON
from django_agent_sessions.exceptions import LegalHoldError, ReasonError
from django_agent_sessions.governance import reasons
from django_agent_sessions.models import AuditEvent, Session, SessionMessage, deletion

from .pages import ReasonForm, admin_url
from .permissions import ReadOnlyAdmin, SessionPermission, require
from .titles import shown_name, with_shown_titles, with_title

_DELETED = AuditEvent.Action.DELETED


class SessionDeletionMixin(ReadOnlyAdmin):
    """Mixin that deletes sessions for the session admin, without entries in Django's admin log."""

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[Any, int], set[Any], list[Any]]:
        """Return what a deletion includes, from the sessions' counters.

        Django's implementation would load every message with its payload to list it on the
        page.
        """
        single = None if isinstance(objs, QuerySet) else objs[0]
        if single:
            objs = Session.objects.using(single._state.db).filter(pk=single.pk)
        sessions = with_shown_titles(request, objs)
        if single and sessions:
            # For `with_title`, which would read it again.
            single.shown_title = sessions[0].shown_title  # type: ignore[attr-defined] # as there
        # Django's page does not say why objects are protected.
        protected = [
            format_html("{} – {}", self._session_link(session), _("under legal hold"))
            for session in sessions
            if session.legal_hold
        ]
        counts = {
            Session._meta.verbose_name_plural: len(sessions),
            SessionMessage._meta.verbose_name_plural: sum(s.message_count for s in sessions),
        }
        missing_permissions = {
            Session._meta.verbose_name
            for session in sessions
            if not self.has_delete_permission(request, session)
        }
        return (
            [self._session_link(session) for session in sessions],
            counts,
            missing_permissions,
            protected,
        )

    # Keeps the reason out of error reports.
    @method_decorator(sensitive_post_parameters("reason"))
    @method_decorator(sensitive_variables())
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        require(request, SessionPermission.VIEW, SessionPermission.DELETE)
        context = {**(extra_context or {}), "reason_form": ReasonForm(_DELETED)}
        try:
            return with_title(request, super().delete_view(request, object_id, context))
        except (LegalHoldError, ReasonError) as error:
            return self._refused(request, error)

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: Any) -> HttpResponse:
        """Redirect to the list; Django does so only for users with the change permission."""
        response = super().response_delete(request, obj_display, obj_id)
        if not isinstance(response, HttpResponseRedirect):
            return response
        preserved = self.get_preserved_filters(request)
        filters: dict[str, Any] = {"preserved_filters": preserved, "opts": self.opts}
        url = add_preserved_filters(filters, admin_url(self, "session_changelist"))
        return HttpResponseRedirect(url)

    def delete_model(self, request: HttpRequest, obj: Session) -> None:
        # Imported here, because it loads the store, and Django's start loads this module.
        from django_agent_sessions.governance import session_deletion

        # Use the database that the session was read from, whatever the router returns.
        session_deletion.delete(
            obj,
            reason=request.POST.get("reason"),
            actor=request.user,
            using=str(obj._state.db),
        )

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> None:
        reason = reasons.clean_reason(_DELETED, request.POST.get("reason"))
        in_batches = deletion.can_commit_batches(queryset.db)
        # The savepoint keeps an outer transaction usable after a LegalHoldError.
        savepoint: Any = nullcontext() if in_batches else transaction.atomic(queryset.db)
        with savepoint, audit.acting(request.user, reason=reason):
            super().delete_queryset(request, queryset)

    # Keeps the reason of an action out of error reports.
    @method_decorator(sensitive_post_parameters("reason"))
    @method_decorator(sensitive_variables())
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            response = super().changelist_view(request, extra_context)
        except (LegalHoldError, ReasonError) as error:
            return self._refused(request, error)
        if isinstance(response, TemplateResponse) and response.context_data is not None:
            # Django's action builds the page that confirms a deletion, without a hook for more.
            response.context_data.setdefault("reason_form", ReasonForm(_DELETED))
        return response

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Do nothing: the audit trail replaces Django's admin log."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Do nothing."""

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """Do nothing."""

    def _session_link(self, session: Session) -> SafeString:
        url = admin_url(self, "session_change", session.pk)
        return format_html('<a href="{}">{}</a>', url, shown_name(session))

    def _refused(self, request: HttpRequest, error: LegalHoldError | ReasonError) -> HttpResponse:
        """Report that the reason is unfit, or that a hold came before the confirmation."""
        if isinstance(error, ReasonError):
            text = _("Nothing was deleted: enter a reason of 1 to %(most)d characters.")
            text %= {"most": MAX_REASON}
        else:
            text = _(
                "Nothing was deleted: at least one session is under legal hold. Release it first."
            )
        self.message_user(request, text, messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())
