"""Pages of a chat: one's own conversations, and one of them.

The store's owner decides what is reachable; what is somebody else's does not exist.
"""

from __future__ import annotations

import logging
from uuid import UUID, uuid4

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import Session
from django_agent_sessions.records import SessionRecord
from django_agent_sessions.store import SessionStore

from . import openai_agents, strands_agents, transcript
from .forms import MessageForm, NewConversationForm

logger = logging.getLogger(__name__)

PAGE_SIZE = 30

_ASK = {strands_agents.KIND: strands_agents.ask, openai_agents.KIND: openai_agents.ask}


@require_safe
@login_required
def conversations(request: HttpRequest) -> HttpResponse:
    """Lists the user's conversations, the most recently active first."""
    return _list(request, NewConversationForm())


@require_POST
@login_required
def new(request: HttpRequest) -> HttpResponse:
    """Begins a conversation with its first message."""
    form = NewConversationForm(request.POST)
    if not form.is_valid():
        return _list(request, form, status=400)
    given = form.cleaned_data
    store = SessionStore(owner=request.user)
    # It is made here, so that it is there to go on with even if the agent fails.
    session = store.create(
        f"chat-{uuid4()}", title=given["title"], metadata={"agent": given["agent"]}
    )
    return _say(request, given["agent"], session, given["text"])


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def conversation(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Shows one of the user's conversations, and takes the next message."""
    store = SessionStore(owner=request.user)
    session = _get(store, pk)
    agent = session.metadata.get("agent")
    posted = request.method == "POST"
    # Other sessions of the user, such as that of a graph, are only shown.
    form = MessageForm(request.POST if posted else None) if agent in _ASK else None
    if posted:
        if form is None:
            return HttpResponse("Nobody answers in this conversation.", status=409)
        if form.is_valid():
            return _say(request, str(agent), session, form.cleaned_data["text"])
    everything = request.GET.get("all") == "1"
    context = {
        "session": session,
        "conversations": transcript.conversations(store, session, everything=everything),
        "latest": transcript.LATEST,
        "form": form,
    }
    return render(
        request, "chat/conversation.html", context, status=400 if form and form.errors else 200
    )


def _list(request: HttpRequest, form: NewConversationForm, status: int = 200) -> HttpResponse:
    store = SessionStore(owner=request.user)
    found = store.list_sessions(limit=PAGE_SIZE + 1, after=_after(store, request.GET.get("after")))
    context = {
        "sessions": found[:PAGE_SIZE],
        "has_more": len(found) > PAGE_SIZE,
        "form": form,
    }
    return render(request, "chat/conversations.html", context, status=status)


def _after(store: SessionStore, key: str | None) -> SessionRecord | None:
    if not key:
        return None
    try:
        return _get(store, UUID(key))
    except ValueError:
        raise Http404 from None


def _get(store: SessionStore, pk: UUID) -> SessionRecord:
    """Finds a session by its key: the name of a session is any text, and may not fit a URL."""
    mine = Session.objects.using(store.using).owned_by(store.owner_id)
    name = mine.filter(pk=pk, namespace=store.namespace).values_list("session_id", flat=True)
    try:
        return store.get(name.get())
    except (Session.DoesNotExist, SessionNotFoundError):
        raise Http404 from None


def _say(request: HttpRequest, agent: str, session: SessionRecord, text: str) -> HttpResponse:
    try:
        _ASK[agent](session.session_id, text, owner=request.user)
    except Exception as error:
        # Whatever a provider raises: its text may repeat the conversation, so only its type is
        # logged.
        logger.error("the agent failed in session %s: %s", session.id, type(error).__name__)
        messages.error(request, "The agent could not answer. Try again in a moment.")
    # Where the newest message is.
    return redirect(f"{reverse('chat:conversation', args=[session.id])}#say")
