"""Runs the code of ADDING_AN_ADAPTER.md, so that the page stays true."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.db import transaction

from django_agent_sessions import testing
from django_agent_sessions.content import dialects, masking
from django_agent_sessions.content.dialects import Part, PartKind
from django_agent_sessions.exceptions import MissingDependencyError
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import ToolCall
from django_agent_sessions.values.owners import NOBODY
from tests.adapters.processes import start_worker
from tests.admin.people import staff
from tests.admin.transcripts import page_url, shown

PAGE = Path(__file__).resolve().parent.parent / "ADDING_AN_ADAPTER.md"
ADAPTER, LIST_SESSION, FORMAT, CONTRACT_TEST = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M
)
NAME = "django_agent_sessions.adapters.parrot"
FORMAT_NAME = "tests.parrot_format"


def run(code: str, name: str) -> dict[str, Any]:
    module = sys.modules[name] = ModuleType(name)
    try:
        exec(compile(code, f"{PAGE.name}: {name}", "exec"), vars(module))  # noqa: S102 - our own page
    except BaseException:
        del sys.modules[name]
        raise
    return vars(module)


class Agent:
    """The agent of the imaginary SDK, whose tricks and answers a script says."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.heard: list[Any] = []

    def talk(self, prompt: str, script: Sequence[Any]) -> list[Any]:
        """Says the script, and returns what was in the memory before its last step."""
        self.memory.save([{"speaker": "user", "words": prompt}])
        for step in script:
            self.heard = self.memory.load()
            self.memory.save(steps(step))
        return self.heard


def steps(step: Any) -> list[Any]:
    """The messages of a step of a script."""
    if isinstance(step, str):
        return [{"speaker": "parrot", "words": step}]
    call = {"trick": step.tool, "given": step.arguments, "feather_id": step.id}
    answer = {"words": f"registered {step.arguments['name']}", "feather_id": step.id}
    return [{"speaker": "parrot", **call}, {"speaker": "perch", **answer}]


def with_the_sdk() -> Any:
    """The page's test class, made while the imaginary SDK and its adapter can be imported."""
    sdk = ModuleType("parrot")
    vars(sdk).update(Memory=type("Memory", (), {}), Parrot=Agent)
    sys.modules["parrot"] = sdk
    run(FORMAT, FORMAT_NAME)
    try:
        run(ADAPTER, NAME)
        return run(CONTRACT_TEST, "tests.adapters.parrot.test_contract")["TestParrot"]
    finally:
        for name in ("parrot", NAME, "tests.adapters.parrot.test_contract"):
            sys.modules.pop(name, None)


@pytest.fixture
def parrots_format(settings):
    settings.AGENT_SESSIONS = {"DIALECTS": [f"{FORMAT_NAME}.Parrot"]}


@pytest.mark.usefixtures("parrots_format")
class TestParrot(with_the_sdk()):  # type: ignore[misc] # the class is in a page
    start = staticmethod(start_worker)


class ListDriver:
    """An agent that keeps a list of its own, and saves all of it at each step."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.sessions: dict[str, Any] = {}
        self.lists: dict[str, list[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def kept(self, session_id: str) -> list[Any]:
        if session_id not in self.sessions:
            session = ListSession(SessionStore(), session_id, "parrot")
            self.lists[session_id] = session.run(session.load)
            self.sessions[session_id] = session
        return self.lists[session_id]

    def append(self, session_id: str, payloads: Sequence[Any]) -> None:
        turns = self.kept(session_id)
        turns.extend(payloads)
        session = self.sessions[session_id]
        session.run(partial(session.save, turns))

    def converse(self, session_id: str, prompt: str, *script: Any) -> list[Any]:
        self.append(session_id, [self.payload(prompt)])
        heard: list[Any] = []
        for step in script:
            heard = list(self.kept(session_id))
            self.append(session_id, steps(step))
        return heard


ListSession = run(LIST_SESSION, "tests.parrot_list_session")["ListSession"]


@pytest.mark.usefixtures("parrots_format")
class TestListOfItsOwn(testing.AgentContract[Any]):
    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> Any:
        return ListDriver(TestParrot().driver(owner=owner, namespace=namespace))

    @pytest.mark.django_db(transaction=True)
    def test_a_list_is_saved_whole_after_a_rollback_and_a_change(self) -> None:
        driver = self.driver()
        self.say("s", "a", driver=driver)
        with transaction.atomic():
            self.say("s", "b", driver=driver)
            transaction.set_rollback(True)

        self.say("s", "c", driver=driver)
        assert self.read_texts("s") == ["a", "b", "c"]

        del driver.kept("s")[0]
        self.say("s", "d", driver=driver)
        assert self.read_texts("s") == ["b", "c", "d"]


def test_without_the_sdk_the_adapter_names_its_extra():
    with pytest.raises(MissingDependencyError, match=r"django-agent-sessions\[parrot\]"):
        run(ADAPTER, NAME)
    assert NAME not in sys.modules


@pytest.mark.usefixtures("parrots_format")
def test_a_format_of_its_own_is_read_and_redacted():
    message = {"speaker": "parrot", "words": "I am Polly", "data": {"age": 5}}

    assert dialects.get("parrot").parts(message) == (Part(PartKind.TEXT, text="I am Polly"),)
    assert dialects.get("parrot").summary(message)[:2] == ("assistant", "I am Polly")
    assert masking.redact_message("parrot", message) == {
        "speaker": "parrot",
        "words": "[REDACTED]",
        "data": {},
    }


@pytest.mark.usefixtures("parrots_format")
def test_a_redaction_keeps_the_name_of_a_tool():
    [call, _] = steps(ToolCall("register", {"name": "Ada"}, "call-4711"))

    assert masking.redact_message("parrot", call)["trick"] == "register"
    assert masking.mask_texts(call, {"register"}, free=False)["trick"] == "register"
    assert masking.redact_block("parrot", call, ("given",)) == {**call, "given": {}}


@pytest.mark.django_db
@pytest.mark.usefixtures("parrots_format")
def test_the_admin_shows_the_words_of_a_tools_answer(client):
    client.force_login(staff("reader", "view_session", "read_transcript"))
    store = SessionStore()
    agent = store.agents.open(store.open("s"), "parrot", dialect="parrot")
    store.append_many(agent, steps(ToolCall("register", {"name": "Ada"}, "call-4711")))

    page = shown(client, page_url("s"))

    assert "registered Ada" in page
    assert "(empty)" not in page


NAMED = set(re.findall(r"`([a-z_./]+\.(?:py|md|toml))`", PAGE.read_text()))


@pytest.mark.parametrize("path", sorted(path for path in NAMED if "parrot" not in path))
def test_the_files_that_the_page_names_exist(path):
    root = PAGE.parent

    assert (root / path).exists() or (root / "django_agent_sessions" / path).exists()
