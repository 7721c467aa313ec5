"""The recipes of the documentation, pasted from the page: each does what its heading promises."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import sqlite3
import subprocess
import sys
import types
import zipfile
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import RunConfig, Runner, SQLiteSession, set_tracing_disabled
from agents.extensions.memory import SQLAlchemySession
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser, User
from django.core.management import call_command
from django.http import Http404
from django.test import RequestFactory
from django.utils import timezone
from strands import Agent
from strands.session import FileSessionManager

from django_agent_sessions import usage
from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.openai_agents.echo import EchoModel as OpenAIEcho
from django_agent_sessions.adapters.strands.echo import EchoModel
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.interchange.source_registry import SOURCES
from django_agent_sessions.models import Session
from django_agent_sessions.signals import messages_added
from django_agent_sessions.testing import make_session
from tests.processes import ROOT, unmeasured

from .recipes import PAGE, RECIPES, pasted

pytestmark = pytest.mark.django_db(transaction=True)

MAX_LINES = 10
IMPORTS = ("import ", "from ")


def imported(recipe: str, *, place: Path | str, folder: Path) -> str:
    """Runs the command of a recipe, with its example's place and owners replaced."""
    [command] = RECIPES[recipe]
    words = shlex.split(command.removeprefix("$ python manage.py "))
    owners = folder / "owners.csv"
    owners.write_text("session_id,user\ntalk,ada\n")
    words = [str(owners) if word == "owners.csv" else word for word in words]
    words[2] = str(place)
    out = io.StringIO()
    call_command(*words, stdout=out, stderr=io.StringIO())
    return out.getvalue()


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def eve() -> User:
    return User.objects.create_user("eve")


@pytest.fixture(autouse=True)
def untraced():
    set_tracing_disabled(True)


def test_the_page_has_jobs_of_at_most_ten_lines():
    assert len(RECIPES) == 25
    for blocks in RECIPES.values():
        [block] = blocks
        lines = [line for line in block.splitlines() if line.strip()]
        assert len([line for line in lines if not line.startswith(IMPORTS)]) <= MAX_LINES


def test_sessions_with_their_last_message(ada, eve, django_assert_num_queries):
    for number in range(3):
        make_session("Hello", f"Hi {number}", owner=ada, session_id=f"s{number}", title="T")
    make_session("secret", owner=eve)
    sidebar = pasted("Sessions with their last message")["sidebar"]

    with django_assert_num_queries(1):
        assert sidebar(ada) == [(f"s{n}", "T", f"Hi {n}") for n in (2, 1, 0)]
    assert sidebar(None) == []


def test_sessions_older_than_30_days(ada):
    for days, held in ((31, False), (31, True), (29, False)):
        session = make_session("Hello", owner=ada, session_id=f"{days} {held}")
        moment = timezone.now() - timedelta(days=days)
        Session.objects.filter(pk=session.pk).update(last_activity_at=moment, legal_hold=held)

    pasted("Sessions older than 30 days")["delete_old_sessions"]()

    assert {row.session_id for row in Session.objects.all()} == {"31 True", "29 False"}


@pytest.mark.parametrize("kind", ["ASGI", "WSGI"])
def test_a_stream_is_for_those_who_may_read_the_session(ada, eve, kind):
    make_session("secret", owner=ada, session_id="talk")
    view = pasted(f"A stream under {kind}", strands_words=None, one_by_one=None)["stream_answer"]
    request = RequestFactory().post("/", {"text": "hello"})

    async def eves() -> Any:
        return eve

    request.user, request.auser = eve, eves
    with pytest.raises(Http404):
        async_to_sync(view)(request, "talk") if kind == "ASGI" else view(request, "talk")

    async def nobodys() -> AnonymousUser:
        return AnonymousUser()

    request.user, request.auser = AnonymousUser(), nobodys
    answer = async_to_sync(view)(request, "talk") if kind == "ASGI" else view(request, "talk")
    assert answer.status_code == 302


def test_a_celery_task(ada):
    answer = pasted("A Celery task", model=EchoModel())["answer"]

    # In this process; a worker runs it in `make contexts`.
    # Redaction does not reach what a task returns.
    assert answer.apply((ada.pk, "talk", "Hello")).get() is None
    session = Session.objects.get(session_id="talk")
    assert session.owner == ada
    assert session.messages.get(role="assistant").text == "You said: Hello"


