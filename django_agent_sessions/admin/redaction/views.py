"""The redaction pages of the admin: form, preview and confirmation.

The searched text is never in a URL: a GET accepts only ids and paths. The confirmation sends the
search again instead of its results, and the results are compared by a digest.
"""

from __future__ import annotations

from datetime import timedelta
from functools import wraps
from typing import Any
from uuid import UUID

from django.contrib import messages
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
from django_agent_sessions.admin.error_texts import error_text
from django_agent_sessions.admin.permissions import SessionPermission, reach
from django_agent_sessions.admin.reason_form import ReasonForm
from django_agent_sessions.admin.transcript.viewers import Viewer, get_viewer_or_404
from django_agent_sessions.content.work_budget import limit_work
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    MatchesChangedError,
    SessionNotFoundError,
)
from django_agent_sessions.governance.redaction import (
    Redaction,
    descendants_of,
    redact,
    request_budget,
)
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, SessionMessage
from django_agent_sessions.store.contents import is_original_kept

from .forms import MESSAGE, SESSION, ScopeForm, Target, find_target
from .preview import (
    MAX_SHOWN_PLACES,
    build_preview,
    count_places,
    count_unsearched_messages,
)

_REDACTED = AuditEvent.Action.REDACTED
_TEMPLATE = "agent_sessions/admin/redact.html"


def redact_urls(model_admin: Any) -> list[URLPattern]:
    # Keeps the text to redact out of error reports.
    @sensitive_post_parameters("text", "reason")
    @wraps(redact_view)
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


# Keeps local variables, from here down to the end of the redaction, out of error reports.
@sensitive_variables()
def redact_view(model_admin: Any, request: HttpRequest, object_id: UUID) -> HttpResponse:
    """Show the form, the preview, or the result of the redaction."""
    viewer = get_viewer_or_404(model_admin, request, object_id)
    if not viewer.can_redact:
        raise Http404
    forks = _count_forks(model_admin, viewer)
    if request.method in ("GET", "HEAD"):
        return _form_response(
            model_admin, viewer, ScopeForm(find_target(viewer, request.GET), forks=forks)
        )
    if request.method != "POST":
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    form = ScopeForm(find_target(viewer, request.POST), request.POST, forks=forks)
    if not form.is_valid():
        return _form_response(model_admin, viewer, form)
    try:
        with limit_work(request_budget(staff=True)):
            return _searched_response(model_admin, viewer, form)
    except SessionNotFoundError:
        # The session was deleted in the meantime.
        raise Http404 from None
    except AgentSessionsError as error:
        # Legal hold, conflict, size or work: the error texts contain ids only.
        form.add_error(None, error_text(error))
        return _form_response(model_admin, viewer, form)


def _searched_response(model_admin: Any, viewer: Viewer, form: ScopeForm) -> HttpResponse:
    if viewer.request.POST.get("step") == "confirm":
        return _confirm_response(model_admin, viewer, form)
    return _preview_response(model_admin, viewer, form, _dry_run(viewer, form))


def _dry_run(viewer: Viewer, form: ScopeForm) -> Redaction:
    return redact(
        viewer.session.pk,
        form.scope(),
        reason="",
        dry_run=True,
        descendants=form.descendants,
        using=viewer.using,
    )


def _count_forks(model_admin: Any, viewer: Viewer) -> int:
    """Return the number of forks that the redaction may include.

    The forks are redacted all or not at all. Return 0 if the user may not redact all of them.
    """
    keys = descendants_of(viewer.session.pk, using=viewer.using)
    if not keys:
        return 0
    redactable = reach(viewer.request, SessionPermission.READ, SessionPermission.REDACT)
    rows = redactable.filter(model_admin.get_queryset(viewer.request).using(viewer.using))
    return len(keys) if rows.filter(pk__in=keys).count() == len(keys) else 0


