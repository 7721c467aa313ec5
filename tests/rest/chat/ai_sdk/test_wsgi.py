"""Chats under WSGI: a plain stream, in the worker that answers."""

from __future__ import annotations

import pytest
from django.test import Client

from django_agent_sessions.rest.chat.ai_sdk.claims import Claims

from .clients import body, chunks, parts

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.rest.chat.ai_sdk.urls"),
]


@pytest.fixture
def browser(ada, settings):
    from .models import OpenAIModel, StrandsModel

    settings.SUPPORT_MODEL, settings.RESEARCH_MODEL = StrandsModel(), OpenAIModel()
    client = Client()
    client.force_login(ada)
    return client


def ask(browser, api, text, **more):
    answer = browser.post(f"/{api}", body("c-1", text, **more), content_type="application/json")
    assert answer.status_code == 200, answer.content
    return answer


@pytest.mark.parametrize("api", ["api/support", "api/research"])
def test_an_answer_streams_and_is_stored(browser, api):
    streamed = b"".join(ask(browser, api, "weather Paris").streaming_content).decode()

    said = parts(chunks(streamed))
    assert said[-1]["text"] == "I looked: It is sunny in Paris."
    assert browser.get(f"/{api}/c-1/messages").json()[1]["parts"] == said
    assert browser.get(f"/{api}/c-1/stream").status_code == 204


def test_a_client_that_leaves_ends_the_answer(browser):
    answer = ask(browser, "strands", "Hello")
    next(iter(answer.streaming_content))
    answer.close()

    streamed = b"".join(ask(browser, "strands", "recall").streaming_content).decode()
    assert chunks(streamed)[-1]["type"] == "finish"


def test_a_message_that_is_sent_again_is_not_answered_again(browser):
    list(ask(browser, "strands", "Hello", key="m-1").streaming_content)
    again = body("c-1", "Hello", key="m-1")
    refused = browser.post("/strands", again, content_type="application/json")
    assert refused.status_code == 409
    assert "Read the messages" in refused.json()["message"]


def test_a_message_whose_answer_nobody_read_may_be_sent_again(browser):
    ask(browser, "strands", "Hello", key="m-1").close()
    streamed = b"".join(ask(browser, "strands", "Hello", key="m-1").streaming_content).decode()
    assert parts(chunks(streamed))[1]["text"] == "You said: Hello"


def test_a_cache_that_is_down_is_a_problem_without_its_address(browser, monkeypatch, caplog):
    def broken(*args):
        raise ConnectionError("redis://:hunter2@cache is down")

    monkeypatch.setattr(Claims, "_take", broken)
    refused = browser.post("/strands", body("c-1", "Hello"), content_type="application/json")
    assert refused.status_code == 503
    assert "Try again" in refused.json()["message"]
    assert "hunter2" not in refused.content.decode() + caplog.text
