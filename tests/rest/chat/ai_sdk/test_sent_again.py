"""Messages that are sent again when no cache remembers them: they are found by their ids."""

from __future__ import annotations

import base64
import shutil
from typing import Any
from uuid import uuid4

import pytest

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore

from .clients import body, chunks, parts, until

BOTH = ["strands", "openai"]
ALL = [*BOTH, "unaware-strands", "unaware-openai"]


@pytest.fixture
def name():
    return uuid4().hex


@pytest.fixture
def forget(home):
    """Empties the cache that the servers share, as if it were restarted."""
    return lambda: shutil.rmtree(home / "cache", ignore_errors=True)


def questions():
    rows = SessionMessage.objects.filter(role="user").exclude(text="An example").order_by("id")
    return list(rows.values_list("text", "external_id"))


@pytest.mark.parametrize("api", BOTH)
def test_a_message_is_stored_under_the_clients_id_and_nothing_else_is(browser, api):
    browser.ask(api, "c-1", "broken-tool now", key="m-1")
    browser.ask(api, "c-1", "Hello", key="m-2")

    found = SessionMessage.objects.exclude(external_id=None).order_by("id")
    assert list(found.values_list("text", "external_id")) == [
        ("broken-tool now", "m-1"),
        ("Hello", "m-2"),
    ]


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("named", [False, True])
def test_a_failed_message_is_stored_once_though_the_cache_was_lost(browser, forget, api, named):
    failing = body("c-1", "fail-at-once Ada", key="m-1")
    more = {"messageId": "m-1"} if named else {}
    for _ in range(3):
        answer = chunks(browser.http.post(api, json={**failing, **more}).text)
        assert answer[-1]["errorText"].startswith("The assistant could not answer")
        forget()

    assert questions() == [("fail-at-once Ada", "m-1")]


@pytest.mark.parametrize("api", ALL)
def test_a_message_without_answer_gets_it_after_the_cache_was_lost(
    browser, beside, forget, gate, name, api
):
    again = body("c-1", f"wait {name}", key="m-1")
    other = beside()
    with browser.http.stream("POST", f"{other.url}/{api}", json=again) as answer:
        until(answer.iter_lines(), "One")
    gate.reached(name)
    other.stop()
    forget()
    gate.open(name)

    answer = chunks(browser.http.post(api, json=again).text)

    assert parts(answer)[1]["text"] == "One two."
    assert questions() == [(f"wait {name}", "m-1")]
    roles = [message["role"] for message in browser.messages(api, "c-1")]
    assert roles[-2:] == ["user", "assistant"]
    forget()
    refused = browser.http.post(f"{beside().url}/{api}", json=again)
    assert refused.status_code == 409
    assert "sent before" in refused.json()["message"]
    # And the conversation goes on.
    told = parts(browser.ask(api, "c-1", "recall", key="m-2"))[1]["text"]
    assert told.count(name) == 1
    assert [key for _, key in questions()] == ["m-1", "m-2"]


@pytest.mark.parametrize("api", BOTH)
@pytest.mark.parametrize("named", [False, True])
def test_another_text_under_the_id_is_refused_after_the_cache_was_lost(browser, forget, api, named):
    browser.ask(api, "c-1", "fail-at-once Ada", key="m-1")
    forget()

    more = {"messageId": "m-1"} if named else {}
    refused = browser.post(api, "c-1", "fail-at-once Bob", key="m-1", **more)

    assert refused.status_code == 409
    assert ("cannot be edited" if named else "Use a new id") in refused.json()["message"]
    assert questions() == [("fail-at-once Ada", "m-1")]


@pytest.mark.parametrize("api", BOTH)
@pytest.mark.parametrize("kinds", [["pdf"], ["png"], ["pdf", "png"]])
def test_files_without_a_text_are_sent_again_and_stored_once(browser, beside, forget, api, kinds):
    again = {"id": "c-1", "messages": [files(*kinds)], "trigger": "submit-message"}
    assert chunks(browser.http.post(api, json=again).text)[-1]["type"] == "finish"
    # As if the process had been killed before the answer.
    SessionMessage.objects.filter(role="assistant").delete()
    forget()

    named = {**again, "messageId": "m-1"}
    answer = chunks(browser.http.post(f"{beside().url}/{api}", json=named).text)

    assert answer[-1]["type"] == "finish"
    assert [key for _, key in questions()] == ["m-1"]
    SessionMessage.objects.filter(role="assistant").delete()
    forget()
    other = {**again, "messages": [files("png", "png", "png")]}
    assert browser.http.post(f"{beside().url}/{api}", json=other).status_code == 409


def files(*kinds):
    data = {"pdf": ("application/pdf", b"%PDF-"), "png": ("image/png", b"\x89PNG\r\n\x1a\n")}
    sent = []
    for kind in kinds:
        media_type, content = data[kind]
        url = f"data:{media_type};base64,{base64.b64encode(content).decode()}"
        sent.append({"type": "file", "mediaType": media_type, "filename": f"a.{kind}", "url": url})
    return {"id": "m-1", "role": "user", "parts": sent}


@pytest.mark.parametrize("api", ALL)
def test_a_redacted_message_is_sent_again_and_stays_redacted(browser, forget, api, ada):
    browser.ask(api, "c-1", "fail-at-once 4111", key="m-1")
    session = Session.objects.get()
    redact(session, Find("4111"), actor=ada, reason="asked")
    forget()

    answer = browser.ask(api, "c-1", "fail-at-once 4111", key="m-1", messageId="m-1")

    assert answer[-1]["type"] == "error"
    ((text, key),) = questions()
    assert key == "m-1"
    assert "4111" not in text