def test_tokens_and_cost_of_a_user_this_month(ada, settings):
    settings.AGENT_SESSIONS = {"PRICES": {"m": {"input": "1000000", "output": "0"}}}
    make_session("Hello", "Hi", owner=ada, tokens=(3, 2), model="m")
    usage.roll_up(until=timezone.now() + timedelta(seconds=1))

    assert pasted("A user's tokens and cost this month")["this_month"](ada) == (3, 2, 3)


def test_sessions_by_metadata(ada, eve, client):
    for owner, team in ((ada, "blue"), (ada, "red"), (eve, "blue")):
        make_session(owner=owner, session_id=f"{owner} {team}", metadata={"team": team})

    found = pasted("Sessions by metadata")["sessions_of_team"](ada, "blue")
    assert [row.session_id for row in found] == ["ada blue"]
    [query] = re.findall(r"GET sessions/(\?\S+)`", PAGE)
    client.force_login(ada)
    rows = client.get(f"/api/sessions/{query}").json()["results"]
    assert [row["session_id"] for row in rows] == ["ada blue"]


def test_sharing_a_session(ada, eve):
    session = make_session("Hello", owner=ada, session_id="talk", namespace="team")
    request = RequestFactory().get("/")
    request.user = ada
    recipe = pasted("Sharing a session")

    recipe["share"](session, eve, request)

    assert [message.content for message in recipe["read_shared"](session, eve)] == [
        {"role": "user", "content": [{"text": "Hello"}]}
    ]
    with pytest.raises(SessionNotFoundError):
        recipe["read_shared"](session, User.objects.create_user("bob"))


def test_renaming_a_session(ada, eve):
    make_session(owner=ada, session_id="talk", title="Old")
    rename = pasted("Renaming a session")["rename"]

    assert rename(ada, "talk", "New").title == "New"
    with pytest.raises(SessionNotFoundError):
        rename(eve, "talk", "Mine")
    assert Session.objects.get().title == "New"


def test_one_persons_export(ada, eve):
    make_session("my words", owner=ada)
    make_session("her words", owner=eve)
    request = RequestFactory().get("/")
    request.user = ada

    response = pasted("One person's export")["my_data"](request)

    with zipfile.ZipFile(io.BytesIO(b"".join(response))) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert b"my words" in content
    assert b"her words" not in content


async def test_two_agents_in_a_session():
    ada = await User.objects.acreate(username="ada")
    names = {
        "DjangoSession": DjangoSession,
        "Runner": Runner,
        "RunConfig": RunConfig,
        "Agent": OpenAIAgent,
    }
    model = OpenAIEcho("A poem.", "Too short.")
    write_and_judge = pasted("Two agents in a session", model=model, **names)["write_and_judge"]

    assert await write_and_judge(ada, "talk", "Spring") == "Too short."
    session = await Session.objects.aget()
    agents = session.agents.order_by("agent_id")
    assert [agent.agent_id async for agent in agents] == ["critic", "writer"]


def test_a_signal_on_new_messages(ada):
    notifications: list[str] = []
    recipe = pasted("A signal on new messages", notifications=notifications)
    try:
        session = make_session("Hello", "Hi", owner=ada)
    finally:
        messages_added.disconnect(recipe["notify"])

    assert notifications == [f"2 new in {session.pk}"]


def test_several_tenants(ada):
    tenant_store = pasted("Several tenants")["tenant_store"]

    def store(tenant: int) -> Any:
        request = types.SimpleNamespace(user=ada, tenant=types.SimpleNamespace(pk=tenant))
        return tenant_store(request)

    store(1).open("talk", title="of the first")
    assert store(2).find("talk") is None
    assert store(2).open("talk").title == ""


def said(owner: User) -> list[str]:
    rows = Session.objects.get(owner=owner).messages.order_by("message_id")
    return list(rows.values_list("text", flat=True))


def test_from_sqlite_session(ada, tmp_path):
    async def write() -> None:
        with closing(SQLiteSession("talk", tmp_path / "old.db")) as session:
            await session.add_items([{"role": "user", "content": "Hello"}])

    asyncio.run(write())
    imported("From SQLiteSession", place=tmp_path / "old.db", folder=tmp_path)
    assert said(ada) == ["Hello"]


def test_from_sqlalchemy_session(ada, tmp_path):
    async def write() -> None:
        url = f"sqlite+aiosqlite:///{tmp_path / 'old.db'}"
        session = SQLAlchemySession.from_url("talk", url=url, create_tables=True)
        await session.add_items([{"role": "user", "content": "Hello"}])
        await session.engine.dispose()

    asyncio.run(write())
    place = f"sqlite:///{tmp_path / 'old.db'}"
    imported("From SQLAlchemySession", place=place, folder=tmp_path)
    assert said(ada) == ["Hello"]


