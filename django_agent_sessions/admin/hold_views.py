"""Legal hold in the admin: change list actions with a page that asks for the reason."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import AuditEvent, Operation, Session, deletion
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS

from .pages import (
    ReasonForm,
    admin_url,
    ask_reason_response,
    returns_to,
    selected_reason_form,
)
from .permissions import reach

_REQUIRED = OPERATION_PERMISSIONS[Operation.Kind.HOLD]


@admin.action(description=gettext_lazy("Put under legal hold"), permissions=["hold"])
def hold_selected(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponse | None:
    form = selected_reason_form(AuditEvent.Action.HELD, request)
    if not form.is_valid():
        intro = _(
            "Until they are released, these sessions cannot be deleted and their messages cannot "
            "be removed:"
        )
        return _ask(model_admin, request, queryset, hold_selected, form, intro)
    changed = _change_each(request, queryset, legal_hold.hold, form)
    text = ngettext(
        "%(count)d session is now under legal hold.",
        "%(count)d sessions are now under legal hold.",
        changed,
    )
    unchanged = _("Nothing changed: the sessions are already under legal hold or were deleted.")
    return _report(model_admin, request, changed, text, unchanged)


@admin.action(description=gettext_lazy("Release from legal hold"), permissions=["hold"])
def release_selected(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponse | None:
    form = selected_reason_form(AuditEvent.Action.RELEASED, request)
    if not form.is_valid():
        intro = _("These sessions can be deleted again once they are released:")
        return _ask(model_admin, request, queryset, release_selected, form, intro)
    changed = _change_each(request, queryset, legal_hold.release, form)
    text = ngettext(
        "%(count)d session was released from legal hold.",
        "%(count)d sessions were released from legal hold.",
        changed,
    )
    unchanged = _("Nothing changed: none of the selected sessions is under legal hold.")
    return _report(model_admin, request, changed, text, unchanged)


def _ask(
    model_admin: Any,
    request: HttpRequest,
    queryset: QuerySet[Session],
    action: Any,
    form: ReasonForm,
    intro: str,
) -> HttpResponse:
    sessions = reach(request, *_REQUIRED).filter(queryset)
    return ask_reason_response(model_admin, request, form, sessions, action=action, intro=intro)


def _change_each(
    request: HttpRequest,
    queryset: QuerySet[Session],
    change: Callable[..., bool],
    form: ReasonForm,
) -> int:
    """Return the number of sessions that were changed."""
    changed, reason = 0, form.cleaned_data["reason"]
    for session in _selected(request, queryset):
        # A session may have been deleted after it was selected.
        with suppress(SessionNotFoundError):
            changed += change(session.pk, reason=reason, actor=request.user, using=queryset.db)
    return changed


def _selected(request: HttpRequest, queryset: QuerySet[Session]) -> list[Session]:
    return list(reach(request, *_REQUIRED).filter(queryset.defer(*deletion.ENCRYPTED)))


def _report(
    model_admin: Any, request: HttpRequest, changed: int, text: str, unchanged: str
) -> HttpResponse | None:
    if changed:
        model_admin.message_user(request, text % {"count": changed}, messages.SUCCESS)
    else:
        model_admin.message_user(request, unchanged, messages.WARNING)
    key = returns_to(request)
    return None if key is None else redirect(admin_url(model_admin, "session_change", key))