def _confirm_response(model_admin: Any, viewer: Viewer, form: ScopeForm) -> HttpResponse:
    reason_form = ReasonForm(_REDACTED, viewer.request.POST)
    if not reason_form.is_valid():
        return _preview_response(model_admin, viewer, form, _dry_run(viewer, form), why=reason_form)
    try:
        result = redact(
            viewer.session.pk,
            form.scope(),
            reason=reason_form.cleaned_data["reason"],
            actor=viewer.request.user,
            descendants=form.descendants,
            expected=viewer.request.POST.get("seal", ""),
            using=viewer.using,
        )
    except MatchesChangedError:
        # Searched again, for the texts around the matches.
        return _preview_response(
            model_admin, viewer, form, _dry_run(viewer, form), why=reason_form, changed=True
        )
    messages.success(viewer.request, _success_text(result))
    if count := count_unsearched_messages(result):
        messages.warning(viewer.request, _missing_files_text(count))
    return HttpResponseRedirect(_return_url(viewer, form.target, result))


def _success_text(result: Redaction) -> str:
    count = count_places(result)
    text = ngettext("%(count)d place was redacted.", "%(count)d places were redacted.", count)
    return text % {"count": count}


def _missing_files_text(count: int) -> str:
    text = ngettext(
        "%(count)d file was not searched completely: it is missing from its storage, or "
        "compressed and encrypted, damaged, too large, or in an unknown format. If the storage is "
        "only temporarily unavailable, redact again later; otherwise redact its part.",
        "%(count)d files were not searched completely: they are missing from their storage, or "
        "compressed and encrypted, damaged, too large, or in an unknown format. If the storage is "
        "only temporarily unavailable, redact again later; otherwise redact their parts.",
        count,
    )
    return text % {"count": count}


def _first_message(viewer: Viewer, result: Redaction) -> UUID | None:
    """Return the first redacted message, preferably one of a main branch."""
    keys = [hit.place.key for hit in result.hits if hit.place.kind == "message"]
    if not keys:
        return None
    rows = SessionMessage.objects.using(viewer.using).filter(pk__in=keys[:MAX_SHOWN_PLACES])
    main_message = (
        rows.filter(branch=MAIN_BRANCH).order_by("id").values_list("pk", flat=True).first()
    )
    return main_message or keys[0]


def _return_url(viewer: Viewer, target: Target | None, result: Redaction) -> str:
    message = target.message if target else _first_message(viewer, result)
    if message is None:
        return f"{viewer.base_url}change/"
    return f"{viewer.base_url}change/?at={message}#m-{message}"


# --- pages -----------------------------------------------------------------------------------


def _preview_response(
    model_admin: Any,
    viewer: Viewer,
    form: ScopeForm,
    result: Redaction,
    *,
    why: ReasonForm | None = None,
    changed: bool = False,
) -> HttpResponse:
    """Show the preview, and record that it is read."""
    message = None if form.everywhere or form.target is None else form.target.message
    viewer.record(message, page="redact", hits=count_places(result))
    result_preview = build_preview(viewer, result)
    return _form_response(
        model_admin,
        viewer,
        form,
        preview=result_preview,
        why=why or ReasonForm(_REDACTED),
        changed=changed,
        unread=_missing_files_text(result_preview.unread) if result_preview.unread else "",
        # States, titles and metadata keep no original, so they cannot be redacted under a hold.
        blocked=viewer.session.legal_hold and result_preview.states > 0,
        elsewhere=_other_scope(form),
    )


def _other_scope(form: ScopeForm) -> str:
    """Return the other value of ``where`` that the preview offers, or an empty text."""
    if form.target is None or not form.is_search:
        return ""
    return MESSAGE if form.everywhere else SESSION


def _form_response(model_admin: Any, viewer: Viewer, form: ScopeForm, **extra: Any) -> HttpResponse:
    site = model_admin.admin_site
    seconds = conf.get_settings().REDACTION_ORIGINAL_TTL
    context = {
        **site.each_context(viewer.request),
        "title": _("Redact"),
        "opts": model_admin.opts,
        "viewer": viewer,
        "session": viewer.session,
        "form": form,
        "target": form.target,
        "keeps": is_original_kept(viewer.session),
        "kept_until": timezone.now() + timedelta(seconds=seconds),
        **extra,
    }
    viewer.request.current_app = site.name
    return TemplateResponse(viewer.request, _TEMPLATE, context)
