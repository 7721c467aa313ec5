"""The page of a session, with its conversation as a chat.

The server renders it; a script only avoids reloads. Its cost does not depend on the number of
messages: see :mod:`django_agent_sessions.queries.message_pages`.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial, wraps
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from django_agent_sessions import audit
from django_agent_sessions.admin import reviews
from django_agent_sessions.admin.columns import session_flags
from django_agent_sessions.admin.deletion_dates import describe_rule, shown_deletion_date
from django_agent_sessions.admin.formatting import (
    exact_cost,
    format_cost,
    format_tokens,
    has_prices,
)
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import EncryptedSearchError
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, SessionAgent
from django_agent_sessions.queries import message_pages, replicas, search
from django_agent_sessions.queries.message_pages import MessagePage, MessageQuery

from . import agent_figures, relations, sidebar
from . import message_items as transcript_parts
from .builder import TranscriptBuilder
from .feedback import feedback_on
from .markup import Markup
from .view_models import AgentLabel, SpeakerTurn
from .viewers import Viewer, get_viewer_or_404, session_actions

_LIVE = timedelta(hours=1)
"""How long after its last message a page watches a session for new ones."""


def transcript_urls(model_admin: Any) -> list[URLPattern]:
    def url_pattern(route: str, function: Any, name: str) -> URLPattern:
        # Keeps search terms and reasons out of error reports.
        @sensitive_post_parameters("query", "reason")
        @wraps(function)
        def view_of_admin(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            response: HttpResponse = function(model_admin, request, **kwargs)
            patch_cache_control(response, private=True, no_store=True)
            return response

        pattern: URLPattern = path(
            f"<uuid:object_id>/{route}",
            model_admin.admin_site.admin_view(view_of_admin),
            name=f"agent_sessions_session_{name}",
        )
        return pattern

    message = "messages/<uuid:message>"
    return [
        url_pattern("messages/", fragment, "messages"),
        url_pattern("find/", find, "find"),
        url_pattern(f"{message}/raw/", transcript_parts.raw, "raw"),
        url_pattern(f"{message}/media/", transcript_parts.media, "media"),
        url_pattern(f"{message}/text/", transcript_parts.text, "text"),
        url_pattern(f"{message}/original/", transcript_parts.original, "original"),
        url_pattern("states/<slug:kind>/<uuid:row>/", transcript_parts.state, "state"),
    ]


def transcript_view(
    model_admin: Any,
    request: HttpRequest,
    object_id: Any,
    extra_context: dict[str, Any] | None = None,
) -> HttpResponse:
    viewer = get_viewer_or_404(model_admin, request, object_id)
    redirect = _branch_redirect(viewer)
    return redirect or _page(model_admin, viewer, extra_context or {})


def fragment(model_admin: Any, request: HttpRequest, object_id: UUID) -> HttpResponse:
    """Return the messages ``before`` or ``after`` one, for an open page."""
    viewer = get_viewer_or_404(model_admin, request, object_id)
    scope = _scope(viewer)
    window = _window(viewer, scope)
    context: dict[str, Any] = {**_window_context(viewer, window), "viewer": viewer}
    if window.rows:
        listed = sidebar.agent_summaries(viewer)
        voices = sidebar.agent_labels(viewer, listed, {row.agent_id for row in window.rows})
        context["conversation"] = Markup(viewer).turns(read_turns(viewer, scope, window, voices))
    return TemplateResponse(request, "agent_sessions/admin/_turns.html", context)


@sensitive_variables()
def find(model_admin: Any, request: HttpRequest, object_id: UUID) -> HttpResponse:
    """Search the conversation. A POST keeps the search terms out of URLs and logs."""
    viewer = get_viewer_or_404(model_admin, request, object_id)
    viewer.require_read()
    if request.method != "POST":
        raise Http404
    # Stored texts lack characters that databases cannot store; remove them from the query, too.
    query = displayable(request.POST.get("query", "")).strip()[:200]
    context: dict[str, Any]
    try:
        context = {"query": query, "hits": _search(viewer, query)}
    except EncryptedSearchError:
        context = {"query": query, "encrypted": True}
    return _page(model_admin, viewer, context)


@sensitive_variables()
def _search(viewer: Viewer, query: str) -> list[Any]:
    keys = search.find_messages(viewer.session.pk, query, using=viewer.using)
    if not viewer.is_owner:
        # The hits show excerpts, so record which messages were read.
        ends = {"first": str(keys[0]), "last": str(keys[-1])} if keys else {}
        audit.record(
            AuditEvent.Action.SEARCHED,
            session=viewer.session.pk,
            actor=viewer.request.user,
            details={"found": len(keys), **ends},
            using=viewer.using,
        )
    return sidebar.hits(viewer, keys, query)


def _page(model_admin: Any, viewer: Viewer, extra: dict[str, Any]) -> HttpResponse:
    request, session = viewer.request, viewer.session
    scope = _scope(viewer)
    window = _window(viewer, scope)
    points, listed = agent_figures.points(scope), sidebar.agent_summaries(viewer)
    speakers = {row.agent_id for row in window.rows} | {point.agent_id for point in points}
    voices = sidebar.agent_labels(viewer, listed, speakers)
    turns = read_turns(viewer, scope, window, voices)
    beside = sidebar.beside(viewer, model_admin.get_queryset(request).using(viewer.using))
    orchestrators = sidebar.orchestrators(viewer, listed) if beside.has_orchestrators else []
    unanswered = agent_figures.has_unanswered_call(points, voices)
    site, date = model_admin.admin_site, shown_deletion_date(session)
    context = {
        **site.each_context(request),
        **_window_context(viewer, window),
        "title": session.session_id,
        "opts": model_admin.opts,
        "original": session,
        "viewer": viewer,
        "inline_admin_formsets": model_admin.inline_formsets(request, session),
        "session": session,
        "heading": (session.title if viewer.can_read else "") or session.session_id,
        "agents": listed[: sidebar.MAX_AGENTS],
        "more_agents": len(listed) > sidebar.MAX_AGENTS,
        "lone_agents": _without_nodes(listed[: sidebar.MAX_AGENTS], orchestrators),
        "orchestrators": orchestrators,
        "status": sidebar.status_of(viewer, listed, orchestrators, unanswered),
        "lanes": min(len(listed), sidebar.COLOURS),
        "live": _is_live(viewer, scope, window),
        "metadata": beside.metadata,
        "flags": session_flags(session),
        "tokens": (format_tokens(session.input_tokens), format_tokens(session.output_tokens)),
        "cost": format_cost(session.cost) if has_prices() else "",
        "exact_cost": exact_cost(session.cost),
        "deletion": date,
        "deletion_rule": describe_rule(date) if date else "",
        "steps": session_actions(model_admin, viewer),
        "kin": relations.session_relations(model_admin, viewer),
        "branch": relations.selected_side_branch(viewer, scope),
        "neighbours": _neighbour_links(model_admin, viewer, beside),
        "figures": agent_figures.figures(points, voices),
        "newest": agent_figures.MOST_MESSAGES if len(points) > agent_figures.MOST_MESSAGES else 0,
        "conversation": Markup(viewer, target=_parse_key(request.GET.get("at"))).turns(turns),
        "plain": _is_plain(request),
        "review": reviews.section(viewer),
        "list_url": _list_url(model_admin, request),
        **extra,
    }
    request.current_app = site.name
    response = TemplateResponse(request, "agent_sessions/admin/transcript.html", context)
    patch_cache_control(response, private=True, no_store=True)
    return response


def _scope(viewer: Viewer) -> MessageQuery:
    agent_key, branch = viewer.request.GET.get("agent"), viewer.request.GET.get("branch")
    # Only the messages are read from the replica; the other queries are small.
    alias = replicas.database_of(viewer.session, viewer.request)
    reading: dict[str, Any] = {"alias": alias, "eager": viewer.can_read}
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
    number = relations.branch_number(viewer, key, branch)
    return MessageQuery(viewer.session, agent, branch=number, **reading)


def _branch_redirect(viewer: Viewer) -> HttpResponse | None:
    """Redirect a link to a message on a side branch to the page of that branch.

    Search hits, audit events and redactions know only the key of a message.
    """
    at = _parse_key(viewer.request.GET.get("at"))
    if at is None or viewer.request.GET.get("branch"):
        return None
    agent_and_branch = relations.side_branch_of(viewer, at)
    if agent_and_branch is None:
        return None
    agent, branch = agent_and_branch
    query = viewer.query(agent=agent, branch=branch, at=at)
    return HttpResponseRedirect(f"{viewer.page}{query}#m-{at}")


def _window(viewer: Viewer, scope: MessageQuery) -> MessagePage:
    params, originals = viewer.request.GET, viewer.can_view_originals
    if params.get("all"):
        return message_pages.first_page(
            scope, count=message_pages.MAX_PAGE_SIZE, originals=originals
        )
    if params.get("from") == "start":
        return message_pages.first_page(scope, originals=originals)
    for name, read in (
        ("at", message_pages.page_around),
        ("before", message_pages.page_before),
        ("after", message_pages.page_after),
    ):
        if name in params:
            key = _parse_key(params[name])
            if key is None:
                raise Http404
            return read(scope, key, originals=originals)
    return message_pages.last_page(scope, originals=originals)


def read_turns(
    viewer: Viewer,
    scope: MessageQuery,
    window: MessagePage,
    voices: dict[UUID, AgentLabel],
    *,
    page: str = "messages",
) -> list[SpeakerTurn]:
    """Read the contents of a window, and record that ``page`` shows them."""
    # A page without messages shows the title, states and metadata; other pages do not.
    if window.rows or page == "messages":
        viewer.record_window(window.rows, page)
    if viewer.can_read:
        message_pages.read_payloads(scope, window.rows, _parse_key(viewer.request.GET.get("at")))
    note = partial(sidebar.redactions(viewer, window.rows).note, reason=viewer.can_read)
    builder = TranscriptBuilder(
        voices,
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


def _neighbour_links(
    model_admin: Any, viewer: Viewer, beside: sidebar.BesideConversation
) -> dict[str, str]:
    name = f"{model_admin.admin_site.name}:agent_sessions_session_change"
    # The neighbours ignore the list's filters, so the links do not preserve them.
    query = "?plain=1" if _is_plain(viewer.request) else ""
    return {
        side: reverse(name, args=[key]) + query
        for side, key in (("previous", beside.previous), ("next", beside.next))
        if key is not None
    }


def _list_url(model_admin: Any, request: HttpRequest) -> str:
    url = reverse(f"{model_admin.admin_site.name}:agent_sessions_session_changelist")
    filters = request.GET.get("_changelist_filters")
    return f"{url}?{QueryDict(filters).urlencode()}" if filters else url


def _is_plain(request: HttpRequest) -> bool:
    return bool(request.GET.get("plain"))


def _parse_key(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None
