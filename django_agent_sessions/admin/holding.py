"""Legal hold in the admin: actions of the list, with a page that asks for the reason."""

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

from django_agent_sessions import holds
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import Session

from .permissions import Allowed, may

_MAX_REASON = 2000


class ReasonForm(forms.Form):
    """Why it is done."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=_MAX_REASON,
        widget=forms.Textarea({"rows": 4, "cols": 60}),
        help_text=gettext_lazy("It is kept in the audit trail. Do not repeat what was said."),
    )


def may_hold(request: HttpRequest) -> bool:
    """Tells whether a user may put sessions under legal hold and release them."""
    return may(request, Allowed.VIEW, Allowed.CHANGE)


@admin.action(description=gettext_lazy("Put under legal hold"), permissions=["hold"])
def hold_selected(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponse | None:
    """Asks for a reason, then puts the selected sessions under legal hold."""
    done = _confirmed(model_admin, request, queryset, "hold_selected", holds.hold)
    if isinstance(done, HttpResponse):
        return done
    if not done:
        text = _("Nothing changed: what was selected is under legal hold already, or is gone.")
        model_admin.message_user(request, text, messages.WARNING)
        return None
    text = ngettext(
        "%(count)d session is now under legal hold.",
        "%(count)d sessions are now under legal hold.",
        done,
    )
    model_admin.message_user(request, text % {"count": done}, messages.SUCCESS)
    return None


@admin.action(description=gettext_lazy("Release from legal hold"), permissions=["hold"])
def release_selected(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponse | None:
    """Asks for a reason, then releases the selected sessions from legal hold."""
    done = _confirmed(model_admin, request, queryset, "release_selected", holds.release)
    if isinstance(done, HttpResponse):
        return done
    if not done:
        text = _("Nothing changed: nothing of what was selected is under legal hold.")
        model_admin.message_user(request, text, messages.WARNING)
        return None
    text = ngettext(
        "%(count)d session was released from legal hold.",
        "%(count)d sessions were released from legal hold.",
        done,
    )
    model_admin.message_user(request, text % {"count": done}, messages.SUCCESS)
    return None


# A reason may say what it should not, and is masked only when it is recorded.
@sensitive_variables()
def _confirmed(
    model_admin: Any,
    request: HttpRequest,
    queryset: QuerySet[Session],
    action: str,
    change: Callable[..., bool],
) -> HttpResponse | int:
    """Shows the page that asks, or does it and tells for how many sessions it made a difference."""
    form = ReasonForm(request.POST if "reason" in request.POST else None)
    sessions = list(queryset)
    if not form.is_valid():
        return _page(model_admin, request, form, sessions, action)
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
            # Somebody deleted it since it was selected.
            continue
    return changed


def _page(
    model_admin: Any, request: HttpRequest, form: ReasonForm, sessions: list[Session], action: str
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
