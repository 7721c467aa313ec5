"""The redaction pages of the admin: form, preview and confirmation.

The searched text is never in a URL: a GET accepts only ids and paths. The confirmation sends the
search again instead of its results, and the results are compared by a digest.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import (
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_agent_sessions.admin.pages import ReasonForm, error_text
from django_agent_sessions.admin.permissions import SessionPermission, reach
from django_agent_sessions.admin.transcript.viewers import Viewer
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
from django_agent_sessions.governance.redaction.visibility import staff_visibility
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, SessionMessage
from django_agent_sessions.models.permissions import REVIEWING
from django_agent_sessions.models.querysets import groups_of_keys
from django_agent_sessions.models.removal import may_remove

from .forms import MESSAGE, SESSION, ScopeForm, Target, find_target
from .preview import (
    MAX_SHOWN_PLACES,
    build_preview,
    count_places,
    count_unsearched_messages,
)

_REDACTED = AuditEvent.Action.REDACTED


def redact_view(viewer: Viewer) -> HttpResponse:
    """Show the form, the preview, or the result of the redaction."""
    request, forks = viewer.request, _count_forks(viewer)
    if request.method in ("GET", "HEAD"):
        return _form_response(viewer, ScopeForm(find_target(viewer, request.GET), forks=forks))
    if request.method != "POST":
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    form = ScopeForm(find_target(viewer, request.POST), request.POST, forks=forks)
    if not form.is_valid():
        return _form_response(viewer, form)
    try:
        with limit_work(request_budget(staff=True)):
            if request.POST.get("step") == "confirm":
                return _confirm_response(viewer, form)
            return _preview_response(viewer, form)
    except SessionNotFoundError:
        raise
    except AgentSessionsError as error:
        # Legal hold, conflict, size or work: the error texts contain ids only.
        form.add_error(None, error_text(error))
        return _form_response(viewer, form)


def _count_forks(viewer: Viewer) -> int:
    """Return the number of forks that the redaction may include.

    The forks are redacted all or not at all. Return 0 if the user may not redact all of them.
    """
    keys = descendants_of(viewer.session, using=viewer.using)
    if not keys:
        return 0
    redactable = reach(viewer.request, SessionPermission.READ, SessionPermission.REDACT)
    rows = redactable.filter(viewer.listed())
    may_all = all(rows.filter(pk__in=batch).count() == len(batch) for batch in groups_of_keys(keys))
    return len(keys) if may_all else 0


def _confirm_response(viewer: Viewer, form: ScopeForm) -> HttpResponse:
    reason_form = ReasonForm(_REDACTED, viewer.request.POST)
    if not reason_form.is_valid():
        return _preview_response(viewer, form, why=reason_form)
    try:
        result = redact(
            viewer.session,
            form.scope(),
            reason=reason_form.cleaned_data["reason"],
            actor=viewer.request.user,
            descendants=form.descendants,
            visibility=staff_visibility(reach(viewer.request, *REVIEWING)),
            expected=viewer.request.POST.get("seal", ""),
            using=viewer.using,
        )
    except MatchesChangedError:
        # Searched again, for the texts around the matches.
        return _preview_response(viewer, form, why=reason_form, changed=True)
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
    main = rows.filter(branch=MAIN_BRANCH).order_by("id")
    return main.values_list("pk", flat=True).first() or keys[0]


def _return_url(viewer: Viewer, target: Target | None, result: Redaction) -> str:
    message = target.message if target else _first_message(viewer, result)
    return viewer.page if message is None else f"{viewer.page}?at={message}#m-{message}"


# --- pages -----------------------------------------------------------------------------------


def _preview_response(
    viewer: Viewer, form: ScopeForm, *, why: ReasonForm | None = None, changed: bool = False
) -> HttpResponse:
    """Search, show the preview, and record that it is read."""
    result = redact(
        viewer.session,
        form.scope(),
        reason="",
        dry_run=True,
        descendants=form.descendants,
        visibility=staff_visibility(reach(viewer.request, *REVIEWING)),
        using=viewer.using,
    )
    message = None if form.everywhere or form.target is None else form.target.message
    viewer.record(message, page="redact", hits=count_places(result))
    unread = count_unsearched_messages(result)
    return _form_response(
        viewer,
        form,
        preview=build_preview(viewer, result),
        why=why or ReasonForm(_REDACTED),
        changed=changed,
        unread=_missing_files_text(unread) if unread else "",
        blocked=not may_remove(viewer.session) and (result.messages or result.states) > 0,
        elsewhere=_other_scope(form),
    )


def _other_scope(form: ScopeForm) -> str:
    """Return the other value of ``where`` that the preview offers, or an empty text."""
    if form.target is None or not form.is_search:
        return ""
    return MESSAGE if form.everywhere else SESSION


def _form_response(viewer: Viewer, form: ScopeForm, **extra: Any) -> HttpResponse:
    return viewer.render("redact", title=_("Redact"), form=form, target=form.target, **extra)
