"""The form that asks for the reason of an action, on every page that does."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin import helpers
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.audit import MAX_REASON
from django_agent_sessions.governance import reasons
from django_agent_sessions.models import AuditEvent, Session


class ReasonForm(forms.Form):
    """The reason of an action; the setting ``REASON_REQUIRED`` says whether it is required."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=MAX_REASON,
        widget=forms.Textarea({"rows": 3, "cols": 60}),
        help_text=_("Stored in the audit trail with your name. Do not quote the conversation."),
    )

    def __init__(self, action: AuditEvent.Action, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = reasons.is_required(action)


def selected_reason_form(action: AuditEvent.Action, request: HttpRequest) -> ReasonForm:
    """Return the form of a change list action, bound only if its page was sent."""
    return ReasonForm(action, request.POST if "reason" in request.POST else None)


def ask_reason_response(
    model_admin: Any,
    request: HttpRequest,
    form: ReasonForm,
    sessions: list[Session],
    *,
    action: str,
    title: str,
    intro: str,
) -> HttpResponse:
    """Return the page on which a change list action asks for its reason."""
    context = {
        **model_admin.admin_site.each_context(request),
        "title": title,
        "subtitle": None,
        "intro": intro,
        "form": form,
        "sessions": sessions,
        "action": action,
        "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
        "opts": model_admin.opts,
        "media": model_admin.media,
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, "admin/agent_sessions/session/ask_reason.html", context)
