"""Strangers, and bodies that nobody should send."""

from __future__ import annotations

import json
import re

import pytest
from django.contrib.auth.models import Permission

from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.rest.chat.assistant_ui.views import AssistantUIView
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import new_id
from tests.rest.chat.assistant_ui.bearer import token_for
from tests.rest.chat.assistant_ui.conftest import V6, Cloud, rows, session_of, ui

pytestmark = pytest.mark.django_db

UI = ui("user", "hello")


def asked(cloud: Cloud, thread: object) -> list[tuple[int, bytes]]:
    """Everything that can be asked of a thread."""
    body = {"parent_id": None, "format": V6, "content": UI}
    title = {"thread_id": str(thread), "assistant_id": "system/thread_title", "messages": []}
    answers = [
        cloud.ask("get", f"threads/{thread}"),
        cloud.ask("put", f"threads/{thread}", {"title": "x"}),
        cloud.ask("delete", f"threads/{thread}"),
        cloud.ask("get", f"threads/{thread}/messages"),
        cloud.ask("get", f"threads/{thread}/messages", after="mine"),
        cloud.ask("post", f"threads/{thread}/messages", body),
        cloud.ask("put", f"threads/{thread}/messages/mine", {"content": UI}),
        cloud.ask("get", "threads", after=str(thread)),
        cloud.ask("get", "threads", after=str(thread), scope="all"),
        cloud.ask("get", f"threads/{thread}", scope="all"),
        cloud.ask("post", "runs/stream", title),
    ]
    return [(answer.status_code, answer.content) for answer in answers]


def test_a_strangers_thread_answers_exactly_as_a_missing_one(cloud, strangers_cloud, bob):
    mine = cloud.thread(title="Secret")
    cloud.say(mine, ui("user", "hello", id="mine"))
    # Who may read everybody's sessions in the admin has only their own here.
    for name in ("view_session", "read_transcript", "change_session", "delete_session"):
        bob.user_permissions.add(
            Permission.objects.get(content_type__app_label="agent_sessions", codename=name)
        )

    found = asked(strangers_cloud, mine)

    assert found == asked(strangers_cloud, new_id())
    assert {status for status, _ in found} == {404}
    assert cloud.get(f"threads/{mine}")["thread"]["title"] == "Secret"
    assert len(cloud.messages(mine)) == 1


@pytest.mark.parametrize("key", ["x", "0", "null", "'", "%00", "..", "é", "claim"])
def test_what_is_no_key_is_a_missing_thread(cloud, key):
    for answer in (cloud.ask("get", f"threads/{key}"), cloud.ask("get", "threads", after=key)):
        assert answer.status_code == 404
    answer = cloud.ask("put", f"threads/{key}", {"title": "x"})
    assert answer.status_code == 404


def test_an_owners_messages_are_not_reached_through_another_thread(cloud, thread):
    cloud.say(thread, ui("user", "x", id="m"))
    other = cloud.thread()

    assert cloud.change(other, "m", UI).status_code == 404
    assert cloud.ask("get", f"threads/{other}/messages", after="m").status_code == 404
    assert cloud.send(other, UI, "m").status_code == 400


def test_only_the_clients_own_agent_is_written(cloud, thread, ada):
    store = SessionStore(owner=ada)
    session = store.get(session_of(thread).session_id)
    agent = store.agents.open(session, "concierge", dialect=STRANDS)
    said = store.append(agent, {"role": "assistant", "content": [{"text": "From the server"}]})

    assert cloud.change(thread, str(said.id), UI).status_code == 404
    assert cloud.say(thread, ui("user", "x", id=str(said.id))) == str(said.id)

    row = SessionMessage.objects.get(pk=said.id)
    assert (row.text, row.revision) == ("From the server", 0)


