"""The code on the page about views runs, on the example's offline models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import agents
import pytest
import strands
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser
from django.db import connections
from django.http import Http404, HttpRequest
from django.test import RequestFactory, override_settings
from django.urls import path

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import AuditEvent, Session
from example_project import settings as example
from example_project.chat.offline.openai_model import OfflineOpenAIModel
from example_project.chat.offline.strands_model import OfflineStrandsModel
from tests.adapters.openai_agents import scripted as openai_script
from tests.adapters.strands import scripted as strands_script
from tests.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/views.md").read_text(), re.DOTALL)


def code(model: Any) -> SimpleNamespace:
    """What the page defines."""
    namespace: dict[str, Any] = {"__name__": "views"}
    # Each SDK's ``Agent`` belongs to the function of its own block.
    for block in BLOCKS:
        if "def " in block:
            before = dict(namespace)
            exec(block, own := {**before, "model": model})  # noqa: S102 - our own page
            namespace |= {n: v for n, v in own.items() if n not in ("model", "__builtins__")}
    return SimpleNamespace(**namespace)


def request_of(user: Any, text: str) -> HttpRequest:
    request = RequestFactory().post("/", {"text": text})
    request.user = user

    async def auser() -> Any:
        return user

    request.auser = auser
    return request


def test_both_views_remember(ada) -> None:
    strands, openai = code(OfflineStrandsModel()), code(OfflineOpenAIModel())
    say_to_openai = async_to_sync(openai.say_to_openai)
    for say in (strands.say_to_strands, say_to_openai):
        session_id = f"talk of {say}"
        say(request_of(ada, "Hello, my name is Ada."), session_id)
        answer = say(request_of(ada, "What did I tell you my name was?"), session_id)
        assert "your name is Ada" in answer.content.decode()
        assert len(strands.history(ada, session_id)) == 4


def test_only_who_is_logged_in_is_answered() -> None:
    page, nobody = code(OfflineStrandsModel()), AnonymousUser()
    request = request_of(nobody, "Hello")
    answers = [
        page.say_to_strands(request, "talk"),
        async_to_sync(page.say_to_openai)(request, "talk"),
        page.begin(request),
        page.say_or_404(request, "talk"),
    ]
    assert [answer.status_code for answer in answers] == [302] * 4
    assert not Session.objects.exists()


urlpatterns: list[Any] = []


@override_settings(ROOT_URLCONF=__name__)
def test_the_async_view_is_called_with_atomic_requests_too(ada, client, monkeypatch) -> None:
    page = code(OfflineOpenAIModel())
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    monkeypatch.setitem(globals(), "urlpatterns", [path("<session_id>", page.say_to_openai)])
    client.force_login(ada)

    answer = client.post("/atomic", {"text": "Hello, my name is Ada."})

    assert answer.status_code == 200


@pytest.fixture
def traced():
    """What the OpenAI SDK traces, which it would send."""
    seen: list[Any] = []

    class Recorder(agents.tracing.TracingProcessor):
        def on_trace_start(self, trace: Any) -> None:
            seen.append(trace)

        def on_trace_end(self, trace: Any) -> None:
            seen.append(trace)

        def on_span_start(self, span: Any) -> None:
            seen.append(span)

        def on_span_end(self, span: Any) -> None:
            seen.append(span)

        def shutdown(self) -> None:
            pass

        def force_flush(self) -> None:
            pass

    provider = agents.tracing.get_trace_provider()
    # The SDK says to nobody what is there, and it has to be there again for the other tests.
    before = provider._multi_processor._processors  # type: ignore[attr-defined] # see above
    agents.set_trace_processors([Recorder()])
    agents.set_tracing_disabled(False)
    yield seen
    agents.set_tracing_disabled(True)
    agents.set_trace_processors(list(before))


def test_neither_view_prints_or_traces_what_is_said(ada, capsys, traced) -> None:
    request = request_of(ada, "Hello, my name is Ada.")
    code(OfflineStrandsModel()).say_to_strands(request, "strands")
    async_to_sync(code(OfflineOpenAIModel()).say_to_openai)(request, "openai")

    assert Session.objects.count() == 2
    assert capsys.readouterr() == ("", "")
    assert traced == []


def test_both_would_do_it_by_themselves(capsys, traced) -> None:
    strands.Agent(OfflineStrandsModel())("Hello, my name is Ada.")
    agent: agents.Agent[Any] = agents.Agent(name="assistant", model=OfflineOpenAIModel())
    async_to_sync(agents.Runner.run)(agent, "Hello, my name is Ada.")

    assert "Ada" in capsys.readouterr().out
    assert traced


def test_sessions_are_begun_by_the_server_and_gone_on_with(ada) -> None:
    page = code(OfflineStrandsModel())
    session_id = json.loads(page.begin(request_of(ada, "")).content)["session_id"]

    answer = page.say_or_404(request_of(ada, "Hello, my name is Ada."), session_id)

    assert answer.status_code == 200
    assert len(page.history(ada, session_id)) == 2


@pytest.mark.parametrize("session_id", ["adas", "nobodys", "no\x00id"])
def test_any_session_but_ones_own_is_a_404_and_made_by_nobody(ada, bob, session_id) -> None:
    page = code(OfflineStrandsModel())
    page.say_to_strands(request_of(ada, "Hello"), "adas")

    with pytest.raises(Http404):
        page.say_or_404(request_of(bob, "Hello"), session_id)

    assert Session.objects.count() == 1


def test_a_session_is_of_one_sdk_as_the_page_says(ada) -> None:
    strands, openai = code(OfflineStrandsModel()), code(OfflineOpenAIModel())
    say_to_openai = async_to_sync(openai.say_to_openai)
    request = request_of(ada, "Hello")
    strands.say_to_strands(request, "of strands")
    say_to_openai(request, "of openai")

    with pytest.raises(ConfigurationError):
        strands.say_to_strands(request, "of openai")
    with pytest.raises(ConfigurationError):
        say_to_openai(request, "of strands")


def test_what_is_taken_back_is_not_known_to_the_next_agent(ada) -> None:
    page = code(OfflineStrandsModel())
    page.say_to_strands(request_of(ada, "My card is 4111 1111 1111 1111."), "talk")
    page.take_back(ada, "talk", "4111 1111 1111 1111")

    assert page.history(ada, "talk")[0][2]["content"] == [{"text": "My card is [REDACTED]."}]
    answer = page.say_to_strands(request_of(ada, "Do you have my card number?"), "talk")
    assert answer.content == b"No, our conversation holds no card number.\n"
    event = AuditEvent.objects.get(action="redacted")
    assert (event.actor_id, event.reason) == (str(ada.pk), "Requested by the user")


# Each of these is written otherwise in JSON, and most in Python's repr.
@pytest.mark.parametrize("secret", ['say "friend"', "C:\\keys\\ada", "two\nlines", "it's ü\t\\n\""])
def test_what_is_taken_back_is_out_of_the_results_of_tools_too(ada, secret) -> None:
    def lookup() -> dict[str, str]:
        """Looks it up."""
        return {"note": f"It is {secret}!"}

    def lookup_text() -> str:
        """Looks it up."""
        return f"It is {secret}!"

    openai: agents.Agent[Any] = agents.Agent(
        name="assistant",
        model=openai_script.ScriptedModel(
            [openai_script.call("lookup"), openai_script.call("lookup_text"), f"{secret}!"]
        ),
        tools=[agents.function_tool(lookup), agents.function_tool(lookup_text)],
    )
    run = async_to_sync(agents.Runner.run)
    run(openai, "Look it up", session=DjangoSession("openai", owner=ada))
    strands.Agent(
        strands_script.ScriptedModel(
            [strands_script.call("lookup"), strands_script.call("lookup_text"), f"{secret}!"]
        ),
        tools=[strands.tool(lookup), strands.tool(lookup_text)],
        session_manager=DjangoSessionManager("strands", owner=ada),
        callback_handler=None,
    )("Look it up")
    page = code(OfflineStrandsModel())

    for session_id in ("openai", "strands"):
        assert page.take_back(ada, session_id, secret).messages == 3
        assert page.take_back(ada, session_id, secret).hits == []
        said = list(strings([message for *_, message in page.history(ada, session_id)]))
        assert sum("[REDACTED]" in text for text in said) == 3
        # As it was said, and as JSON and Python's repr have it.
        for form in (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]):
            assert [text for text in said if form in text] == []


def strings(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings(list(value.values()))
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def test_the_example_has_the_options_for_sqlite_that_the_settings_page_recommends() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    settings = next(block for block in blocks if "transaction_mode" in block)
    recommended: dict[str, Any] = {"BASE_DIR": ROOT}
    exec(settings, recommended)  # noqa: S102 - our own page
    options = recommended["DATABASES"]["default"]["OPTIONS"]
    assert options == example.DATABASES["default"]["OPTIONS"]