def test_from_file_session_manager(ada, tmp_path):
    manager = FileSessionManager("talk", storage_dir=str(tmp_path / "sessions"))
    Agent(EchoModel("Hi"), session_manager=manager, callback_handler=None)("Hello")

    imported("From FileSessionManager", place=tmp_path / "sessions", folder=tmp_path)
    assert said(ada) == ["Hello", "Hi"]


def test_from_agentic_django():
    # What it imports is tested with a database of that package, in tests/interchange/coming_from.
    [command] = RECIPES["From agentic-django"]
    _, _, _, kind, place, option = shlex.split(command.removeprefix("$ "))
    assert kind in SOURCES
    assert (place, option) == ("default", "--keep-owners")


SITE = """
SECRET_KEY = "test"
INSTALLED_APPS = [
    "shop", "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
    "django.contrib.sessions", "django.contrib.messages", "rest_framework", "django_filters",
    "django_agent_sessions",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.sqlite3",
    "OPTIONS": {"transaction_mode": "IMMEDIATE"}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]
STATIC_URL = "/static/"
ROOT_URLCONF = "urls"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
"""
URLS = """
from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("django_agent_sessions.rest.urls")),
]
"""
VISIT = """
import json
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django_agent_sessions.models import Session
from django_agent_sessions.testing import make_session
from shop.models import Case

call_command("check", fail_level="WARNING", verbosity=0)
call_command("makemigrations", "shop", verbosity=0)
call_command("migrate", verbosity=0)
root = User.objects.create_superuser("root", password="x")
for number in range(3):
    session = make_session("Hello", owner=root)
    Case.objects.create(session=session, number=f"C-{number}")
make_session("Without a case", owner=root)
client = Client()
client.force_login(root)
page = client.get(f"/admin/agent_sessions/session/{session.pk}/change/")
with CaptureQueriesContext(connection) as statements:
    rows = client.get("/api/sessions/").json()["results"]
Session.objects.filter(pk=session.pk).delete()
Session.objects.exclude(owner=None).first().delete()
print(json.dumps({
    "page": page.content.decode(),
    "status": page.status_code,
    "cases": [row["case"] for row in rows],
    "statements": len(statements),
    "left": Case.objects.count(),
}))
"""


@pytest.fixture
def site(tmp_path) -> Callable[..., str]:
    """Makes a project of the recipes' files; returns what runs Python in it."""
    shop = tmp_path / "shop"
    (shop / "migrations").mkdir(parents=True)
    files = {
        "models": RECIPES["Extra fields"][0],
        "admin": RECIPES["A custom admin"][0],
        "api": RECIPES["A swapped serializer"][0],
        "__init__": "",
        "migrations/__init__": "",
    }
    for name, text in files.items():
        (shop / f"{name}.py").write_text(text)
    chosen = re.findall(r"`AGENT_SESSIONS = \{(.*?)\}`", PAGE)
    (tmp_path / "site_settings.py").write_text(SITE + f"AGENT_SESSIONS = {{{', '.join(chosen)}}}\n")
    (tmp_path / "urls.py").write_text(URLS)
    environment = {
        **unmeasured(),
        "DJANGO_SETTINGS_MODULE": "site_settings",
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
    }

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.process
def test_extra_fields_a_custom_admin_and_a_swapped_serializer(site, tmp_path):
    found = json.loads(site("-c", VISIT).splitlines()[-1])

    assert found["status"] == 200
    assert "C-2" in found["page"]
    assert found["cases"] == [None, "C-2", "C-1", "C-0"]
    # Two are of the login.
    assert found["statements"] == 3
    # Deleted with its session, alone and with others.
    assert found["left"] == 2
    with closing(sqlite3.connect(tmp_path / "site.sqlite3")) as database:
        [(count,)] = database.execute("SELECT count(*) FROM agent_sessions_session")
    assert count == 2


@pytest.mark.process
def test_tests_of_your_own(site, tmp_path):
    [plugins] = re.findall(r"`(pytest_plugins = .*?)`", PAGE)
    (tmp_path / "conftest.py").write_text(f"{plugins}\n")
    (tmp_path / "test_own.py").write_text(RECIPES["Tests of your own"][0])
    (tmp_path / "test_async.py").write_text(RECIPES["An async test"][0])
    (tmp_path / "test_async.py").write_text(RECIPES["An async test"][0])
    site("-m", "django", "makemigrations", "shop", "-v0")
    out = site("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_own.py", "test_async.py")

    assert "2 passed" in out
