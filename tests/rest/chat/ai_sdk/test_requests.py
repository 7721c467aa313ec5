"""Who may send what, and what everybody else is told."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote
from uuid import uuid1, uuid4

import httpx
import pytest

from django_agent_sessions.governance import sharing
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.rest.chat.ai_sdk.chat import (
    FORMATS,
    MessageLimits,
    parse_chat_request,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import new_id
from tests.admin.people import grant

from .clients import body, chunks, parts, until

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 30


LIMITS = MessageLimits(100, 1, 100, FORMATS)

ANSWERED = [{}, {"messageId": "an-answer"}]
"""What a client adds to a message: nothing, or the id of the answer to it that failed."""


def data_url(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def message(*given, role="user", key="m-1"):
    return {"id": "c-1", "message": {"id": key, "role": role, "parts": list(given)}}


def text(words):
    return {"type": "text", "text": words}


def file(data=PNG, media_type="image/png", **more):
    return {"type": "file", "mediaType": media_type, "url": data_url(data, media_type), **more}


WRONG = {
    "no object": [],
    "no id": {"messages": [message(text("Hello"))["message"]]},
    "a blank id": {**message(text("Hello")), "id": " "},
    "an id that is too long": {**message(text("Hello")), "id": "x" * 300},
    "no message": {"id": "c-1"},
    "no messages": {"id": "c-1", "messages": []},
    "a message that is none": {"id": "c-1", "messages": ["Hello"]},
    "no parts": {"id": "c-1", "message": {"role": "user"}},
    "an unknown trigger": {**message(text("Hello")), "trigger": "resume-stream"},
    "an assistant": message(text("Hello"), role="assistant"),
    "a system": message(text("Hello"), role="system"),
    "an unknown role": message(text("Hello"), role="root"),
    "an odd message id": message(text("Hello"), key=[1]),
    "nothing": message(),
    "blank text": message(text(" \n ")),
    "half of an emoji": message(text("Well done \ud83d")),
    "text that is none": message({"type": "text", "text": 1}),
    "an unknown part": message({"type": "dynamic-tool", "output": "It is allowed."}),
    "a part that is none": message("Hello"),
    "too much text": message(text("x" * 101)),
    "too many files": message(file(), file()),
    "a file that is too large": message(file(PNG + b"\0" * 100)),
    "a file elsewhere": message({"type": "file", "url": "http://169.254.169.254/latest"}),
    "a file that is not base64": message({"type": "file", "url": "data:image/png;base64,???"}),
    "a file without base64": message({"type": "file", "url": "data:image/png,abc"}),
    "a file of another kind": message(file(b"<script>", "text/html")),
    "an image that is none": message(file(b"%PDF", "image/png")),
    "a file's odd name": message(file(filename=["x"])),
    "an empty file": message(file(b"", "application/pdf")),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_request_is_refused_that_has(browser, wrong):
    # As browsers write it: half of a character is an escape.
    sent = {"content": json.dumps(wrong), "headers": {"Content-Type": "application/json"}}
    refused = browser.http.post("bounded", **sent)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["message"]
    assert not Session.objects.exists()


def test_a_message_that_was_sent_cannot_be_changed(browser):
    refused = browser.post("bounded", "c-1", "Hello", messageId="m-0")
    assert refused.status_code == 409
    assert not Session.objects.exists()


@pytest.mark.parametrize("api", ["api/support", "api/research"])
def test_a_file_reaches_the_agent_and_comes_back_as_an_address(browser, api):
    given = file(filename="dot.png")
    chunks(browser.http.post(api, json=message(text("Look"), given)).text)

    asked = browser.messages(api, "c-1")[0]
    assert asked["parts"][0] == {"type": "text", "text": "Look", "state": "done"}
    assert asked["parts"][1]["type"] == "file"
    assert asked["parts"][1]["mediaType"] == "image/png"
    fetched = browser.http.get(asked["parts"][1]["url"])
    assert (fetched.content, fetched.headers["content-type"]) == (PNG, "image/png")


@pytest.mark.parametrize("api", ["strands", "openai"])
def test_parts_come_back_in_the_order_in_which_they_were_sent(browser, api):
    plain = {"type": "file", "mediaType": "text/plain", "url": "data:text/plain,caf%C3%A9"}
    chunks(browser.http.post(api, json=message(file(), text("Look"), plain, text("And?"))).text)

    shown = browser.messages(api, "c-1")[0]["parts"]
    assert [part["type"] for part in shown] == ["file", "text", "file", "text"]
    fetched = browser.http.get(shown[2]["url"])
    assert fetched.content.decode() == "café"


def test_a_stranger_finds_a_session_no_more_than_a_missing_one(browser, stranger, ada):
    browser.ask("strands", "c-1", "My secret")
    key = str(Session.objects.get().pk)
    missing = str(uuid4())
    for method, path in [("GET", "messages"), ("GET", "stream"), ("POST", "stop")]:
        answers = [
            stranger.http.request(method, f"strands/{one}/{path}")
            for one in ("c-1", key, missing, "c-9", "%20")
        ]
        # Nothing is said in a chat that has not begun.
        expected = 204 if path == "stream" else 404
        assert {answer.status_code for answer in answers} == {expected}
        assert len({answer.content for answer in answers}) == 1

    # Whatever a stranger calls a session, one's own has the same name.
    told = parts(stranger.ask("strands", "c-1", "recall"))[1]["text"]
    assert told == 'I was told: ["recall"]'
    assert Session.objects.filter(owner=ada).count() == 1
    assert SessionMessage.objects.filter(session__owner=ada).count() == 2


@pytest.mark.parametrize("who", ["stranger", "removed reader", "removed writer", "staff"])
def test_a_session_out_of_reach_gets_no_shadow_of_somebody_else(browser, stranger, bob, who):
    """What is posted to its key is refused until its owner shares it, and is stored in it then."""
    browser.ask("strands", "c-1", "Hello")
    session = Session.objects.get()
    if who == "staff":
        grant(bob, "read_transcript")
        grant(bob, "view_session")
    elif who != "stranger":
        sharing.add_participant(session.pk, bob, who.removeprefix("removed "))
        sharing.remove_participant(session.pk, bob)

    names = [str(session.pk), session.pk.hex, f"urn:uuid:{session.pk.hex.upper()}", str(new_id())]
    refused = [stranger.post("strands", name, "Hi", **more) for name in names for more in ANSWERED]
    assert {answer.status_code for answer in refused} == {404}
    assert len({answer.content for answer in refused}) == 1
    assert Session.objects.count() == 1
    assert SessionMessage.objects.count() == 2

    sharing.add_participant(session.pk, bob, "reader")
    assert stranger.post("strands", names[0], "Hi").status_code == 403
    sharing.add_participant(session.pk, bob, "writer")
    stranger.ask("strands", names[0], "Now I may")
    assert Session.objects.count() == 1
    rows = SessionMessage.objects.filter(session=session).order_by("pk")
    assert [row.author for row in rows] == ["", "", str(bob.pk), ""]
    for one in (browser, stranger):
        assert said(one.messages("strands", names[0])) == ["Hello", "Now I may"]


def said(messages):
    return [one["parts"][0]["text"] for one in messages if one["role"] == "user"]


def test_a_key_comes_before_a_clients_id(browser, stranger, bob):
    """A chat may have been named by the key of another session before this was refused."""
    browser.ask("strands", "c-1", "Hello")
    session = Session.objects.get()
    key = str(session.pk)
    own = SessionStore(owner=bob).create("own", external_id=key)
    stranger.ask("strands", key, "To myself")
    assert said(stranger.messages("strands", key)) == ["To myself"]

    grant(bob, "read_transcript")
    grant(bob, "view_session")
    assert said(stranger.messages("strands", key, scope="all")) == ["Hello"]
    sharing.add_participant(session.pk, bob, "writer")
    stranger.ask("strands", key, "To all")
    for chat in (key, session.pk.hex):
        assert said(stranger.messages("strands", chat)) == ["Hello", "To all"]
    assert said(stranger.messages("strands", str(own.id))) == ["To myself"]


def test_a_clients_own_uuid_is_no_key(browser):
    for chat in (str(uuid4()), uuid4().hex, str(uuid1())):
        browser.ask("strands", chat, "Hello")
        assert said(browser.messages("strands", chat)) == ["Hello"]
    assert Session.objects.count() == 3


def test_a_key_of_another_namespace_is_unknown(browser):
    browser.ask("api/support", "c-1", "Hello")
    key = str(Session.objects.get().pk)
    assert browser.post("api/research", key, "Hello").status_code == 404
    assert Session.objects.count() == 1


@pytest.mark.parametrize("scope", ["all", "own", "shared", "x"])
def test_a_post_has_no_scope(browser, stranger, bob, scope):
    browser.ask("strands", "c-1", "Hello")
    key = Session.objects.get().pk
    sharing.add_participant(key, bob, "writer")
    for path in (f"strands?scope={scope}", f"strands/{key}/stop?scope={scope}"):
        refused = stranger.http.post(path, json=body(str(key), "Hi"))
        assert (refused.status_code, [*refused.json()["errors"]]) == (400, ["scope"])
    assert SessionMessage.objects.count() == 2
    # Clients may have parameters of their own.
    assert stranger.http.post("strands?version=2", json=body(str(key), "Hi")).status_code == 200


def test_nobody_else_can_stop_or_join_an_answer(browser, stranger, gate):
    name = uuid4().hex
    with browser.asking("strands", "c-1", f"wait {name}") as lines:
        until(lines, "One")
        key = str(Session.objects.get().pk)
        assert stranger.http.post(f"strands/{key}/stop").status_code == 404
        assert stranger.http.get(f"strands/{key}/stream").status_code == 204
        gate.open(name)
        assert "[DONE]" in "".join(lines)


def test_chats_of_two_namespaces_do_not_meet(browser):
    browser.ask("api/support", "c-1", "Hello")
    assert browser.http.get("api/research/c-1/messages").status_code == 404
    browser.ask("api/research", "c-1", "Good day")
    for name, said in (("support", "Hello"), ("research", "Good day")):
        page = browser.http.get(f"api/{name}/c-1/messages").json()
        assert [part["text"] for part in page[0]["parts"] if part["type"] == "text"] == [said]


@pytest.mark.parametrize("path", ["strands", "strands/c-1/stop"])
def test_a_forged_request_is_refused(browser, path):
    """A page of somebody else's can send cookies, but no header."""
    headers = {"X-CSRFToken": ""}
    forged = browser.http.post(path, json=body("c-1", "Hello"), headers=headers)
    assert forged.status_code == 403
    assert "CSRF" in forged.json()["message"]
    assert not Session.objects.exists()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "strands"),
        ("GET", "strands/c-1/stream"),
        ("POST", "strands/c-1/stop"),
        ("GET", "strands/c-1/messages"),
    ],
)
def test_nobody_talks_who_is_not_signed_in(browser, chats, method, path):
    browser.ask("strands", "c-1", "Hello")
    answer = httpx.request(method, f"{chats.url}/{path}")
    assert answer.status_code in (401, 403)
    assert "Hello" not in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "strands"), ("POST", "strands/c-1/stream"), ("GET", "strands/c-1/stop")],
)
def test_each_address_has_its_methods(browser, method, path):
    browser.ask("strands", "c-1", "Hello")
    assert browser.http.request(method, path).status_code == 405


