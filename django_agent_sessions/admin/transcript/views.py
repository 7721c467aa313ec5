"""The page of a session, with its conversation as a chat.

The server renders it; a script only avoids reloads. Its cost does not depend on the number of
messages: see :mod:`django_agent_sessions.queries.message_pages`.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.cache import patch_cache_control

from django_agent_sessions import audit
from django_agent_sessions.admin import reviews
from django_agent_sessions.admin.columns import (
    describe_rule,
    session_flags,
    shown_deletion_date,
)
from django_agent_sessions.admin.formatting import (
    exact_cost,
    format_cost,
    format_input,
    format_tokens,
    has_prices,
)
from django_agent_sessions.admin.pages import admin_url
from django_agent_sessions.admin.titles import Titled
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import EncryptedSearchError
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, SessionAgent
from django_agent_sessions.queries import message_pages, search
from django_agent_sessions.queries.message_pages import MessagePage, MessageQuery

from . import agent_figures, message_items, sidebar
from .annotations import feedback_on, redactions
from .builder import TranscriptBuilder
from .held_page import held_page
from .markup import Markup
from .view_models import AgentLabel, SpeakerTurn
from .viewers import SessionPage, Viewer, get_viewer_or_404, session_actions

_LIVE = timedelta(hours=1)
"""How long after its last message a page watches a session for new ones."""


def transcript_pages() -> list[SessionPage]:
    message = "messages/<uuid:message>"
    return [
        ("messages/", fragment, "messages", ""),
        ("find/", find, "find", "can_read"),
        (f"{message}/raw/", message_items.raw, "raw", "can_read"),
        (f"{message}/media/", message_items.media, "media", "can_read"),
        (f"{message}/text/", message_items.text, "text", "can_read"),
        ("held/", held_page, "held", "can_view_held_copies"),
        ("states/<slug:kind>/<uuid:row>/", message_items.state, "state", "can_read"),
    ]


def transcript_view(
    model_admin: Any,
    request: HttpRequest,
    object_id: Any,
    extra_context: dict[str, Any] | None = None,
) -> HttpResponse:
    viewer = get_viewer_or_404(model_admin, request, object_id)
    response = _branch_redirect(viewer) or _page(viewer, extra_context or {})
    patch_cache_control(response, private=True, no_store=True)
    return response


def fragment(viewer: Viewer) -> HttpResponse:
    """Return the messages ``before`` or ``after`` one, for an open page."""
    scope = _scope(viewer)
    window = _window(viewer, scope)
    context: dict[str, Any] = {**_window_context(viewer, window), "viewer": viewer}
    if window.rows:
        listed = sidebar.agent_summaries(viewer)
        labels = sidebar.agent_labels(viewer, listed, {row.agent_id for row in window.rows})
        context["conversation"] = Markup(viewer).turns(read_turns(viewer, scope, window, labels))
    return TemplateResponse(viewer.request, "agent_sessions/admin/_turns.html", context)


def find(viewer: Viewer) -> HttpResponse:
    """Search the conversation. A POST keeps the search terms out of URLs and logs."""
    if viewer.request.method != "POST":
        raise Http404
    # Stored texts lack characters that databases cannot store; remove them from the query, too.
    query = displayable(viewer.request.POST.get("query", "")).strip()[:200]
    try:
        return _page(viewer, {"query": query, "hits": _search(viewer, query)})
    except EncryptedSearchError:
        return _page(viewer, {"query": query, "encrypted": True})


def _search(viewer: Viewer, query: str) -> list[Any]:
    keys = search.find_messages(viewer.session, query, using=viewer.using)
    if not viewer.is_owner:
        # The hits show excerpts, so record which messages were read.
        ends = {"first": str(keys[0]), "last": str(keys[-1])} if keys else {}
        audit.record_checked(
            AuditEvent.Action.SEARCHED,
            session=viewer.session.pk,
            actor=viewer.request.user,
            details={"found": len(keys), **ends},
            using=viewer.using,
        )
    return sidebar.hits(viewer, keys, query)


def _page(viewer: Viewer, extra: dict[str, Any]) -> HttpResponse:
    model_admin, request, session = viewer.model_admin, viewer.request, viewer.session
    scope = _scope(viewer)
    window = _window(viewer, scope)
    points, listed = agent_figures.points(scope), sidebar.agent_summaries(viewer)
    speakers = {row.agent_id for row in window.rows} | {point.agent_id for point in points}
    labels = sidebar.agent_labels(viewer, listed, speakers)
    turns = read_turns(viewer, scope, window, labels)
    beside = sidebar.beside(viewer)
    orchestrators = sidebar.orchestrators(viewer, listed) if beside.has_orchestrators else []
    unanswered = agent_figures.has_unanswered_call(points, labels)
    date = shown_deletion_date(session)
    context = {
        **_window_context(viewer, window),
        # Not the title, which browsers keep in their history.
        "title": session.session_id,
        "original": Titled(session, viewer.title),
        "inline_admin_formsets": model_admin.inline_formsets(request, session),
        "agents": listed[: sidebar.MAX_AGENTS],
        "more_agents": len(listed) > sidebar.MAX_AGENTS,
        "lone_agents": _without_nodes(listed[: sidebar.MAX_AGENTS], orchestrators),
        "orchestrators": orchestrators,
        "status": sidebar.status_of(viewer, listed, orchestrators, unanswered),
        "lanes": min(len(listed), sidebar.COLOURS),
        "live": _is_live(viewer, scope, window),
        "metadata": beside.metadata,
        "flags": session_flags(session),
        "tokens": (format_input(session), format_tokens(session.output_tokens)),
        "cost": format_cost(session.cost) if has_prices() else "",
        "exact_cost": exact_cost(session.cost),
        "deletion": date,
        "deletion_rule": describe_rule(date) if date else "",
        "steps": session_actions(viewer),
        "kin": sidebar.session_relations(viewer),
        "branch": sidebar.selected_side_branch(viewer, scope),
        "neighbours": beside,
        "figures": agent_figures.figures(points, labels),
        "newest": agent_figures.MOST_MESSAGES if len(points) > agent_figures.MOST_MESSAGES else 0,
        "conversation": Markup(viewer, target=_parse_key(request.GET.get("at"))).turns(turns),
        "plain": _is_plain(request),
        "review": reviews.section(viewer),
        "list_url": _list_url(viewer),
        **extra,
    }
    return viewer.render("transcript", **context)


def _scope(viewer: Viewer) -> MessageQuery:
    agent_key, branch = viewer.request.GET.get("agent"), viewer.request.GET.get("branch")
    reading: dict[str, Any] = {"eager": viewer.can_read, "using": viewer.using}
    if not agent_key:
        # A branch number is ambiguous without an agent.
        if branch:
            raise Http404
        return MessageQuery(viewer.session, main=True, **reading)
    key = _parse_key(agent_key)
    if key is None or not sidebar.has_agent(viewer, key):
        raise Http404
    agent = SessionAgent(pk=key)
    if not branch:
        return MessageQuery(viewer.session, agent, **reading)
    number = sidebar.branch_number(viewer, key, branch)
    return MessageQuery(viewer.session, agent, branch=number, **reading)


def _branch_redirect(viewer: Viewer) -> HttpResponse | None:
    """Redirect a link to a message on a side branch to the page of that branch.

    Search hits, audit events and redactions know only the key of a message.
    """
    at = _parse_key(viewer.request.GET.get("at"))
    if at is None or viewer.request.GET.get("branch"):
        return None
    agent_and_branch = sidebar.side_branch_of(viewer, at)
    if agent_and_branch is None:
        return None
    agent, branch = agent_and_branch
    query = viewer.query(agent=agent, branch=branch, at=at)
    return HttpResponseRedirect(f"{viewer.page}{query}#m-{at}")


def _window(viewer: Viewer, scope: MessageQuery) -> MessagePage:
    params = viewer.request.GET
    if params.get("all"):
        return message_pages.first_page(scope, count=message_pages.MAX_PAGE_SIZE)
    if params.get("from") == "start":
        return message_pages.first_page(scope)
    for name, read in (
        ("at", message_pages.page_around),
        ("before", message_pages.page_before),
        ("after", message_pages.page_after),
    ):
        if name in params:
            key = _parse_key(params[name])
            if key is None:
                raise Http404
            return read(scope, key)
    return message_pages.last_page(scope)


def read_turns(
    viewer: Viewer,
    scope: MessageQuery,
    window: MessagePage,
    labels: dict[UUID, AgentLabel],
    *,
    page: str = "messages",
) -> list[SpeakerTurn]:
    """Read the contents of a window, and record that ``page`` shows them."""
    # A page without messages shows the title, states and metadata; other pages do not.
    if window.rows or page == "messages":
        viewer.record_window(window.rows, page)
    if viewer.can_read:
        message_pages.read_payloads(scope, window.rows, _parse_key(viewer.request.GET.get("at")))
    note = partial(redactions(viewer, window.rows).note, reason=viewer.can_read)
    builder = TranscriptBuilder(
        labels,
        note,
        plain=_is_plain(viewer.request),
        hidden=not viewer.can_read,
        feedback=feedback_on(viewer, window.rows),
    )
    return builder.turns(window)


def _window_context(viewer: Viewer, window: MessagePage) -> dict[str, Any]:
    rows = window.rows
    return {
        "window": window,
        "earlier": viewer.query(before=rows[0].id) if rows and window.has_earlier else "",
        "later": viewer.query(after=rows[-1].id) if rows and window.later else "",
        "from_start": viewer.query(**{"from": "start"}),
        "from_end": viewer.query(),
        "everything": viewer.query(all=1),
        "all_limit": message_pages.MAX_PAGE_SIZE,
        "query_without_plain": viewer.query(plain=None, at=_middle_message(window)),
        "query_plain": viewer.query(plain=1, at=_middle_message(window)),
        "only_agent": _parse_key(viewer.request.GET.get("agent")),
    }


def _is_live(viewer: Viewer, scope: MessageQuery, window: MessagePage) -> bool:
    """Return whether new messages may follow those of a page soon."""
    if window.later or scope.branch != MAIN_BRANCH:
        return False
    return viewer.is_running or timezone.now() - viewer.session.last_activity_at < _LIVE


def _without_nodes(
    agents: list[sidebar.AgentSummary], orchestrators: list[sidebar.OrchestratorSummary]
) -> list[sidebar.AgentSummary]:
    nodes = {node.agent.voice.id for each in orchestrators for node in each.nodes if node.agent}
    return [agent for agent in agents if agent.voice.id not in nodes]


def _middle_message(window: MessagePage) -> UUID | None:
    return window.rows[len(window.rows) // 2].id if window.rows else None


def _list_url(viewer: Viewer) -> str:
    url = admin_url(viewer.model_admin, "session_changelist")
    filters = viewer.request.GET.get("_changelist_filters")
    return f"{url}?{QueryDict(filters).urlencode()}" if filters else url


def _is_plain(request: HttpRequest) -> bool:
    return bool(request.GET.get("plain"))


def _parse_key(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None
