"""Legal hold in the admin: change list actions with a page that asks for the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_variables

from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import AuditEvent, Session

from .permissions import SessionPermission, may, reach
from .reason_form import ReasonForm, ask_reason_response, selected_reason_form

_REQUIRED = (SessionPermission.VIEW, SessionPermission.CHANGE)


def may_hold(request: HttpRequest) -> bool:
    """Return whether the user may put sessions under legal hold and release them."""
    return may(request, *_REQUIRED)


@admin.action(description=gettext_lazy("Put under legal hold"), permissions=["hold"])
def hold_selected(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponse | None:
    """Put the selected sessions under legal hold after asking for a reason."""
    result = _confirm_and_apply(model_admin, request, queryset, "hold_selected", legal_hold.hold)
    if isinstance(result, HttpResponse):
        return result
    if not result:
        text = _("Nothing changed: the sessions are already under legal hold or were deleted.")
        model_admin.message_user(request, text, messages.WARNING)
        return None
    text = ngettext(
        "%(count)d session is now under legal hold.",
        "%(count)d sessions are now under legal hold.",
        result,
    )
    model_admin.message_user(request, text % {"count": result}, messages.SUCCESS)
    return None


@admin.action(description=gettext_lazy("Release from legal hold"), permissions=["hold"])
def release_selected(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponse | None:
    """Release the selected sessions from legal hold after asking for a reason."""
    result = _confirm_and_apply(
        model_admin, request, queryset, "release_selected", legal_hold.release
    )
    if isinstance(result, HttpResponse):
        return result
    if not result:
        text = _("Nothing changed: none of the selected sessions is under legal hold.")
        model_admin.message_user(request, text, messages.WARNING)
        return None
    text = ngettext(
        "%(count)d session was released from legal hold.",
        "%(count)d sessions were released from legal hold.",
        result,
    )
    model_admin.message_user(request, text % {"count": result}, messages.SUCCESS)
    return None


# A reason may contain personal data; it is masked only when it is recorded.
@sensitive_variables()
def _confirm_and_apply(
    model_admin: Any,
    request: HttpRequest,
    queryset: QuerySet[Session],
    action: str,
    change: Callable[..., bool],
) -> HttpResponse | int:
    """Return the page that asks for a reason, or the number of sessions that were changed."""
    recorded = AuditEvent.Action.HELD if action == "hold_selected" else AuditEvent.Action.RELEASED
    form = selected_reason_form(recorded, request)
    sessions = list(reach(request, *_REQUIRED).filter(queryset))
    if not form.is_valid():
        return _confirmation_page(model_admin, request, form, sessions, action)
    changed = 0
    for session in sessions:
        try:
            changed += change(
                session.pk,
                reason=form.cleaned_data["reason"],
                actor=request.user,
                using=queryset.db,
            )
        except SessionNotFoundError:
            # The session was deleted after it was selected.
            continue
    return changed


def _confirmation_page(
    model_admin: Any, request: HttpRequest, form: ReasonForm, sessions: list[Session], action: str
) -> HttpResponse:
    if action == "hold_selected":
        title = _("Put under legal hold")
        intro = _(
            "Until they are released, these sessions cannot be deleted and their messages cannot "
            "be removed:"
        )
    else:
        title = _("Release from legal hold")
        intro = _("These sessions can be deleted again once they are released:")
    return ask_reason_response(
        model_admin, request, form, sessions, action=action, title=title, intro=intro
    )