def test_a_servers_agent_of_the_same_name_is_neither_read_nor_written(cloud, thread, ada):
    store = SessionStore(owner=ada)
    session = store.get(session_of(thread).session_id)
    agent = store.agents.open(session, "assistant-ui", dialect=STRANDS)
    store.append(agent, {"role": "assistant", "content": [{"text": "From the server"}]})

    answer = cloud.send(thread, UI)

    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert cloud.change(thread, "x", UI).status_code == 404
    assert len(rows(thread)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "[]", "null", "1", '"x"', "{", '{"a":1,"a":2}', "[" * 5000, b"\xff",
        '{"title":{}}', '{"title":[]}', '{"title":"a\\u0000b"}', '{"title":"\\ud800"}',
        '{"metadata":[]}', '{"metadata":"x"}', '{"metadata":1e999}', '{"metadata":{"a":NaN}}',
        '{"metadata":{"a":1e999}}', '{"metadata":{"a":"\\u0000"}}', '{"metadata":{"a":"\\ud800"}}',
        '{"is_archived":"maybe"}', '{"is_archived":null}', '{"is_archived":{}}',
        '{"external_id":""}', '{"external_id":" "}', '{"external_id":".."}',
        '{"external_id":"a\\u0000"}', '{"external_id":"a\\nb"}', '{"external_id":[]}',
        json.dumps({"external_id": "x" * 256}),
    ],
)  # fmt: skip
def test_a_thread_that_cannot_be_is_refused_and_not_made(cloud, body):
    answer = cloud.ask("post", "threads", body)

    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["message"]
    assert not Session.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        "", "[]", "{}", "{", "[" * 5000,
        '{"format":"ai-sdk/v6"}', '{"format":"ai-sdk/v6","content":null}',
        '{"format":"ai-sdk/v6","content":[]}', '{"format":"ai-sdk/v6","content":"x"}',
        '{"content":{}}', '{"format":"","content":{}}', '{"format":[],"content":{}}',
        '{"format":"a b","content":{}}', '{"format":"a\\n","content":{}}',
        '{"format":"\\",\\"","content":{}}', json.dumps({"format": "x" * 65, "content": {}}),
        '{"format":"x","content":{"a":1e999}}', '{"format":"x","content":{"a":-Infinity}}',
        '{"format":"x","content":{"a":%s}}' % ("9" * 5000),
        '{"format":"x","content":%s}' % ('{"a":' * 101 + "1" + "}" * 101),
        '{"format":"x","content":{"id":""}}', '{"format":"x","content":{"id":1}}',
        '{"format":"x","content":{"id":{}}}', '{"format":"x","content":{"id":"."}}',
        '{"format":"x","content":{"id":"a\\u0000"}}', '{"format":"x","content":{"id":"\\ud800"}}',
        json.dumps({"format": "x", "content": {"id": "x" * 256}}),
        '{"parent_id":"","format":"x","content":{}}', '{"parent_id":[],"format":"x","content":{}}',
        '{"parent_id":"a\\u0000","format":"x","content":{}}',
        '{"parent_id":"\\udfff","format":"x","content":{}}',
        '{"format":"x","content":{"\\ud83d":1,"a\\ud83d\\ude00":"\\ud83d"},"parent_id":"\\n"}',
    ],
)  # fmt: skip
def test_a_message_that_cannot_be_is_refused_and_not_stored(cloud, thread, body):
    answer = cloud.ask("post", f"threads/{thread}/messages", body)

    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert rows(thread) == []


@pytest.mark.parametrize(
    "content",
    [
        '{"role":"user","parts":[{"type":"text","text":"a\\u0000b"}]}',
        '{"role":"user","parts":[{"type":"text","text":"\\ud800 \\udc00"}]}',
        '{"role":"\\u0000","parts":"x","\\u0000":{"$bytes":"AA=="}}',
        '{"$bytes":"AA=="}', '{"$text":"AA=="}', '{"role":1,"parts":{"a":[1.0,1,true,1e-9]}}',
        '{"parts":[{"type":"tool-x","toolCallId":"c","output":{"a":123456789012345678901234567890}}]}',
        "{}",
    ],
)  # fmt: skip
def test_odd_content_is_stored_and_given_back_exactly(cloud, thread, content):
    body = f'{{"parent_id":null,"format":"ai-sdk/v6","content":{content}}}'
    answer = cloud.ask("post", f"threads/{thread}/messages", body)
    assert answer.status_code == 200, answer.content

    (found,) = cloud.messages(thread)

    assert repr(found["content"]) == repr(json.loads(content))
    assert cloud.ask("post", f"threads/{thread}/messages", body).json() == answer.json()