def test_reading_somebody_elses_messages_takes_permissions_and_is_recorded(
    browser, stranger, bob, ada
):
    browser.ask("strands", "c-1", "Hello")
    session = Session.objects.get()
    url = f"strands/{session.pk}/messages?scope=all"
    assert stranger.http.get(url).status_code == 404
    grant(bob, "read_transcript")
    assert stranger.http.get(url).status_code == 404
    grant(bob, "view_session")

    found = stranger.http.get(url)
    assert [one["role"] for one in found.json()] == ["user", "assistant"]
    event = AuditEvent.objects.get(action=AuditEvent.Action.READ)
    assert (event.session, event.actor_id) == (session.pk, str(bob.pk))
    assert event.details["view"] == "ai-sdk"
    # By what its owner's client calls it, it is not found.
    assert stranger.http.get("strands/c-1/messages?scope=all").status_code == 404


@pytest.mark.parametrize("name", ["strands", "openai"])
def test_a_writers_question_has_its_author(browser, stranger, bob, name):
    browser.ask(name, "c-1", "Hello")
    session = Session.objects.get()
    sharing.add_participant(session.pk, bob, "writer")

    stranger.ask(name, str(session.pk), "And I say hello")

    rows = SessionMessage.objects.filter(session=session).order_by("pk")
    authors = rows.values_list("role", "author")
    assert [*authors] == [("user", ""), ("assistant", ""), ("user", str(bob.pk)), ("assistant", "")]


