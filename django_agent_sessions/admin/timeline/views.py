"""The pages of branches and snapshots, and the confirmation pages of timeline changes.

A GET never changes anything. A POST does if it carries the figures that the page showed; otherwise
the page is shown again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Q
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from django_agent_sessions.admin.error_texts import error_text
from django_agent_sessions.admin.reason_form import ReasonForm
from django_agent_sessions.admin.transcript.viewers import Viewer, get_viewer_or_404
from django_agent_sessions.exceptions import AgentSessionsError, SessionNotFoundError
from django_agent_sessions.governance.session_change import version_of
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent
from django_agent_sessions.store import SessionStore
from django_agent_sessions.timeline import Timeline
from django_agent_sessions.timeline.references import parse_branch_number
from django_agent_sessions.values.ids import MAX_ID_LENGTH
from django_agent_sessions.values.owners import EVERYBODY

from . import comparison, confirmations, listing
from .confirmations import Confirmation
from .targets import (
    get_agent_or_404,
    get_branch_or_404,
    get_message_or_404,
    get_selected_agent_or_404,
    get_snapshot_or_404,
)

MAX_CHOICES = 10
"""The most sessions that are offered to compare with."""

_Outcome = tuple[str, str]
"""The success message and the URL to redirect to."""


def timeline_urls(model_admin: Any) -> list[URLPattern]:
    def url_pattern(route: str, function: Any, name: str) -> URLPattern:
        # Keeps the reason out of error reports.
        @sensitive_post_parameters("reason")
        @sensitive_variables()
        @wraps(function)
        def page(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            viewer = get_viewer_or_404(model_admin, request, kwargs.pop("object_id"))
            try:
                response: HttpResponse = function(model_admin, viewer, **kwargs)
            except SessionNotFoundError:
                # The session was deleted in the meantime.
                raise Http404 from None
            patch_cache_control(response, private=True, no_store=True)
            return response

        pattern: URLPattern = path(
            f"<uuid:object_id>/{route}",
            model_admin.admin_site.admin_view(page),
            name=f"agent_sessions_session_{name}",
        )
        return pattern

    branch = "branches/<uuid:agent>/<int:number>"
    return [
        url_pattern("branches/", branches, "branches"),
        url_pattern("branches/compare/", compare, "compare"),
        url_pattern("compare/", compare_with, "compare_with"),
        url_pattern(f"{branch}/restore/", switch, "branch_restore"),
        url_pattern(f"{branch}/delete/", delete, "branch_delete"),
        url_pattern("snapshots/", snapshots, "snapshots"),
        url_pattern("snapshots/<uuid:agent>/take/", take, "snapshot_take"),
        url_pattern("snapshots/<uuid:snapshot>/restore/", restore, "snapshot_restore"),
        url_pattern("messages/<uuid:message>/fork/", fork, "fork"),
        url_pattern("messages/<uuid:message>/rewind/", rewind, "rewind"),
    ]


# --- lists -----------------------------------------------------------------------------------


def branches(model_admin: Any, viewer: Viewer) -> HttpResponse:
    """Show the branches of an agent. Parameters: ``agent``, and ``before`` for the next page."""
    agent = get_selected_agent_or_404(viewer)
    before = viewer.request.GET.get("before")
    listed = listing.branches(viewer, agent, _parse_number(before) if before else None)
    return _render(
        model_admin,
        viewer,
        "timeline_branches",
        title=_("Branches"),
        agent=agent,
        agents=listing.agent_choices(viewer),
        listed=listed,
        side=[line for line in listed.lines if not line.main],
    )


def snapshots(model_admin: Any, viewer: Viewer) -> HttpResponse:
    """Show snapshots, and below them the objects that an SDK stored in its own format.

    Parameters: ``agent``, ``before`` for the next page of snapshots, ``after`` for that of
    objects.
    """
    params = viewer.request.GET
    agent = get_selected_agent_or_404(viewer) if params.get("agent") else None
    before = params.get("before")
    return _render(
        model_admin,
        viewer,
        "timeline_snapshots",
        title=_("Snapshots"),
        agent=agent,
        agents=listing.agent_choices(viewer),
        listed=listing.snapshots(viewer, agent, _parse_key(before) if before else None),
        objects=listing.objects(viewer, params.get("after", "")[:700].replace("\x00", "")),
    )


def compare(model_admin: Any, viewer: Viewer) -> HttpResponse:
    """Compare two branches of an agent. Parameters: ``agent``, ``left`` and ``right`` (numbers)."""
    params = viewer.request.GET
    agent = get_selected_agent_or_404(viewer)
    numbers = [_parse_number(params.get(name, str(MAIN_BRANCH))) for name in ("left", "right")]
    branches = SessionStore(owner=EVERYBODY, using=viewer.using).branches
    by_number = {branch.number: branch for branch in branches.list(agent)}
    if not set(numbers) <= by_number.keys():
        raise Http404
    pair = [by_number[number] for number in numbers]
    common = branches.common_length(agent, pair[0].number, pair[1].number)
    found = comparison.compare_branches(viewer, agent, pair, common)
    return _render(
        model_admin,
        viewer,
        "timeline_compare",
        title=_("Compare branches"),
        agent=agent,
        choices=list(by_number.values())[: listing.PAGE * 4],
        common=common,
        branches=[
            (branch, side, branch.length - common)
            for branch, side in zip(pair, found.sides, strict=True)
        ],
        comparison=found,
    )


def compare_with(model_admin: Any, viewer: Viewer) -> HttpResponse:
    """Compare with another session.

    Parameters: ``with``, its key or session id; ``left`` and ``right`` for the next page.
    """
    viewer.require_read()
    render = partial(_render, model_admin, viewer, "session_compare", title=_("Compare sessions"))
    rows = (
        model_admin.get_queryset(viewer.request).using(viewer.using).exclude(pk=viewer.session.pk)
    )
    named = viewer.request.GET.get("with", "").strip().replace("\x00", "")
    if not named:
        owned = rows.exclude(owner=None).filter(owner=viewer.session.owner_id)
        recent = owned.only("session_id", "last_activity_at").order_by("-last_activity_at", "-id")
        return render(recent=recent[:MAX_CHOICES])
    try:
        other = get_viewer_or_404(model_admin, viewer.request, _find_session(rows, named))
        other.require_read()
    except Http404:
        response = render(named=named)
        response.status_code = 404
        return response
    cursors = [viewer.request.GET.get(name) for name in ("left", "right")]
    found, ends = comparison.compare_sessions(
        (viewer, other), [_parse_key(cursor) if cursor else None for cursor in cursors]
    )
    later = dict(zip(("left", "right"), ends, strict=False))
    later_query = viewer.query(**{"with": other.session.pk}, **later) if ends else ""
    return render(named=named, comparison=found, later=later_query)


def _find_session(rows: Any, named: str) -> UUID:
    """Return the key of the session of a key or session id; raise Http404 if there is none."""
    try:
        condition = Q(pk=UUID(named))
    except ValueError:
        condition = Q(session_id=named[:MAX_ID_LENGTH])
    key: UUID | None = rows.filter(condition).order_by("-pk").values_list("pk", flat=True).first()
    if key is None:
        raise Http404
    return key


# --- changes ---------------------------------------------------------------------------------


def fork(model_admin: Any, viewer: Viewer, message: UUID) -> HttpResponse:
    """Confirm a fork, create it and redirect to it."""
    _require(viewer.can_fork)
    spot = get_message_or_404(viewer, message)

    def apply(reason: str) -> _Outcome:
        key, _created = _timeline(viewer, reason).fork(at=spot.key)
        name = f"{model_admin.admin_site.name}:agent_sessions_session_change"
        text = _("This is the fork. The original conversation did not change.")
        return text, reverse(name, args=[key])

    return _confirmation_response(
        model_admin,
        viewer,
        AuditEvent.Action.FORKED,
        confirmations.confirm_fork(viewer, spot),
        apply,
    )


def rewind(model_admin: Any, viewer: Viewer, message: UUID) -> HttpResponse:
    """Confirm a rewind to a message and apply it."""
    _require(viewer.can_change)
    spot = get_message_or_404(viewer, message)

    def apply(reason: str) -> _Outcome:
        side_branch = _timeline(viewer, reason).rewind(spot.agent, spot.key)
        here = f"{viewer.page}?agent={spot.agent.id}"
        if side_branch is None:
            return _("There are no messages after this message."), here
        count = side_branch.length - side_branch.start
        text = ngettext(
            "%(count)d message was moved to %(branch)s.",
            "%(count)d messages were moved to %(branch)s.",
            count,
        )
        return text % {"count": count, "branch": side_branch.name}, here

    return _confirmation_response(
        model_admin,
        viewer,
        AuditEvent.Action.REWOUND,
        confirmations.confirm_rewind(viewer, spot),
        apply,
    )


def switch(model_admin: Any, viewer: Viewer, agent: UUID, number: int) -> HttpResponse:
    """Confirm that a side branch becomes the main branch, and apply it."""
    _require(viewer.can_change)
    record = get_agent_or_404(viewer, agent)
    branch = get_branch_or_404(viewer, record, number)

    def apply(reason: str) -> _Outcome:
        side_branch = _timeline(viewer, reason).switch_branch(record, number)
        text = _("Branch %(branch)s was restored. The former main branch is now %(other)s.")
        names = {"branch": branch.name, "other": side_branch.name}
        return text % names, f"{viewer.page}?agent={agent}"

    question = confirmations.confirm_switch(viewer, record, branch)
    return _confirmation_response(model_admin, viewer, AuditEvent.Action.RESTORED, question, apply)


def delete(model_admin: Any, viewer: Viewer, agent: UUID, number: int) -> HttpResponse:
    """Confirm the deletion of a side branch and apply it."""
    _require(viewer.can_delete_branches)
    record = get_agent_or_404(viewer, agent)
    branch = get_branch_or_404(viewer, record, number)

    def apply(reason: str) -> _Outcome:
        _timeline(viewer, reason).delete_branch(record, number)
        text = _("Branch %(branch)s was deleted.") % {"branch": branch.name}
        return text, f"{viewer.base_url}branches/?agent={agent}"

    question = confirmations.confirm_delete(viewer, record, branch)
    return _confirmation_response(
        model_admin, viewer, AuditEvent.Action.BRANCH_DELETED, question, apply
    )


def restore(model_admin: Any, viewer: Viewer, snapshot: UUID) -> HttpResponse:
    """Confirm the restoration of a snapshot and apply it."""
    _require(viewer.can_change)
    moment = get_snapshot_or_404(viewer, snapshot)

    def apply(reason: str) -> _Outcome:
        _timeline(viewer, reason).restore_snapshot(moment.agent, moment.key)
        return _("The snapshot was restored."), f"{viewer.page}?agent={moment.agent.id}"

    return _confirmation_response(
        model_admin,
        viewer,
        AuditEvent.Action.RESTORED,
        confirmations.confirm_restore(viewer, moment),
        apply,
    )


def take(model_admin: Any, viewer: Viewer, agent: UUID) -> HttpResponse:
    """Take a snapshot, without a confirmation: nothing else changes."""
    _require(viewer.can_change)
    record = get_agent_or_404(viewer, agent)
    if viewer.request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    _timeline(viewer).take_snapshot(record)
    text = _("A snapshot of agent %(agent)s was taken.") % {"agent": record.agent_id}
    messages.success(viewer.request, text)
    return HttpResponseRedirect(f"{viewer.base_url}snapshots/?agent={agent}")


def _require(allowed: bool) -> None:
    """Raise Http404 unless the action is allowed."""
    if not allowed:
        raise Http404


def _confirmation_response(
    model_admin: Any,
    viewer: Viewer,
    action: AuditEvent.Action,
    question: Confirmation,
    apply: Callable[[str], _Outcome],
) -> HttpResponse:
    request = viewer.request
    form = ReasonForm(action, request.POST if request.method == "POST" else None)
    render = partial(
        _render, model_admin, viewer, "timeline_confirm", title=question.title, reason_form=form
    )
    if request.method in ("GET", "HEAD"):
        return render(question=question)
    if request.method != "POST":
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    if question.blocked or request.POST.get("seen") != question.seen:
        return render(question=question, changed=not question.blocked)
    if not form.is_valid():
        return render(question=question)
    try:
        text, url = apply(form.cleaned_data["reason"])
    except SessionNotFoundError:
        raise
    except AgentSessionsError as error:
        # Legal hold, conflict or a missing binary: the error texts contain ids only.
        return render(question=question, error=error_text(error))
    messages.success(request, text)
    return HttpResponseRedirect(url)


def _render(model_admin: Any, viewer: Viewer, template: str, **extra: Any) -> HttpResponse:
    site = model_admin.admin_site
    context = {
        **site.each_context(viewer.request),
        "opts": model_admin.opts,
        "viewer": viewer,
        "session": viewer.session,
        **extra,
    }
    viewer.request.current_app = site.name
    return TemplateResponse(viewer.request, f"agent_sessions/admin/{template}.html", context)


def _timeline(viewer: Viewer, reason: str | None = None) -> Timeline:
    # A change of another process since the page was read is refused.
    seen = version_of(viewer.session)
    return Timeline(
        viewer.session,
        viewer.request.user,
        viewer.using,
        expected=seen,
        records_reads=False,
        reason=reason,
    )


def _parse_number(text: str) -> int:
    if (number := parse_branch_number(text)) is None:
        raise Http404
    return number


def _parse_key(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None
