"""What the pages of this package share: URLs, context, keys, texts of errors, and reasons."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial, wraps
from http import HTTPStatus
from typing import Any, TypeVar
from uuid import UUID

from django import forms
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from django_agent_sessions.audit import MAX_REASON
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    DestroyedKeyError,
    EncryptedSearchError,
    EncryptionError,
    LegalHoldError,
    SessionConflictError,
    SessionNotFoundError,
    WorkLimitError,
)
from django_agent_sessions.governance import reasons
from django_agent_sessions.models import AuditEvent, Session

from .titles import shown_name, with_shown_titles

R = TypeVar("R", bound=HttpResponseBase)

logger = logging.getLogger("django_agent_sessions")

_TEXTS = {
    LegalHoldError: _("The session is under legal hold. Release it first."),
    SessionConflictError: _("Another process modified the session. Reload the page and try again."),
    WorkLimitError: _(
        "This takes more time or memory than one request may use. Use the command, or redact "
        "messages one by one."
    ),
}


def admin_url(model_admin: Any, name: str, *args: Any) -> str:
    """Return the URL of a page, such as ``session_change``, on the site of an admin."""
    return reverse(f"{model_admin.admin_site.name}:agent_sessions_{name}", args=args)


def render(model_admin: Any, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
    """Return a page with the context that the site's base template needs."""
    site = model_admin.admin_site
    request.current_app = site.name
    context = {**site.each_context(request), "opts": model_admin.opts, **context}
    return TemplateResponse(request, f"agent_sessions/admin/{template}.html", context)


def shows_undecryptable(
    model_admin: Any, request: HttpRequest, view: Callable[[], R]
) -> R | TemplateResponse:
    """Return the response of a view, or a page that says why content cannot be decrypted."""
    try:
        return view()
    except EncryptedSearchError:
        raise
    except EncryptionError as error:
        # Its text names keys, which is for the log.
        logger.error("content cannot be decrypted: %s", error)
        is_destroyed = isinstance(error, DestroyedKeyError)
        site = model_admin.admin_site
        context = {
            **site.each_context(request),
            "title": _("This content cannot be read"),
            "content": _KEY_DESTROYED if is_destroyed else _NOT_DECRYPTABLE,
        }
        status = HTTPStatus.GONE if is_destroyed else HTTPStatus.SERVICE_UNAVAILABLE
        return TemplateResponse(request, "admin/base_site.html", context, status=status)


_KEY_DESTROYED = _(
    "It is encrypted, and its data key was destroyed. The session can still be deleted from the "
    "list."
)
_NOT_DECRYPTABLE = _("It is encrypted, and cannot be decrypted now. The log has the reason.")


def private_path(
    model_admin: Any, route: str, view: Callable[..., HttpResponseBase], name: str
) -> URLPattern:
    """Return the URL of a page that is not cached; reports of its errors hold no content.

    The page is missing if its session was deleted in the meantime.
    """

    @sensitive_post_parameters()
    @sensitive_variables()
    @wraps(view)
    def page(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        try:
            response = shows_undecryptable(model_admin, request, partial(view, request, **kwargs))
        except SessionNotFoundError:
            raise Http404 from None
        patch_cache_control(response, private=True, no_store=True)
        return response

    guarded = model_admin.admin_site.admin_view(page)
    pattern: URLPattern = path(route, guarded, name=f"agent_sessions_{name}")
    return pattern


def parse_key_or_404(text: str | None) -> UUID | None:
    """Return the key that a parameter has; None if it is missing or empty."""
    try:
        return UUID(text) if text else None
    except ValueError:
        raise Http404 from None


def error_text(error: AgentSessionsError) -> str:
    """Return what a page says of an error; of a rare one the error's own text, in English.

    Both contain ids at most, and no content.
    """
    return next((str(text) for kind, text in _TEXTS.items() if isinstance(error, kind)), str(error))


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


def returns_to(request: HttpRequest) -> str | None:
    """Return the key of the session on whose page an action began; None for the list."""
    key = request.POST.get("return_to")
    return key if key in request.POST.getlist(helpers.ACTION_CHECKBOX_NAME) else None


def ask_reason_response(
    model_admin: Any,
    request: HttpRequest,
    form: ReasonForm,
    sessions: QuerySet[Session],
    *,
    action: Any,
    intro: str,
) -> HttpResponse:
    """Return the page on which a change list action asks for its reason."""
    return render(
        model_admin,
        request,
        "ask_reason",
        title=action.short_description,
        intro=intro,
        form=form,
        sessions=[
            (session, shown_name(session)) for session in with_shown_titles(request, sessions)
        ],
        action=action.__name__,
        action_checkbox_name=helpers.ACTION_CHECKBOX_NAME,
        return_to=returns_to(request),
        media=model_admin.media,
    )
