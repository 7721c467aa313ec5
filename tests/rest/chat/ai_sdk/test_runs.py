"""Answers outlive their readers: left, joined again, repeated, stopped, bounded."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Branch, Session, SessionMessage

from .clients import body, chunks, parts, until

BOTH = ["strands", "openai"]


@pytest.fixture
def name():
    return uuid4().hex


def transcript(browser, api, chat="c-1"):
    return [message["parts"] for message in browser.messages(api, chat)]


def joined(browser, api, chat="c-1"):
    """What somebody gets who joins an answer while it is given."""
    return chunks(browser.http.get(f"{api}/{chat}/stream").text)


@pytest.mark.parametrize("api", BOTH)
def test_a_client_that_leaves_does_not_stop_the_answer(browser, gate, name, api):
    with browser.asking(api, "c-1", f"wait {name}") as lines:
        until(lines, "One")
    gate.reached(name)
    reader = Joining(browser, api)
    gate.open(name)

    assert parts(reader.answer())[1]["text"] == "One two."
    assert transcript(browser, api)[1][1]["text"] == "One two."
    assert browser.http.get(f"{api}/c-1/stream").status_code == 204


class Joining(threading.Thread):
    """Somebody who joins an answer, and has its first chunks when this is made."""

    def __init__(self, browser, api) -> None:
        super().__init__()
        self._request = browser.http.stream("GET", f"{api}/c-1/stream")
        response = self._request.__enter__()
        assert response.status_code == 200
        assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
        self._lines = response.iter_lines()
        self._found = ""
        self.start()

    def run(self) -> None:
        self._found = "\n".join(self._lines)

    def answer(self):
        self.join(30)
        self._request.__exit__(None, None, None)
        return chunks(self._found)


def test_a_fresh_answer_is_rated_by_the_id_of_the_last_message(browser):
    browser.ask("api/support", "c-1", "Hello")
    answer = browser.ask("api/support", "c-1", "weather Rome")
    url = "api/agent-sessions/messages/{}/feedback/"
    last = browser.messages("api/support", "c-1", limit=1)[-1]
    assert last["role"] == "assistant"
    for key, status in ((last["id"], 200), (answer[0]["messageId"], 404)):
        assert browser.http.put(url.format(key), json={"value": 1}).status_code == status


def test_nothing_is_resumed_where_nothing_is_said(browser):
    browser.ask("strands", "c-1", "Hello")
    assert browser.http.get("strands/c-1/stream").status_code == 204


@pytest.mark.parametrize("api", BOTH)
def test_the_messages_leave_out_what_resuming_gives(browser, gate, name, api):
    browser.ask(api, "c-1", "Hello")
    with browser.asking(api, "c-1", f"wait {name}") as lines:
        until(lines, "One")
        gate.reached(name)
        roles = [message["role"] for message in browser.messages(api, "c-1")]
        assert roles == ["user", "assistant", "user"]
        gate.open(name)
        list(lines)
    assert len(browser.messages(api, "c-1")) == 4


def test_a_message_that_is_sent_again_is_answered_once(browser, gate, name):
    again = body("c-1", f"wait {name}", key="m-1")
    with browser.asking("strands", "c-1", f"wait {name}", key="m-1") as lines:
        until(lines, "One")
        with browser.http.stream("POST", "strands", json=again) as repeated:
            assert repeated.status_code == 200
            gate.open(name)
            found = chunks("\n".join(repeated.iter_lines()))
        list(lines)
    assert parts(found)[1]["text"] == "One two."
    # And once more, when it is over.
    assert chunks(browser.http.post("strands", json=again).text) == found
    assert SessionMessage.objects.filter(role="user").count() == 1


def test_a_session_answers_one_message_at_a_time(browser, gate, name):
    with browser.asking("strands", "c-1", f"wait {name}") as lines:
        until(lines, "One")
        refused = browser.post("strands", "c-1", "And this?")
        assert refused.status_code == 409
        assert "stop it" in refused.json()["message"]
        # Another session does.
        assert browser.ask("strands", "c-2", "Hello")[-1]["type"] == "finish"
        gate.open(name)
        list(lines)
    assert SessionMessage.objects.filter(text="And this?").count() == 0


@pytest.mark.parametrize("order", ["wait", "slow-tool"])
@pytest.mark.parametrize("api", BOTH)
def test_an_answer_is_stopped_and_the_conversation_goes_on(browser, gate, name, api, order):
    with browser.asking(api, "c-1", f"{order} {name}") as lines:
        gate.reached(name)
        assert browser.http.post(f"{api}/c-1/stop").status_code == 204
        answer = chunks("\n".join(lines))
    assert answer[-1] == {"type": "abort"}

    told = parts(browser.ask(api, "c-1", "recall"))[1]["text"]
    assert json.loads(told.removeprefix("I was told: "))[-1] == "recall"
    asked = [message for message in browser.messages(api, "c-1") if message["role"] == "user"]
    assert asked[-1]["parts"][0]["text"] == "recall"
    # Whoever stops what is over is not told that it failed.
    assert browser.http.post(f"{api}/c-1/stop").status_code == 204


@pytest.mark.parametrize("api", ["api/support", "api/research"])
def test_an_agent_that_is_speaking_stops_by_itself(browser, api):
    with browser.asking(api, "c-1", "drip") as lines:
        until(lines, "Drip")
        assert browser.http.post(f"{api}/c-1/stop").status_code == 204
        answer = chunks("\n".join(lines))
    assert answer[-1] == {"type": "abort"}
    told = parts(browser.ask(api, "c-1", "recall"))[1]["text"]
    # What the framework keeps of an answer that was stopped.
    kept = ["Cancelled by user"] if api == "api/support" else []
    assert json.loads(told.removeprefix("I was told: ")) == ["drip", *kept, "recall"]


def test_an_answer_of_another_process_is_stopped_too(browser, gate, name, beside):
    other = f"{beside().url}/strands"
    with browser.asking("strands", "c-1", f"wait {name}", key="m-1") as lines:
        gate.reached(name)
        assert browser.http.get(f"{other}/c-1/stream").status_code == 204
        again = browser.http.post(other, json=body("c-1", f"wait {name}", key="m-1"))
        assert again.status_code == 409
        assert "is being answered" in again.json()["message"]
        busy = browser.post(other, "c-1", "And this?")
        assert busy.status_code == 409
        assert "another message" in busy.json()["message"]
        assert browser.http.post(f"{other}/c-1/stop").status_code == 202
        assert chunks("\n".join(lines))[-1] == {"type": "abort"}
    assert browser.ask(other, "c-1", "Hello")[-1]["type"] == "finish"


def test_an_answer_that_takes_too_long_is_stopped(browser, name):
    answer = browser.ask("hurried", "c-1", f"wait {name}")
    assert answer[-1]["type"] == "error"
    assert "too long" in answer[-1]["errorText"]


def test_a_user_has_so_many_answers_at_once(browser, gate, name):
    with browser.asking("bounded", "c-1", f"wait {name}") as lines:
        until(lines, "One")
        refused = browser.post("bounded", "c-2", "Hello")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "5"
        gate.open(name)
        list(lines)
    assert browser.ask("bounded", "c-2", "Hello")[-1]["type"] == "finish"


def test_an_answer_that_outgrows_the_buffer_is_read_to_its_end_by_who_keeps_up(browser):
    answer = browser.ask("bounded", "c-1", "long 300")
    assert len(parts(answer)[1]["text"]) == 300_000
    assert transcript(browser, "bounded")[1] == parts(answer)


def test_a_regeneration_is_refused_with_a_reason(browser):
    browser.ask("strands", "c-1", "Hello")
    refused = browser.http.post(
        "strands", json={"id": "c-1", "messages": [], "trigger": "regenerate-message"}
    )
    assert refused.status_code == 409
    assert "Send the message again" in refused.json()["message"]
    assert Session.objects.count() == 1


REGENERATE = {"id": "c-1", "messages": [], "trigger": "regenerate-message"}


@pytest.mark.parametrize("order", ["weather Rome", "Hello"])
@pytest.mark.parametrize("api", ["again/support", "again/research"])
def test_the_recipe_answers_again_and_keeps_the_former_answer(browser, stranger, api, order):
    browser.ask(api, "c-1", "First", key="m-1")
    former = parts(browser.ask(api, "c-1", order, key="m-2"))

    for _ in range(2):
        again = browser.http.post(api, json=REGENERATE)
        assert again.status_code == 200
        kinds = [part["type"] for part in parts(chunks(again.text))]
        assert kinds == [part["type"] for part in former]

    shown = browser.messages(api, "c-1")
    assert [message["role"] for message in shown] == ["user", "assistant"] * 2
    assert [message["parts"][0].get("text") for message in shown[::2]] == ["First", order]
    rows = SessionMessage.objects.filter(branch=0, text=order)
    assert [row.external_id for row in rows] == ["m-2"]
    assert Branch.objects.count() == 2
    assert browser.ask(api, "c-1", "recall", key="m-3")[-1]["type"] == "finish"
    assert stranger.http.post(api, json=REGENERATE).status_code == 404
    assert browser.http.post(api, json={**REGENERATE, "id": "c-2"}).status_code == 404
    assert Session.objects.count() == 1


@pytest.mark.parametrize("api", ["again/support", "again/research"])
def test_the_recipe_answers_a_message_that_failed_and_waits_for_a_running_answer(
    browser, gate, name, api
):
    browser.ask(api, "c-1", "fail-at-once Ada", key="m-1")
    assert chunks(browser.http.post(api, json=REGENERATE).text)[-1]["type"] == "error"
    assert not Branch.objects.exists()
    with browser.asking(api, "c-1", f"wait {name}", key="m-2") as lines:
        until(lines, "One")
        assert browser.http.post(api, json=REGENERATE).status_code == 409
        gate.open(name)
        assert "[DONE]" in "".join(lines)
    assert chunks(browser.http.post(api, json=REGENERATE).text)[-1]["type"] == "finish"


def test_two_requests_with_one_message_at_one_moment_are_answered_once(browser):
    again = body("c-1", "Hello", key="m-1")
    browser.ask("strands", "c-1", "First")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: browser.http.post("strands", json=again), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert SessionMessage.objects.filter(text="Hello").count() == 1


@pytest.mark.parametrize("api", BOTH)
@pytest.mark.parametrize("named", ["", "question", "answer"])
@pytest.mark.parametrize("order", ["fail-at-once Ada", "fail Ada"])
def test_a_message_whose_answer_failed_is_sent_again_and_stored_once(browser, api, named, order):
    failing = body("c-1", order, key="m-1")
    answer = chunks(browser.http.post(api, json=failing).text)
    again = dict(failing)
    if named == "question":
        again["messageId"] = "m-1"
    if named == "answer":
        # What useChat has of the answer that failed.
        partial = {"id": answer[0]["messageId"], "role": "assistant", "parts": []}
        again |= {"messages": [*failing["messages"], partial], "messageId": partial["id"]}
    second = chunks(browser.http.post(api, json=again).text)
    assert answer[-1]["type"] == second[-1]["type"] == "error"
    assert answer[0]["messageId"] != second[0]["messageId"]
    assert [row.text for row in SessionMessage.objects.filter(role="user")] == [order]


def test_a_message_that_never_arrived_may_be_sent_again(browser):
    answer = browser.ask("strands", "c-1", "Hello", key="m-1", messageId="m-1")
    assert parts(answer)[1]["text"] == "You said: Hello"


@pytest.mark.parametrize("api", BOTH)
def test_a_failed_message_that_was_loaded_is_sent_again_and_stored_once(browser, api):
    browser.ask(api, "c-1", "fail-at-once Ada")
    (loaded,) = browser.messages(api, "c-1")
    key = loaded["id"]
    refused = browser.post(api, "c-1", "fail-at-once Bob", key=key, messageId=key)
    assert refused.status_code == 409
    assert "cannot be edited" in refused.json()["message"]
    again = browser.ask(api, "c-1", "fail-at-once Ada", key=key, messageId=key)
    assert again[-1]["type"] == "error"
    assert SessionMessage.objects.filter(role="user").count() == 1


def test_a_message_that_has_its_answer_is_neither_edited_nor_answered_again(browser):
    answer = browser.ask("strands", "c-1", "Hello", key="m-1")
    asked, _answered = browser.messages("strands", "c-1")
    edited = browser.post("strands", "c-1", "Goodbye", key="m-1", messageId="m-1")
    loaded = browser.post("strands", "c-1", "Hello", key=asked["id"], messageId=asked["id"])
    unknown = browser.post("strands", "c-1", "Hello", key="m-2", messageId="m-9")
    assert {edited.status_code, loaded.status_code, unknown.status_code} == {409}
    # The same again is replayed.
    assert browser.ask("strands", "c-1", "Hello", key="m-1", messageId="m-1") == answer
    assert SessionMessage.objects.count() == 2


def test_who_has_no_answer_yet_can_resume_it_when_it_is_over(browser, gate, name):
    with browser.asking("strands", "c-1", f"wait {name}") as lines:
        until(lines, "One")
        assert len(browser.messages("strands", "c-1")) == 1
        gate.open(name)
        list(lines)
    # Somebody else's look at the messages changes nothing.
    assert len(browser.messages("strands", "c-1")) == 2
    resumed = browser.http.get("strands/c-1/stream?unanswered=true")
    assert parts(chunks(resumed.text))[1]["text"] == "One two."
    # Under the id that it has for who has loaded it after all.
    loaded = browser.messages("strands", "c-1")[1]
    assert chunks(resumed.text)[0] == {"type": "start", "messageId": loaded["id"]}
    # Who does not say so has it.
    assert browser.http.get("strands/c-1/stream").status_code == 204


@pytest.mark.parametrize("api", BOTH)
def test_an_answer_of_a_session_that_is_deleted_ends_and_makes_it_not_anew(
    browser, gate, name, api
):
    with browser.asking(api, "c-1", f"wait {name}") as lines:
        until(lines, "One")
        gate.reached(name)
        key = Session.objects.get().pk
        assert browser.http.delete(f"api/agent-sessions/sessions/{key}/").status_code == 204
        assert chunks("\n".join(lines))[-1]["errorText"] == "The conversation was deleted."
    gate.open(name)
    assert browser.ask(api, "c-2", "Hello")[-1]["type"] == "finish"
    assert [session.external_id for session in Session.objects.all()] == ["c-2"]


def test_an_answer_finds_out_that_another_process_deleted_its_session(browser, gate, name):
    with browser.asking("openai", "c-1", f"slow-tool {name}") as lines:
        gate.reached(name)
        Session.objects.get().delete()
        assert chunks("\n".join(lines))[-1]["errorText"] == "The conversation was deleted."
    assert not Session.objects.exists()


def test_a_tool_that_blocks_its_thread_keeps_nobody_else_waiting(browser, gate, name):
    with browser.asking("blocking", "c-1", name) as lines:
        until(lines, "begin")
        gate.reached(name)
        assert browser.http.post("blocking/c-1/stop").status_code == 204
        assert chunks("\n".join(lines))[-1] == {"type": "abort"}
        # The thread still waits there.
        assert browser.ask("strands", "c-1", "Hello")[-1]["type"] == "finish"
    gate.open(name)


def test_an_agent_that_does_not_stop_is_left_alone(browser, gate, name):
    with browser.asking("stubborn", "c-1", name) as lines:
        until(lines, "begin")
        gate.reached(name)
        assert browser.http.post("stubborn/c-1/stop").status_code == 204
        assert chunks("\n".join(lines))[-1] == {"type": "abort"}
        assert browser.ask("strands", "c-1", "Hello")[-1]["type"] == "finish"
        gate.open(name)
    assert browser.ask("strands", "c-1", "And now?")[-1]["type"] == "finish"


def test_an_answer_that_was_redacted_is_not_given_again(browser, ada):
    browser.ask("strands", "c-1", "My card is 4111", key="m-1")
    redact(Session.objects.get().pk, Find("4111"), actor=ada, reason="a card")

    again = browser.post("strands", "c-1", "My card is 4111", key="m-1")
    assert again.status_code == 409
    assert "Read the messages" in again.json()["message"]
    assert browser.http.get("strands/c-1/stream?unanswered=true").status_code == 204


@pytest.mark.parametrize("over", [False, True])
def test_another_message_of_the_same_id_is_refused(browser, beside, gate, name, over):
    for place in ("strands", f"{beside().url}/strands"):
        chat = uuid4().hex
        with browser.asking("strands", chat, f"wait {name}", key="m-1") as lines:
            until(lines, "One")
            if over:
                gate.open(name)
                list(lines)
            refused = browser.post(place, chat, "Something else", key="m-1")
            assert refused.status_code == 409
            assert "new id" in refused.json()["message"]
            gate.open(name)
            list(lines)


def test_every_process_leaves_out_what_is_being_said(browser, beside, gate, name):
    browser.ask("strands", "c-1", "Hello")
    with browser.asking("strands", "c-1", f"slow-tool {name}") as lines:
        gate.reached(name)
        for place in ("strands", f"{beside().url}/strands"):
            roles = [message["role"] for message in browser.messages(place, "c-1")]
            assert roles == ["user", "assistant", "user"]
        gate.open(name)
        list(lines)
    assert len(browser.messages(f"{beside().url}/strands", "c-1")) == 4


def test_a_chat_that_is_not_accepted_is_refused_before_it_streams(browser):
    refused = browser.post("closed", "c-1", "Hello")
    assert refused.status_code == 409
    assert refused.json()["message"] == "Nobody answers here."
    assert not SessionMessage.objects.exists()


def test_a_client_may_ask_for_a_stream_alone(browser, gate, name):
    alone = {"Accept": "text/event-stream"}
    answer = browser.http.post("strands", json=body("c-1", "Hello"), headers=alone)
    assert chunks(answer.text)[-1]["type"] == "finish"
    assert browser.http.get("strands/c-1/stream", headers=alone).status_code == 204
    refused = browser.http.post("strands", json={}, headers=alone)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"


def test_who_is_refused_for_want_of_room_leaves_no_session_behind(browser, gate, name):
    with browser.asking("bounded", "c-1", f"wait {name}") as lines:
        until(lines, "One")
        assert browser.post("bounded", "c-2", "Hello").status_code == 503
        gate.open(name)
        list(lines)
    assert Session.objects.count() == 1


@pytest.mark.parametrize("api", BOTH)
def test_a_message_whose_process_was_killed_is_sent_again_and_stored_once(
    browser, beside, gate, name, api
):
    again = body("c-1", f"wait {name}", key="m-1")
    other = beside()
    with browser.http.stream("POST", f"{other.url}/{api}", json=again) as answer:
        until(answer.iter_lines(), "One")
    gate.reached(name)
    other.stop()
    gate.open(name)
    answer = chunks(browser.http.post(api, json=again).text)
    assert parts(answer)[1]["text"] == "One two."
    assert SessionMessage.objects.filter(role="user").count() == 1
    assert browser.http.post(f"{beside().url}/{api}", json=again).status_code == 409


def test_a_message_of_which_nothing_was_stored_may_be_sent_again(browser, beside, gate, name):
    again = body("c-1", f"wait {name}", key="m-1")
    other = beside()
    with browser.http.stream("POST", f"{other.url}/openai", json=again) as answer:
        until(answer.iter_lines(), "One")
    gate.reached(name)
    other.stop()
    SessionMessage.objects.all().delete()  # As if it had ended before anything was stored.
    gate.open(name)
    answer = chunks(browser.http.post("openai", json=again).text)
    assert parts(answer)[1]["text"] == "One two."
    # Of this one something was.
    assert browser.http.post(f"{beside().url}/openai", json=again).status_code == 409


def test_a_server_that_shuts_down_ends_its_answers_cleanly(browser, beside, gate, name):
    other = beside()
    with browser.asking(f"{other.url}/strands", "c-1", f"wait {name}") as lines:
        until(lines, "One")
    gate.reached(name)
    log = other.stop()
    assert "Traceback" not in log
    assert "never retrieved" not in log
    # What was said is there, and others may answer at once.
    told = parts(browser.ask("strands", "c-1", "recall"))[1]["text"]
    assert json.loads(told.removeprefix("I was told: "))[0] == f"wait {name}"
