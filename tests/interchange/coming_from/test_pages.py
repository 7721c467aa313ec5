"""The pages on moving: their commands, their code, and what they say that is printed.

Each store is written by the product itself, in a conversation of its own SDK.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from agents import Agent, Runner, SQLiteSession
from agents.extensions.memory import SQLAlchemySession
from django.contrib.auth.models import User
from django.core.management import call_command
from strands import Agent as StrandsAgent
from strands.session import FileSessionManager, S3SessionManager

from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import Session
from tests.adapters.openai_agents.scripted import ScriptedModel
from tests.adapters.strands.scripted import ScriptedModel as StrandsModel
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture

from . import pages
from .written import write

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder in which the reader works."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(arguments: Sequence[str]) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def owners() -> dict[str, str | None]:
    return dict(Session.objects.values_list("session_id", "owner__username"))


def openai_agent() -> Agent:
    return Agent(name="Helper", model=ScriptedModel())


async def talk(session: Any, *texts: str) -> None:
    for text in texts:
        await Runner.run(openai_agent(), text, session=session)


def goes_on(namespace: dict[str, Any], ada: User) -> None:
    """The agent of the page remembers; another user does not reach the session."""
    answer, eve = namespace["answer"], User.objects.create_user("eve")
    assert asyncio.run(answer(openai_agent(), ada, "And then?")) == "You said: And then?"
    with pytest.raises(SessionNotFoundError):
        asyncio.run(answer(openai_agent(), eve, "Tell me."))
    messages = Session.objects.get(session_id="chat-ada").message_count
    assert messages == 6


def test_from_sqlite_session(folder, ada):
    page = "sqlite-session.md"
    pages.write_owners(page, folder)
    with closing(SQLiteSession("chat-ada", "conversations.db")) as session:
        asyncio.run(talk(session, "Hello.", "How are you?"))
    with closing(SQLiteSession("chat-guest", "conversations.db")) as session:
        asyncio.run(talk(session, "Hello."))

    pages.check(page, run)

    assert owners() == {"chat-ada": "ada", "chat-guest": None}
    namespace = pages.python(page)
    assert asyncio.run(namespace["is_complete"](ada))
    goes_on(namespace, ada)
    assert not asyncio.run(namespace["is_complete"](ada))


def test_from_sqlalchemy_session(folder, ada, monkeypatch):
    page, url = "sqlalchemy-session.md", f"sqlite+aiosqlite:///{folder / 'old.db'}"
    pages.write_owners(page, folder)
    monkeypatch.setenv("OLD_DATABASE_URL", url)

    async def converse(name: str, *texts: str) -> None:
        session = SQLAlchemySession.from_url(name, url=url, create_tables=True)
        await talk(session, *texts)
        await session.engine.dispose()

    asyncio.run(converse("chat-ada", "Hello.", "How are you?"))
    asyncio.run(converse("chat-guest", "Hello."))

    pages.check(page, run)

    assert owners() == {"chat-ada": "ada", "chat-guest": None}
    namespace = pages.python(page)
    assert asyncio.run(namespace["is_complete"](ada, url))
    goes_on(namespace, ada)
    assert not asyncio.run(namespace["is_complete"](ada, url))


def converse_with_strands(manager_of: Any) -> None:
    for name, texts in (("chat-ada", ["Hello.", "How are you?"]), ("chat-guest", ["Hello."])):
        agent = StrandsAgent(
            model=StrandsModel(), session_manager=manager_of(name), callback_handler=None
        )
        agent.state.set("language", "en")
        for text in texts:
            agent(text)


def strands_goes_on(namespace: dict[str, Any], ada: User) -> None:
    agent = namespace["build_agent"](StrandsModel(), ada)
    assert agent.state.get() == {"language": "en"}
    assert [message["content"] for message in agent.messages[::2]] == [
        [{"text": "Hello."}],
        [{"text": "How are you?"}],
    ]
    agent("And then?")
    with pytest.raises(SessionNotFoundError):
        namespace["build_agent"](StrandsModel(), User.objects.create_user("eve"))
    assert Session.objects.get(session_id="chat-ada").message_count == 6


def test_from_file_session_manager(folder, ada):
    page = "file-session-manager.md"
    pages.write_owners(page, folder)
    converse_with_strands(lambda name: FileSessionManager(name, storage_dir="conversations"))

    pages.check(page, run)

    assert owners() == {"chat-ada": "ada", "chat-guest": None}
    namespace = pages.python(page)
    assert namespace["is_complete"](StrandsModel(), ada)
    strands_goes_on(namespace, ada)
    assert not namespace["is_complete"](StrandsModel(), ada)


# Over a second: agents run with a server that speaks S3.
def test_from_s3_session_manager(folder, ada, bucket, settings):
    page = "s3-session-manager.md"
    pages.write_owners(page, folder)
    converse_with_strands(
        lambda name: S3SessionManager(
            name,
            bucket=bucket.name,
            prefix="production",
            boto_session=bucket.session,
            endpoint_url=bucket.endpoint,
        )
    )
    namespace = pages.python(page)
    storage = namespace["STORAGES"]["old-sessions"]
    storage["OPTIONS"] |= bucket.options
    settings.STORAGES = {**settings.STORAGES, **namespace["STORAGES"]}

    with bucket.requests() as sent:
        pages.check(page, run)

    assert {request.split()[0] for request in sent} <= {"GET", "HEAD"}
    # The dry run and the import; the second import reads no message.
    assert len([request for request in sent if "/message_" in request]) == 12
    assert owners() == {"chat-ada": "ada", "chat-guest": None}
    strands_goes_on(namespace, ada)


# Over a second: a process of the project, and one that writes the database where it can.
@pytest.mark.process
def test_from_openai_django_sessions(folder):
    page = "openai-django-sessions.md"
    database, items = write("openai_django_sessions", folder)
    pages.write_owners(page, folder)

    found = pages.Project(folder, database).execute(
        f"pages.check({page!r}, run)\n"
        "ada = User.objects.get(username='ada')\n"
        "print(json.dumps({\n"
        "    'chat-ada': items(DjangoSession('chat-ada', owner=ada)),\n"
        "    'chat-guest': items(DjangoSession('chat-guest')),\n"
        "}))\n"
    )

    assert found == items
    assert "DjangoSession" in pages.python(page)


# As the one before.
@pytest.mark.process
def test_from_agentic_django(folder):
    page = "agentic-django.md"
    database, items = write("agentic_django", folder)
    project = pages.Project(folder, database)
    project.add("shop/sessions.py", pages.blocks(page, "python")[0])

    found = project.execute(
        "from shop.sessions import SessionBackend\n"
        f"pages.check({page!r}, run)\n"
        "users = {user.username: user for user in User.objects.all()}\n"
        "print(json.dumps({\n"
        "    name: items(SessionBackend.get_or_create(key, users[owner]))\n"
        f"    for name in {list(items)} for owner, key in [name.split('/')]\n"
        "}))\n"
    )

    assert found == items


# As the one before, and an agent runs in the process.
@pytest.mark.process
@pytest.mark.skipif(
    importlib.util.find_spec("agentic_django") is None, reason="agentic-django needs Python 3.12"
)
def test_agentic_django_goes_on_with_its_sessions_here(folder):
    page = "agentic-django.md"
    database, items = write("agentic_django", folder)
    backend, setting = pages.blocks(page, "python")
    registry = "tests.interchange.coming_from.write_agentic_django.get_agent_registry"
    project = pages.Project(
        folder,
        database,
        settings=f"{setting}\n"
        "INSTALLED_APPS.append('agentic_django.apps.AgenticDjangoConfig')\n"
        f"AGENTIC_DJANGO_AGENT_REGISTRY = {registry!r}\n"
        "TASKS = {'default': {'BACKEND': 'django_tasks.backends.immediate.ImmediateBackend'}}\n",
    )
    project.add("shop/sessions.py", backend)

    status, error, found = project.execute(
        "run(['check'])\n"
        f"pages.check({page!r}, run)\n"
        "from agentic_django.services import submit_agent_run\n"
        "ada = User.objects.get(username='ada')\n"
        "done = submit_agent_run(\n"
        "    owner=ada, session_key='support', agent_key='default', input_payload='Once more.'\n"
        ")\n"
        "done.refresh_from_db()\n"
        "session = DjangoSession('support', owner=ada, scope=str(ada.pk))\n"
        "print(json.dumps([done.status, done.error, items(session)]))\n"
    )

    assert (status, error) == ("completed", "")
    before = items["ada/support"]
    assert found[: len(before)] == before
    assert found[len(before)]["content"] == "Once more."
    assert len(found) == len(before) + 4