def test_a_body_that_is_too_large_is_refused(cloud, thread, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000

    answer = cloud.send(thread, ui("user", "x" * 1000))

    assert answer.status_code == 413
    assert rows(thread) == []


@pytest.mark.parametrize("path", ["threads", "messages"])
@pytest.mark.parametrize("limit", ["0", "-1", "x", "201", "1e3", "9" * 5000, "\uff11"])
def test_a_limit_that_cannot_be_met_is_an_error_and_no_shorter_page(cloud, thread, path, limit):
    where = path if path == "threads" else f"threads/{thread}/messages"

    assert cloud.ask("get", where, limit=limit).status_code == 400


@pytest.mark.parametrize("query", [{"format": "a b"}, {"format": "\x00"}, {"format": '","'}])
def test_a_format_that_cannot_be_is_refused(cloud, thread, query):
    assert cloud.ask("get", f"threads/{thread}/messages", **query).status_code == 400


@pytest.mark.parametrize("after", ["x", "\x00", "%", "a" * 9999])
def test_a_place_that_is_not_there_is_not_found(cloud, thread, after):
    cloud.say(thread, UI)

    assert cloud.ask("get", f"threads/{thread}/messages", after=after).status_code == 404


def test_an_answer_is_for_its_asker_only(cloud, thread):
    answer = cloud.ask("get", f"threads/{thread}/messages")

    assert re.search("private", answer["Cache-Control"])
    assert "no-store" in answer["Cache-Control"]
    assert "Authorization" in answer["Vary"]
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_a_token_that_is_forged_or_too_old_is_refused(ada, thread):
    for token in (token_for(ada)[:-2] + "xx", token_for(ada, -5), "a.b.c", ""):
        cloud = Cloud(None)
        cloud.client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {token}"
        assert cloud.ask("get", "threads").status_code == 401


def test_the_error_of_a_held_or_refused_message_says_nothing_of_what_it_holds(cloud, thread):
    answer = cloud.send(thread, ui("user", "hunter2"), "hunter2-parent")

    assert b"hunter2" not in answer.content


def test_a_message_is_not_given_the_id_of_another(cloud, thread):
    for name in ("a", "b"):
        cloud.say(thread, ui("user", name, id=name))

    assert cloud.change(thread, "a", ui("user", "x", id="b")).status_code == 400
    assert [row.text for row in rows(thread)] == ["a", "b"]


def test_a_list_is_of_archived_threads_or_of_others(cloud):
    assert cloud.ask("get", "threads", is_archived="perhaps").status_code == 400


def test_a_site_of_one_namespace_has_no_threads_of_another(cloud, ada, monkeypatch):
    elsewhere = SessionStore(owner=ada, namespace="elsewhere")
    other = elsewhere.create("one", external_id="e")
    monkeypatch.setattr(AssistantUIView, "namespace", "chat")

    assert session_of(cloud.thread()).namespace == "chat"
    assert cloud.ask("get", f"threads/{other.id}").status_code == 404
    answer = cloud.ask("post", "threads", {"external_id": "e", "title": "x"})
    assert answer.status_code == 201
    made = session_of(answer.json()["thread_id"])
    assert (made.namespace, made.external_id, made.title) == ("chat", "e", "x")
    assert session_of(str(other.id)).title == ""


def test_a_payload_that_is_not_the_clients_hides_no_other(cloud, thread, ada):
    cloud.say(thread, ui("user", "x", id="a"))
    store = SessionStore(owner=ada)
    agent = store.agents.find(store.get(session_of(thread).session_id), "assistant-ui")
    assert agent is not None
    for payload in ({"id": 1, "content": {}}, {"role": "user"}, ["a"], "a", {"id": "a"}):
        store.append(agent, payload)

    assert cloud.change(thread, "a", UI).status_code == 204
    assert cloud.ask("get", f"threads/{thread}/messages").status_code == 200
    assert len(cloud.messages(thread)) == 6
