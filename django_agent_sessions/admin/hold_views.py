"""Legal hold in the admin: change list actions with a page that asks for the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_variables

from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import Session

from .permissions import SessionPermission, may, reach

_MAX_REASON_LENGTH = 2000
_REQUIRED = (SessionPermission.VIEW, SessionPermission.CHANGE)


class HoldForm(forms.Form):
    """The reason of a change."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=_MAX_REASON_LENGTH,
        widget=forms.Textarea({"rows": 4, "cols": 60}),
        help_text=gettext_lazy("Stored in the audit trail. Do not quote the conversation."),
    )


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
    form = HoldForm(request.POST if "reason" in request.POST else None)
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
    model_admin: Any, request: HttpRequest, form: HoldForm, sessions: list[Session], action: str
) -> HttpResponse:
    holding = action == "hold_selected"
    context = {
        **model_admin.admin_site.each_context(request),
        "title": _("Put under legal hold") if holding else _("Release from legal hold"),
        "subtitle": None,
        "holding": holding,
        "form": form,
        "sessions": sessions,
        "action": action,
        "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
        "opts": model_admin.opts,
        "media": model_admin.media,
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, "admin/agent_sessions/session/hold.html", context)
