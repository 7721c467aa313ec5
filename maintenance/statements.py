"""Count the SQL statements of common operations on SQLite, and print them as JSON.

    cd CHECKOUT && .venv/bin/python …/maintenance/statements.py

Only the public API is used, so that the same script measures commits before and after a redesign.
Each operation runs twice; the second run counts, on all connections of all threads. ``BEGIN`` is
counted apart; savepoints are not counted.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

sys.path[0] = os.getcwd()

import django
from django.conf import settings

CARD = "4111 1111 1111 1111"
ITEM: Any = {"role": "user", "content": "a"}
DIRECTORY = tempfile.TemporaryDirectory(prefix="statements-")
CONTRIB = ["admin", "auth", "contenttypes", "sessions", "messages"]
APPS = ["rest_framework", "django_filters", "django_agent_sessions"]
PROCESSORS = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
]
TEMPLATES = {"APP_DIRS": True, "OPTIONS": {"context_processors": PROCESSORS}}
WAL = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL;"}
DATABASE = {"NAME": f"{DIRECTORY.name}/db.sqlite3", "OPTIONS": WAL}
SITE = {"SECRET_KEY": "statements", "USE_TZ": True, "ALLOWED_HOSTS": ["*"], "STATIC_URL": "/s/"}
settings.configure(
    **SITE,
    ROOT_URLCONF=__name__,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=[*(f"django.contrib.{name}" for name in CONTRIB), *APPS],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", **TEMPLATES}],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", **DATABASE}},
)
django.setup()

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.db.backends.signals import connection_created
from django.test import AsyncClient, Client
from django.urls import include, path
from strands import Agent
from strands.hooks import AfterInvocationEvent, MessageAddedEvent
from strands.models.model import Model

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.store import SessionStore


def place(*names: str) -> str:
    """Return the first module that exists: where it was, or where it is now."""
    return next(name for name in names if importlib.util.find_spec(name))


REST = "django_agent_sessions.rest"
ai_sdk: Any = importlib.import_module(place(f"{REST}.ai_sdk", f"{REST}.chat.ai_sdk"))
assistant_ui = place(f"{REST}.assistant_ui", f"{REST}.chat.assistant_ui")


class Scripted(Model):
    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "Yes."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class Chat(ai_sdk.ChatView):  # type: ignore[misc] # imported by name
    async def respond(self, chat: Any) -> Any:
        manager = await DjangoSessionManager.load(chat.session_id, owner=chat.owner, create=False)
        return agent_of(manager).stream_async(chat.strands_input)


urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("django_agent_sessions.rest.urls")),
    path("", include(f"{assistant_ui}.urls")),
    *ai_sdk.chat_urls(Chat, "chat"),
]

found: dict[str, dict[str, Any]] = {}
running: list[str] | None = None


def record(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    """Note a statement; an execute wrapper."""
    used = context["connection"]
    ready = used.connection is getattr(used, "ready", None)
    if running is not None and ready and not sql.startswith(("SAVEPOINT", "RELEASE")):
        tables = re.findall(r"\b(?:agent_sessions|auth|django)_\w+", sql)
        running.append(" ".join([sql.split(None, 1)[0].upper(), *dict.fromkeys(tables)]))
    return execute(sql, params, many, context)


def watch(connection: Any, **_: Any) -> None:
    """Watch a new connection, of whatever thread, from the end of its set-up."""
    connection.ready = connection.connection
    if record not in connection.execute_wrappers:
        connection.execute_wrappers.insert(0, record)


@contextmanager
def counted(name: str) -> Iterator[None]:
    """Count the statements of a block; a later block of the same name replaces the count."""
    global running
    taken: list[str] = []
    running = taken
    try:
        yield
    finally:
        running = None
    begins = [sql for sql in taken if sql.startswith("BEGIN")]
    shapes = [sql for sql in taken if not sql.startswith("BEGIN")]
    found[name] = {"statements": len(shapes), "transactions": len(begins), "shapes": shapes}


def count(name: str, call: Any, *arguments: Any, **options: Any) -> Any:
    with counted(name):
        return call(*arguments, **options)


async def acount(name: str, call: Any, *arguments: Any) -> Any:
    with counted(name):
        return await call(*arguments)


def agent_of(manager: Any) -> Agent:
    return Agent(model=Scripted(), session_manager=manager, callback_handler=None)


def said(text: str = "a") -> Any:
    return {"role": "user", "content": [{"text": text}]}


def use_store(owner: Any, name: str) -> None:
    store = SessionStore(owner=owner)
    session = count("store: open a new session", store.open, name)
    agent = count("store: open a new agent", store.agents.open, session, dialect="openai")
    count("store: first message", store.append, agent, ITEM)
    count("store: append 1", store.append, agent, ITEM)
    count("store: append 1, not counted", store.append, agent, ITEM, count=False)
    count("store: append_many(100)", store.append_many, agent, [ITEM] * 100)
    count("store: open an existing session", store.open, name)
    count("store: open an existing agent", store.agents.open, session, dialect="openai")
    count("store: payloads", store.payloads, agent)
    count("store: latest 20 payloads", store.payloads, agent, latest=20)
    count("store: pop", store.pop, agent)
    count("store: list_sessions", store.sessions.list, limit=20)
    count("store: clear", store.clear, agent)
    count("store: delete", store.delete, name)


def use_strands_in_sync_code(owner: Any, name: str) -> None:
    for what in ("a new", "an existing"):
        with counted(f"strands: init of {what} session and agent"):
            agent_of(DjangoSessionManager(name, owner=owner))


async def use_strands(owner: Any, name: str) -> None:
    load = partial(DjangoSessionManager.load, name, owner=owner)

    async def add() -> None:
        agent.messages.append(said())
        await agent.hooks.invoke_callbacks_async(MessageAddedEvent(agent, agent.messages[-1]))

    async def end() -> None:
        await agent.hooks.invoke_callbacks_async(AfterInvocationEvent(agent=agent))

    manager = await acount("strands: load a new session", load)
    agent = count("strands: restore a new agent", agent_of, manager)
    await acount("strands: first message", add)
    await acount("strands: append 1", add)
    await acount("strands: end of a turn", end)
    await acount("strands: unchanged agent", end)
    manager = await acount("strands: load an existing session", load)
    count("strands: restore an existing agent", agent_of, manager)


async def use_openai(owner: Any, name: str) -> None:
    for kind in (DjangoSession, AdvancedDjangoSession):
        what = kind.__name__
        session, again = (kind(f"{what}-{name}", owner=owner) for _ in range(2))
        await acount(f"{what}: first item", session.add_items, [ITEM])
        await acount(f"{what}: add_items(1)", session.add_items, [ITEM])
        await acount(f"{what}: add_items(100)", session.add_items, [ITEM] * 100)
        await acount(f"{what}: get_items of another object", again.get_items)
        await acount(f"{what}: get_items", session.get_items)
        await acount(f"{what}: get_items(20)", session.get_items, 20)
        await acount(f"{what}: pop_item", session.pop_item)
        await acount(f"{what}: clear_session", session.clear_session)


async def use_chat(owner: Any, name: str) -> None:
    client: Any = AsyncClient()
    await client.aforce_login(owner)

    async def ask(body: Any) -> bytes:
        answer = await client.post("/chat", body, content_type="application/json")
        return b"".join([piece async for piece in answer.streaming_content])

    for turn in ("first", "later"):
        message = {"id": f"{name}-{turn}", "role": "user", "parts": [{"type": "text", "text": "a"}]}
        body = {"id": name, "messages": [message], "trigger": "submit-message"}
        assert b"Yes." in await acount(f"useChat: {turn} turn", ask, body)
    read = await acount("useChat: transcript", client.get, f"/chat/{name}/messages")
    assert len(read.json()) == 4


def use_cloud(client: Any) -> None:
    def post(name: str, url: str, body: Any) -> Any:
        name, url = f"assistant-cloud: {name}", f"/v1/threads{url}"
        answer = count(name, client.post, url, body, content_type="application/json")
        assert answer.status_code in (200, 201), answer.content
        return answer.json()

    made = post("create a thread", "", {"last_message_at": "2026-01-01T00:00:00Z"})
    url, parent = f"/{made['thread_id']}/messages", None
    for what in ("first message", "append 1"):
        content = {"role": "user", "parts": [{"type": "text", "text": "a"}]}
        body = {"parent_id": parent, "format": "ai-sdk/v6", "content": content}
        parent = post(what, url, body)["message_id"]
    answer = count("assistant-cloud: list messages", client.get, f"/v1/threads{url}")
    assert len(answer.json()["messages"]) == 2


def use_pages(owner: Any, name: str, client: Any) -> None:
    store = SessionStore(owner=owner)
    session = store.create(name, title=f"About {CARD}")
    agent = store.agents.open(session, dialect="strands")
    store.append_many(agent, [said(f"my card is {CARD}"), *[said()] * 60])
    api, page = f"/api/sessions/{session.id}/", f"/admin/agent_sessions/session/{session.id}/"
    for what, url in {
        "rest: list of sessions": "/api/sessions/",
        "rest: list of all sessions": "/api/sessions/?scope=all",
        "rest: one session": api,
        "rest: page of messages": f"{api}messages/",
        "rest: agents": f"{api}agents/",
        "admin: list": "/admin/agent_sessions/session/",
        "admin: transcript": f"{page}change/",
        "admin: redaction, form": f"{page}redact/",
    }.items():
        assert count(what, client.get, url).status_code == 200, url
    form = {"what": "text", "text": CARD}
    preview = count("admin: redaction, preview", client.post, f"{page}redact/", form)
    sealed = re.findall(r'<input[^>]*name="(seal)"[^>]*value="([^"]+)"', preview.content.decode())
    form |= {**dict(sealed), "step": "confirm", "reason": "Ticket 1"}
    count("admin: redaction, confirmed", client.post, f"{page}redact/", form)
    assert CARD not in str(store.payloads(agent)), "it was not redacted"


def main() -> None:
    connection_created.connect(watch)
    call_command("migrate", verbosity=0)
    watch(connection)
    owner = get_user_model().objects.create_superuser("root")
    (client := Client()).force_login(owner)
    for name in ("warm", "measured"):
        use_store(owner, f"{name}-store")
        use_strands_in_sync_code(owner, f"{name}-sync")
        use_pages(owner, f"{name}-pages", client)
        use_cloud(client)
        for use in (use_strands, use_openai, use_chat):
            asyncio.run(use(owner, f"{name}-{use.__name__}"))
    print(json.dumps(found))


main()
