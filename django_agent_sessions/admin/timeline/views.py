"""The pages of branches and snapshots, and those that ask before anything changes.

A GET never changes anything. A POST does, if it carries the figures that the page asked about; the
page is shown anew if they are others by now.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from django.urls import URLPattern, path, reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_agent_sessions.admin.transcript.viewers import Viewer, view
from django_agent_sessions.exceptions import AgentSessionsError, SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.store import SessionStore

from . import changes, comparing, listing, questions
from .questions import Question
from .targets import (
    agent_of,
    branch_of,
    message_of,
    named_agent,
    snapshot_of,
)

_Answer = tuple[str, str]
"""What to say when it is done, and where to go."""


def timeline_urls(model_admin: Any) -> list[URLPattern]:
    """Gives the pages about a session's time.

    Args:
        model_admin: The admin of sessions; it puts them before its own URLs.

    Returns:
        The patterns, behind the admin's login and its protection against forged requests.
    """

    def served(route: str, function: Any, name: str) -> URLPattern:
        def page(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            viewer = view(model_admin, request, kwargs.pop("object_id"))
            try:
                response: HttpResponse = function(model_admin, viewer, **kwargs)
            except SessionNotFoundError:
                # It was deleted a moment ago.
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
        served("branches/", branches, "branches"),
        served("branches/compare/", compare, "compare"),
        served(f"{branch}/restore/", switch, "branch_restore"),
        served(f"{branch}/delete/", delete, "branch_delete"),
        served("snapshots/", snapshots, "snapshots"),
        served("snapshots/<uuid:agent>/take/", take, "snapshot_take"),
        served("snapshots/<uuid:snapshot>/restore/", restore, "snapshot_restore"),
        served("messages/<uuid:message>/fork/", fork, "fork"),
        served("messages/<uuid:message>/rewind/", rewind, "rewind"),
    ]


# --- lists -----------------------------------------------------------------------------------


def branches(model_admin: Any, viewer: Viewer) -> HttpResponse:
    """Shows the branches of an agent: ``agent``, and ``before`` for further ones."""
    agent = named_agent(viewer)
    before = viewer.request.GET.get("before")
    listed = listing.branches(viewer, agent, _number(before) if before else None)
    return _page(
        model_admin,
        viewer,
        "timeline_branches",
        title=_("Branches"),
        agent=agent,
        agents=listing.agents(viewer),
        listed=listed,
        side=[line for line in listed.lines if not line.main],
    )


def snapshots(model_admin: Any, viewer: Viewer) -> HttpResponse:
    """Shows snapshots: of one ``agent`` or all, and those ``before`` one; ``after`` a key, objects.

    What an SDK stored in a form that is not understood is listed below them.
    """
    given = viewer.request.GET
    agent = named_agent(viewer) if given.get("agent") else None
    before = given.get("before")
    return _page(
        model_admin,
        viewer,
        "timeline_snapshots",
        title=_("Snapshots"),
        agent=agent,
        agents=listing.agents(viewer),
        listed=listing.snapshots(viewer, agent, _key(before) if before else None),
        objects=listing.objects(viewer, given.get("after", "")[:700].replace("\x00", "")),
    )


def compare(model_admin: Any, viewer: Viewer) -> HttpResponse:
    """Shows two branches of an ``agent`` side by side: ``left`` and ``right``, by number."""
    given = viewer.request.GET
    agent = named_agent(viewer)
    numbers = [_number(given.get(name, str(MAIN_BRANCH))) for name in ("left", "right")]
    found = {b.number: b for b in SessionStore(owner=EVERYBODY, using=viewer.using).branches(agent)}
    if not set(numbers) <= found.keys():
        raise Http404
    return _page(
        model_admin,
        viewer,
        "timeline_compare",
        title=_("Compare branches"),
        agent=agent,
        choices=list(found.values())[: listing.PAGE * 4],
        comparison=comparing.compare(viewer, agent, [found[number] for number in numbers]),
    )


# --- changes ---------------------------------------------------------------------------------


def fork(model_admin: Any, viewer: Viewer, message: UUID) -> HttpResponse:
    """Asks, then makes a fork and leads to it."""
    _require(viewer.forks)
    spot = message_of(viewer, message)

    def done() -> _Answer:
        made = changes.fork(viewer, spot.key)
        name = f"{model_admin.admin_site.name}:agent_sessions_session_change"
        text = _("This is the fork. The other conversation stays as it was.")
        return text, reverse(name, args=[made.id])

    return _asked(model_admin, viewer, questions.fork_question(viewer, spot), done)


def rewind(model_admin: Any, viewer: Viewer, message: UUID) -> HttpResponse:
    """Asks, then goes back to a message."""
    _require(viewer.changes)
    spot = message_of(viewer, message)

    def done() -> _Answer:
        made = changes.rewind(viewer, spot)
        here = f"{viewer.page}?agent={spot.agent.id}"
        if made is None:
            return _("Nothing was said after this message."), here
        count = made.length - made.start
        text = ngettext(
            "%(count)d message was set aside as %(branch)s.",
            "%(count)d messages were set aside as %(branch)s.",
            count,
        )
        return text % {"count": count, "branch": made.name}, here

    return _asked(model_admin, viewer, questions.rewind_question(viewer, spot), done)


def switch(model_admin: Any, viewer: Viewer, agent: UUID, number: int) -> HttpResponse:
    """Asks, then makes a side branch the main one."""
    _require(viewer.changes)
    record = agent_of(viewer, agent)
    branch = branch_of(viewer, record, number)

    def done() -> _Answer:
        made = changes.switch(viewer, record, number)
        text = _("Branch %(branch)s was restored. What was the main branch is now %(other)s.")
        names = {"branch": branch.name, "other": made.name}
        return text % names, f"{viewer.page}?agent={agent}"

    return _asked(model_admin, viewer, questions.switch_question(viewer, record, branch), done)


def delete(model_admin: Any, viewer: Viewer, agent: UUID, number: int) -> HttpResponse:
    """Asks, then deletes a side branch."""
    _require(viewer.drops)
    record = agent_of(viewer, agent)
    branch = branch_of(viewer, record, number)

    def done() -> _Answer:
        changes.delete(viewer, record, number)
        text = _("Branch %(branch)s was deleted.") % {"branch": branch.name}
        return text, f"{viewer.base}branches/?agent={agent}"

    return _asked(model_admin, viewer, questions.delete_question(viewer, record, branch), done)


def restore(model_admin: Any, viewer: Viewer, snapshot: UUID) -> HttpResponse:
    """Asks, then brings an agent back to a snapshot."""
    _require(viewer.changes)
    moment = snapshot_of(viewer, snapshot)

    def done() -> _Answer:
        changes.restore(viewer, moment)
        return _("The snapshot was restored."), f"{viewer.page}?agent={moment.agent.id}"

    return _asked(model_admin, viewer, questions.restore_question(viewer, moment), done)


def take(model_admin: Any, viewer: Viewer, agent: UUID) -> HttpResponse:
    """Takes a snapshot. Nothing is asked: nothing else changes."""
    _require(viewer.changes)
    record = agent_of(viewer, agent)
    if viewer.request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    SessionStore(owner=EVERYBODY, using=viewer.using).take_snapshot(record)
    text = _("A snapshot of agent %(agent)s was taken.") % {"agent": record.agent_id}
    messages.success(viewer.request, text)
    return HttpResponseRedirect(f"{viewer.base}snapshots/?agent={agent}")


def _require(allowed: bool) -> None:
    """Hides what somebody may not do, like what is not there."""
    if not allowed:
        raise Http404


def _asked(
    model_admin: Any, viewer: Viewer, question: Question, done: Callable[[], _Answer]
) -> HttpResponse:
    request = viewer.request
    shown = partial(_page, model_admin, viewer, "timeline_confirm", title=question.title)
    if request.method in ("GET", "HEAD"):
        return shown(question=question)
    if request.method != "POST":
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    if question.blocked or request.POST.get("seen") != question.seen:
        return shown(question=question, changed=not question.blocked)
    try:
        text, url = done()
    except SessionNotFoundError:
        raise
    except AgentSessionsError as error:
        # Held, busy, a binary that cannot be copied: these errors never say what was said.
        return shown(question=question, error=str(error))
    messages.success(request, text)
    return HttpResponseRedirect(url)


def _page(model_admin: Any, viewer: Viewer, template: str, **extra: Any) -> HttpResponse:
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


def _number(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) <= 10):
        raise Http404
    return int(given)


def _key(given: str) -> UUID:
    try:
        return UUID(given)
    except ValueError:
        raise Http404 from None