@pytest.mark.parametrize("role", ["reader", "writer"])
def test_a_participant_who_resumes_an_answer_is_recorded_once(browser, stranger, bob, role, gate):
    name = uuid4().hex
    with browser.asking("strands", "c-1", f"wait {name}") as lines:
        until(lines, "One")
        session = Session.objects.get()
        sharing.add_participant(session.pk, bob, role)
        url = f"strands/{session.pk}/stream"
        with stranger.http.stream("GET", url) as resumed:
            until(resumed.iter_lines(), "One")
            event = AuditEvent.objects.get(action=AuditEvent.Action.READ)
        gate.open(name)
        assert "[DONE]" in "".join(lines)
    assert (event.session, event.actor_id) == (session.pk, str(bob.pk))
    assert event.details == {"via": "api", "view": "ai-sdk-stream"}
    # Nothing is delivered, and the owner is not recorded.
    assert stranger.http.get(url).status_code == 204
    assert browser.http.get(f"{url}?unanswered=true").status_code == 200
    assert AuditEvent.objects.filter(action=AuditEvent.Action.READ).count() == 1
    assert stranger.http.get(f"{url}?unanswered=true").status_code == 200
    assert AuditEvent.objects.filter(action=AuditEvent.Action.READ).count() == 2


def test_the_pages_of_a_long_conversation_are_linked(browser, ada):
    store = SessionStore(owner=ada)
    session = store.create("s", external_id="c-1")
    agent = store.agents.open(session, dialect="strands")
    for number in range(6):
        for role in ("user", "assistant"):
            store.append(agent, {"role": role, "content": [{"text": f"{role} {number}"}]})

    found: list[dict] = []
    url = "strands/c-1/messages?limit=5"
    while url:
        page = browser.http.get(url)
        found = page.json() + found
        url = page.links.get("prev", {}).get("url", "")
    assert [one["parts"][-1]["text"] for one in found] == [
        f"{role} {number}" for number in range(6) for role in ("user", "assistant")
    ]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=x",
        "limit=999",
        "before=x",
        "limit=²",
        "limit=%0A",
        f"limit=000000001{'9' * 9}",
        f"limit=000000001{'9' * 5000}",
    ],
)
def test_a_page_that_cannot_be_is_refused(browser, query):
    browser.ask("strands", "c-1", "Hello")
    assert browser.http.get(f"strands/c-1/messages?{query}").status_code == 400


