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
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.utils.translation import gettext as _

from django_agent_sessions.admin.pages import ReasonForm, error_text, parse_key_or_404
from django_agent_sessions.admin.titles import with_shown_titles
from django_agent_sessions.admin.transcript.viewers import (
    SessionPage,
    Viewer,
    get_viewer_or_404,
)
from django_agent_sessions.exceptions import AgentSessionsError, SessionNotFoundError
from django_agent_sessions.governance.session_change import version_of
from django_agent_sessions.models import MAIN_BRANCH
from django_agent_sessions.store import SessionStore
from django_agent_sessions.timeline import Timeline
from django_agent_sessions.timeline.references import parse_branch_number
from django_agent_sessions.values.ids import MAX_ID_LENGTH
from django_agent_sessions.values.owners import EVERYBODY

from . import comparison, listing
from .confirmations import (
    Confirmation,
    confirm_delete,
    confirm_fork,
    confirm_restore,
    confirm_rewind,
    confirm_switch,
)
from .listing import (
    get_agent_or_404,
    get_selected_agent_or_404,
)

MAX_CHOICES = 10
"""The most sessions that are offered to compare with."""


def timeline_pages() -> list[SessionPage]:
    branch = "branches/<uuid:agent>/<int:number>"
    snapshot = "snapshots/<uuid:snapshot>"
    message = "messages/<uuid:message>"
    return [
        ("branches/", branches, "branches", ""),
        ("branches/compare/", compare, "compare", ""),
        ("compare/", compare_with, "compare_with", "can_read"),
        (f"{branch}/restore/", confirmed(confirm_switch), "branch_restore", "can_change"),
        (f"{branch}/delete/", confirmed(confirm_delete), "branch_delete", "can_delete_branches"),
        ("snapshots/", snapshots, "snapshots", ""),
        ("snapshots/<uuid:agent>/take/", take, "snapshot_take", "can_change"),
        (f"{snapshot}/restore/", confirmed(confirm_restore), "snapshot_restore", "can_change"),
        (f"{message}/fork/", confirmed(confirm_fork), "fork", "can_fork"),
        (f"{message}/rewind/", confirmed(confirm_rewind), "rewind", "can_change"),
    ]


# --- lists -----------------------------------------------------------------------------------


def branches(viewer: Viewer) -> HttpResponse:
    """Show the branches of an agent. Parameters: ``agent``, and ``before`` for the next page."""
    agent = get_selected_agent_or_404(viewer)
    before = viewer.request.GET.get("before")
    listed = listing.branches(viewer, agent, _parse_number(before) if before else None)
    return viewer.render(
        "timeline_branches",
        title=_("Branches"),
        agent=agent,
        agents=listing.agent_choices(viewer),
        listed=listed,
        side=[line for line in listed.lines if not line.main],
    )


def snapshots(viewer: Viewer) -> HttpResponse:
    """Show snapshots, and below them the objects that an SDK stored in its own format.

    Parameters: ``agent``, ``before`` for the next page of snapshots, ``after`` for that of
    objects.
    """
    params = viewer.request.GET
    agent = get_selected_agent_or_404(viewer) if params.get("agent") else None
    before = params.get("before")
    return viewer.render(
        "timeline_snapshots",
        title=_("Snapshots"),
        agent=agent,
        agents=listing.agent_choices(viewer),
        listed=listing.snapshots(viewer, agent, parse_key_or_404(before)),
        objects=listing.objects(viewer, params.get("after", "")[:700].replace("\x00", "")),
    )


def compare(viewer: Viewer) -> HttpResponse:
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
    return viewer.render(
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


def compare_with(viewer: Viewer) -> HttpResponse:
    """Compare with another session.

    Parameters: ``with``, its key or session id; ``left`` and ``right`` for the next page.
    """
    render = partial(viewer.render, "session_compare", title=_("Compare sessions"))
    rows = viewer.listed().exclude(pk=viewer.session.pk)
    named = viewer.request.GET.get("with", "").strip().replace("\x00", "")
    if not named:
        owned = rows.exclude(owner=None).filter(owner=viewer.session.owner_id)
        recent = owned.only("session_id", "title", "last_activity_at", "namespace", "owner_id")
        recent = recent.order_by("-last_activity_at", "-id")[:MAX_CHOICES]
        return render(recent=with_shown_titles(viewer.request, recent))
    try:
        other = get_viewer_or_404(viewer.model_admin, viewer.request, _find_session(rows, named))
    except Http404:
        other = None
    if other is None or not other.can_read:
        response = render(named=named)
        response.status_code = 404
        return response
    cursors = [viewer.request.GET.get(name) for name in ("left", "right")]
    found, ends = comparison.compare_sessions(
        (viewer, other), [parse_key_or_404(cursor) for cursor in cursors]
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


def confirmed(confirm: Callable[..., Confirmation]) -> Callable[..., HttpResponse]:
    """Return the page of a change: what will and will not change, and what makes it."""

    @wraps(confirm)
    def page(viewer: Viewer, **target: Any) -> HttpResponse:
        return _change_response(viewer, confirm(viewer, **target))

    return page


def _change_response(viewer: Viewer, question: Confirmation) -> HttpResponse:
    request = viewer.request
    form = ReasonForm(question.action, request.POST if request.method == "POST" else None)
    render = partial(
        viewer.render,
        "timeline_confirm",
        title=question.title,
        question=question,
        reason_form=form,
    )
    if request.method in ("GET", "HEAD"):
        return render()
    if request.method != "POST":
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    if question.blocked or request.POST.get("seen") != question.seen:
        return render(changed=not question.blocked)
    if not form.is_valid():
        return render()
    try:
        text, url = question.apply(_timeline(viewer, form.cleaned_data["reason"]))
    except SessionNotFoundError:
        raise
    except AgentSessionsError as error:
        # Legal hold, conflict or a missing binary: the error texts contain ids only.
        return render(error=error_text(error))
    messages.success(request, text)
    return HttpResponseRedirect(url)


def take(viewer: Viewer, agent: UUID) -> HttpResponse:
    """Take a snapshot, without a confirmation: nothing else changes."""
    record = get_agent_or_404(viewer, agent)
    if viewer.request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    _timeline(viewer).take_snapshot(record)
    text = _("A snapshot of agent %(agent)s was taken.") % {"agent": record.agent_id}
    messages.success(viewer.request, text)
    return HttpResponseRedirect(f"{viewer.base_url}snapshots/?agent={agent}")


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