@pytest.mark.parametrize("api", ALL)
def test_a_message_that_is_masked_when_it_is_written_is_stored_once(browser, forget, api):
    for _ in range(2):
        answer = browser.ask(api, "c-1", "fail-at-once 4111 1111 1111 1111", key="m-1")
        assert answer[-1]["type"] == "error"
        forget()

    assert questions() == [("fail-at-once [REDACTED:CARD]", "m-1")]


@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("keeps_answer", [True, False])
def test_a_message_that_a_compaction_replaced_is_not_stored_again(
    browser, beside, forget, api, ada, keeps_answer
):
    browser.ask(api, "c-1", "Hello", key="m-1")
    browser.ask(api, "c-1", "And now?", key="m-2")
    row = SessionAgent.objects.get()
    keys = list(
        SessionMessage.objects.filter(branch=0).order_by("message_id").values_list("pk", flat=True)
    )
    if not keeps_answer:
        # As if the process had been killed before it.
        SessionMessage.objects.filter(pk=keys.pop()).delete()
    store = SessionStore(owner=ada)
    agent = store.agents.find(store.get(row.session.session_id), row.agent_id)
    assert agent is not None
    text: Any = [{"text": "in short"}] if "strands" in api else "in short"
    summary = {"role": "user", "content": text}
    store.branches.compact(agent, [summary], keys, epoch=row.session.redaction_epoch)
    forget()

    again = browser.http.post(f"{beside().url}/{api}", json=body("c-1", "And now?", key="m-2"))

    assert again.status_code == (409 if keeps_answer else 200)
    assert [key for _, key in questions() if key] == ["m-1", "m-2"]
    assert SessionMessage.objects.filter(text="And now?").count() == 1
    if not keeps_answer:
        assert parts(chunks(again.text))[1]["text"].startswith("You said")


@pytest.mark.parametrize("place", ["here", "beside", "lost"])
@pytest.mark.parametrize("api", BOTH)
def test_who_sends_a_message_without_answer_again_is_told_that_it_has_none(
    browser, beside, forget, ada, api, place
):
    """Its process was killed, and the next message was answered."""
    browser.ask(api, "c-1", "fail-at-once Ada", key="m-1")
    browser.ask(api, "c-1", "Hello", key="m-2")
    if place == "lost":
        forget()

    url = api if place == "here" else f"{beside().url}/{api}"
    refused = browser.post(url, "c-1", "fail-at-once Ada", key="m-1")
    answered = browser.post(f"{beside().url}/{api}", "c-1", "Hello", key="m-2")

    assert refused.status_code == answered.status_code == 409
    assert "no answer" in refused.json()["message"]
    assert "Read the messages" in answered.json()["message"]
    assert browser.ask(api, "c-1", "Hello again", key="m-3")[-1]["type"] == "finish"


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("place", ["here", "beside"])
@pytest.mark.parametrize("api", ["strands", "openai", "unaware-openai"])
def test_who_sends_a_message_again_that_a_rewind_removed_is_told_so(
    browser, beside, ada, api, place, goes_on
):
    browser.ask(api, "c-1", "Hello", key="m-1")
    browser.ask(api, "c-1", "And now?", key="m-2")
    row = SessionAgent.objects.get()
    store = SessionStore(owner=ada)
    agent = store.agents.find(store.get(row.session.session_id), row.agent_id)
    assert agent is not None
    store.branches.rewind(agent, 1)
    if goes_on:
        browser.ask(api, "c-1", "Instead", key="m-3")

    url = api if place == "here" else f"{beside().url}/{api}"
    refused = browser.post(url, "c-1", "And now?", key="m-2")

    assert refused.status_code == 409
    assert "no answer" in refused.json()["message"]
    assert browser.ask(api, "c-1", "And now?", key="m-4")[-1]["type"] == "finish"


def test_who_sends_a_stopped_message_again_is_told_that_it_has_no_answer(
    browser, beside, gate, name
):
    with browser.asking("openai", "c-1", f"wait {name}", key="m-1") as lines:
        gate.reached(name)
        assert browser.http.post("openai/c-1/stop").status_code == 204
        assert chunks("\n".join(lines))[-1] == {"type": "abort"}

    refused = browser.post(f"{beside().url}/openai", "c-1", f"wait {name}", key="m-1")

    assert refused.status_code == 409
    assert "no answer" in refused.json()["message"]


@pytest.mark.parametrize("api", BOTH)
def test_the_id_of_a_message_belongs_to_one_chat(browser, forget, api):
    for chat in ("c-1", "c-2"):
        browser.ask(api, chat, "Hello", key="m-1")

    assert questions() == [("Hello", "m-1")] * 2


@pytest.mark.parametrize("api", BOTH)
def test_a_loaded_message_keeps_its_clients_id_when_it_is_sent_again(browser, forget, api):
    browser.ask(api, "c-1", "fail-at-once Ada", key="m-1")
    (loaded,) = browser.messages(api, "c-1")
    forget()

    browser.ask(api, "c-1", "fail-at-once Ada", key=loaded["id"], messageId=loaded["id"])
    forget()
    browser.ask(api, "c-1", "fail-at-once Ada", key="m-1")

    assert questions() == [("fail-at-once Ada", "m-1")]


def test_a_conversation_of_a_model_with_another_agent_names_the_users_message_only(browser, forget):
    browser.ask("team", "c-1", "Hello", key="m-1")

    found = SessionMessage.objects.exclude(external_id=None)
    assert list(found.values_list("agent__agent_id", "text")) == [("default", "Hello")]