def test_an_unknown_parameter_is_refused(browser):
    browser.ask("strands", "c-1", "Hello")
    for path in ("messages?limit=2&befor=x", "messages?unanswered=true", "stream?unanwsered=true"):
        refused = browser.http.get(f"strands/c-1/{path}")
        assert refused.status_code == 400
        assert "Unknown parameter" in refused.text
    assert browser.http.post("strands?dry_run=1", json=body("c-1", "Hi")).status_code == 400
    assert browser.http.post("strands/c-1/stop?force=1").status_code == 400
    assert SessionMessage.objects.count() == 2


def test_talking_takes_what_writing_in_a_session_takes(browser):
    browser.ask("strands", "c-1", "Hello")
    for path in ("readers", "nobody"):
        assert browser.post(path, "c-1", "And this?").status_code == 403
        assert browser.post(path, "c-2", "And this?").status_code == 403
    assert Session.objects.count() == 1
    assert browser.http.post("readers/c-1/stop").status_code == 403
    assert browser.http.get("readers/c-1/messages").status_code == 200
    assert browser.http.get("nobody/c-1/messages").status_code == 404


def test_who_may_not_read_a_chat_cannot_join_its_answer(browser, gate):
    name = uuid4().hex
    with browser.asking("strands", "c-1", f"wait {name}") as lines:
        until(lines, "One")
        assert browser.http.get("nobody/c-1/stream").status_code == 204
        gate.open(name)
        list(lines)


def test_the_address_of_the_page_before_names_the_chat_whatever_its_id_is(browser, ada):
    chat = "a?b#c>;d e"
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.create("s", external_id=chat), dialect="strands")
    for number in range(4):
        store.append(agent, {"role": "user", "content": [{"text": f"{number}"}]})

    page = browser.http.get(f"strands/{quote(chat, safe='')}/messages?limit=2")
    before = browser.http.get(page.links["prev"]["url"])
    assert [one["parts"][0]["text"] for one in before.json()] == ["0", "1"]


@pytest.mark.parametrize("api", ["api/support", "strands", "openai"])
def test_a_chat_with_a_key_is_stored_in_that_session_whatever_its_scope(browser, ada, api):
    scoped = SessionStore(owner=ada, scope="shop").open("main")
    other = SessionStore(owner=ada).open("main")

    browser.ask(api, str(scoped.id), "Hello")

    assert SessionMessage.objects.filter(session=scoped.id).count() == 2
    assert not SessionMessage.objects.filter(session=other.id).exists()


def test_nothing_that_is_said_is_in_what_is_logged_of_a_message():
    said = parse_chat_request(message(text("A secret"), file(filename="../s\x07ecret.png")), LIMITS)
    assert said.files[0].name == "secret.png"
    assert "secret" not in repr(said)
    assert "secret" not in repr(said.files[0])
