"""Redacting from the admin: what, then every place of it, then why; and only then it is done.

Nothing of what is looked for is ever in a URL: a GET only shows the empty form, for ids and paths.
The confirmation carries what to look for, not what was found, and finds it anew.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from django_agent_sessions import conf
from django_agent_sessions.admin.transcript.viewers import Viewer, view
from django_agent_sessions.exceptions import AgentSessionsError, SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, SessionMessage
from django_agent_sessions.redaction import Redaction, descendants_of, redact
from django_agent_sessions.store.base import write
from django_agent_sessions.store.redacting import keeps_original

from .forms import MESSAGE, SESSION, ReasonForm, ScopeForm, Target, target
from .preview import SHOWN, places, preview, seal, unread

_TEMPLATE = "agent_sessions/admin/redact.html"


class _ChangedError(Exception):
    """What is found is not what was shown."""

    def __init__(self, result: Redaction) -> None:
        super().__init__()
        self.result = result


def redact_urls(model_admin: Any) -> list[URLPattern]:
    """Gives the page for redacting in a session."""

    # Not even a report of an error shall hold what somebody wanted to be gone.
    @sensitive_post_parameters("text", "reason")
    def page(request: HttpRequest, object_id: UUID) -> HttpResponse:
        response = redact_view(model_admin, request, object_id)
        patch_cache_control(response, private=True, no_store=True)
        return response

    return [
        path(
            "<uuid:object_id>/redact/",
            model_admin.admin_site.admin_view(page),
            name="agent_sessions_session_redact",
        )
    ]


# Nor the values on the way: from here down, to the bottom of a redaction.
@sensitive_variables()
def redact_view(model_admin: Any, request: HttpRequest, object_id: UUID) -> HttpResponse:
    """Asks what to redact, shows what that would be, and does it."""
    viewer = view(model_admin, request, object_id)
    if not viewer.redacts:
        raise Http404
    forks = _forks(model_admin, viewer)
    if request.method in ("GET", "HEAD"):
        return _page(model_admin, viewer, ScopeForm(target(viewer, request.GET), forks=forks))
    if request.method != "POST":
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    form = ScopeForm(target(viewer, request.POST), request.POST, forks=forks)
    if not form.is_valid():
        return _page(model_admin, viewer, form)
    try:
        if request.POST.get("step") == "confirm":
            return _confirm(model_admin, viewer, form)
        return _show(model_admin, viewer, form, _found(viewer, form))
    except SessionNotFoundError:
        # It was deleted a moment ago.
        raise Http404 from None
    except AgentSessionsError as error:
        # Held, out of date, too large: these errors say what to do, and never what was said.
        form.add_error(None, str(error))
        return _page(model_admin, viewer, form)


def _found(viewer: Viewer, form: ScopeForm) -> Redaction:
    return redact(
        viewer.session.pk,
        form.scope(),
        reason="",
        dry_run=True,
        descendants=form.descendants,
        using=viewer.using,
    )


def _forks(model_admin: Any, viewer: Viewer) -> int:
    """Counts the forks that a redaction could reach, too; none if the viewer may not see them all.

    They are redacted all or not at all, and nobody redacts in what is hidden from them.
    """
    keys = descendants_of(viewer.session.pk, using=viewer.using)
    if not keys:
        return 0
    rows = model_admin.get_queryset(viewer.request).using(viewer.using)
    return len(keys) if rows.filter(pk__in=keys).count() == len(keys) else 0


def _confirm(model_admin: Any, viewer: Viewer, form: ScopeForm) -> HttpResponse:
    why = ReasonForm(viewer.request.POST)
    if not why.is_valid():
        return _show(model_admin, viewer, form, _found(viewer, form), why=why)
    expected = viewer.request.POST.get("seal", "")
    reason = why.cleaned_data["reason"]
    try:
        result = write(
            viewer.using,
            lambda unsure: _redact(viewer, form, reason, expected),
            what=f"redacting in session {viewer.session.pk}",
        )
    except _ChangedError as changed:
        return _show(model_admin, viewer, form, changed.result, why=why, changed=True)
    messages.success(viewer.request, _done(result))
    if count := unread(result):
        messages.warning(viewer.request, _unread(count))
    return HttpResponseRedirect(_back(viewer, form.target, result))


def _redact(viewer: Viewer, form: ScopeForm, reason: str, expected: str) -> Redaction:
    with transaction.atomic(viewer.using):
        result = redact(
            viewer.session.pk,
            form.scope(),
            reason=reason,
            actor=viewer.request.user,
            descendants=form.descendants,
            using=viewer.using,
        )
        if not places(result) or seal(result) != expected:
            # Everything is taken back: nobody saw what this would do.
            raise _ChangedError(result)
    return result


def _done(result: Redaction) -> str:
    count = places(result)
    text = ngettext("%(count)d place was redacted.", "%(count)d places were redacted.", count)
    return text % {"count": count}


def _unread(count: int) -> str:
    text = ngettext(
        "%(count)d message has a file that is missing in its storage and was not looked into. "
        "If the storage is only away, redact again when it is back.",
        "%(count)d messages have files that are missing in their storage and were not looked into. "
        "If the storage is only away, redact again when it is back.",
        count,
    )
    return text % {"count": count}


def _first(viewer: Viewer, result: Redaction) -> UUID | None:
    """Finds the first message that was redacted: one that the agent goes on with, if there is."""
    found = [hit.place.key for hit in result.hits if hit.place.kind == "message"]
    if not found:
        return None
    rows = SessionMessage.objects.using(viewer.using).filter(pk__in=found[:SHOWN])
    main = rows.filter(branch=MAIN_BRANCH).order_by("id").values_list("pk", flat=True).first()
    return main or found[0]


def _back(viewer: Viewer, target: Target | None, result: Redaction) -> str:
    message = target.message if target else _first(viewer, result)
    if message is None:
        return f"{viewer.base}change/"
    return f"{viewer.base}change/?at={message}#m-{message}"


# --- pages -----------------------------------------------------------------------------------


def _show(
    model_admin: Any,
    viewer: Viewer,
    form: ScopeForm,
    result: Redaction,
    *,
    why: ReasonForm | None = None,
    changed: bool = False,
) -> HttpResponse:
    """Shows what was found. That is reading, and recorded before."""
    message = None if form.everywhere or form.target is None else form.target.message
    viewer.record(message, page="redact", hits=places(result))
    found = preview(viewer, result)
    return _page(
        model_admin,
        viewer,
        form,
        preview=found,
        why=why or ReasonForm(),
        changed=changed,
        unread=_unread(found.unread) if found.unread else "",
        # States, titles and metadata keep no original, and a held session must lose nothing.
        blocked=viewer.session.legal_hold and found.states > 0,
        elsewhere=_elsewhere(form),
    )


def _elsewhere(form: ScopeForm) -> str:
    """The other place to look in, if there is one."""
    if form.target is None or not form.searches:
        return ""
    return MESSAGE if form.everywhere else SESSION


def _page(model_admin: Any, viewer: Viewer, form: ScopeForm, **extra: Any) -> HttpResponse:
    site = model_admin.admin_site
    kept = conf.get_settings().REDACTION_ORIGINAL_TTL
    context = {
        **site.each_context(viewer.request),
        "title": _("Redact"),
        "opts": model_admin.opts,
        "viewer": viewer,
        "session": viewer.session,
        "form": form,
        "target": form.target,
        "keeps": keeps_original(viewer.session),
        "kept_until": timezone.now() + timedelta(seconds=kept),
        **extra,
    }
    viewer.request.current_app = site.name
    return TemplateResponse(viewer.request, _TEMPLATE, context)
