"""What messages of the API hold: parts, media, and what is odd in payloads."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

from django_agent_sessions.content import codec, exact_json
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState
from tests.admin.people import grant
from tests.admin.transcripts import said
from tests.models.test_fields import set_raw
from tests.strategies import json_values

from .conftest import Talk, client_of, listed
from .planted import PIXEL, body_of

pytestmark = pytest.mark.django_db


STRANDS = {
    "role": "assistant",
    "content": [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
        {"text": "Wait."},
        {"toolUse": {"toolUseId": "t1", "name": "search", "input": {"q": "Lisbon", "n": 2}}},
    ],
}
RESULT = {
    "role": "user",
    "content": [
        {
            "toolResult": {
                "toolUseId": "t1",
                "status": "error",
                "content": [{"text": "Nothing."}, {"json": {"found": 0}}],
            }
        }
    ],
}
CALL = {
    "type": "function_call",
    "call_id": "c1",
    "name": "search",
    "arguments": '{"q": "Lisbon"}',
    "id": "fc_1",
    "status": "completed",
}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "Nothing."}


def test_parts_are_neutral_for_strands(ada, api):
    talk = Talk(ada)
    talk.say(STRANDS)
    talk.say(RESULT)
    asked, answered = listed(api, talk)["results"]
    assert [part["kind"] for part in asked["parts"]] == ["reasoning", "text", "tool_call"]
    call = asked["parts"][2]
    assert (call["name"], call["call_id"], call["data"]) == (
        "search", "t1", {"q": "Lisbon", "n": 2},
    )  # fmt: skip
    assert call["path"] == ["content", 2]
    result = answered["parts"][0]
    assert (result["kind"], result["call_id"], result["status"]) == ("tool_result", "t1", "error")
    assert result["parts"][0]["text"] == "Nothing."
    assert result["parts"][0]["path"] == ["content", 0, "toolResult", "content", 0]


def test_parts_are_neutral_for_openai(ada, api):
    store = SessionStore(owner=ada)
    session = store.create("openai")
    agent = store.agents.open(session, "default", dialect="openai")
    for item in ({"role": "user", "content": "Where to?"}, CALL, OUTPUT):
        store.append(agent, item)
    page = api.get(f"/api/sessions/{session.id}/messages/").json()["results"]
    assert [part["kind"] for row in page for part in row["parts"]] == [
        "text", "tool_call", "tool_result",
    ]  # fmt: skip
    assert page[1]["parts"][0]["call_id"] == page[2]["parts"][0]["call_id"] == "c1"
    assert page[1]["parts"][0]["data"] == {"q": "Lisbon"}


def test_raw_is_what_the_sdk_wrote(ada, api):
    talk = Talk(ada)
    for payload in (STRANDS, RESULT):
        url = talk.say(payload)
        assert api.get(url, {"raw": "true"}).json()["raw"] == payload
    assert [row["raw"] for row in listed(api, talk, raw="true")["results"]] == [STRANDS, RESULT]
    assert "raw" not in api.get(url).json()
    assert "raw" not in listed(api, talk)["results"][0]


@given(value=json_values)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_payload_is_answered_and_raw_is_equal_to_it(ada, api, value):
    SessionMessage.objects.all().delete()
    Session.objects.all().delete()
    talk = Talk(ada)
    url = talk.say(value)
    listing = api.get(f"{talk.url}messages/", {"raw": "true"})
    assert listing.status_code == 200
    one = api.get(url, {"raw": "true"})
    assert one.status_code == 200
    assert json.loads(one.content)["raw"] == json.loads(exact_json.dumps(value))
    assert json.loads(listing.content)["results"][0]["raw"] == json.loads(exact_json.dumps(value))


DEEP: Any = "deep"
for _ in range(60):
    DEEP = {"a": [DEEP]}

HOSTILE = {
    "NUL": said("user", "a\x00b"),
    "half a surrogate pair": said("user", "a\ud800b"),
    "deep": {"role": "user", "content": [{"toolUse": {"name": "x", "input": DEEP}}]},
    "deep and unknown": DEEP,
    "a large number": {"role": "user", "content": [{"json": 10**400}], "n": 10**400},
    "bytes": {"role": "user", "content": [{"text": b"\xff\xfe"}]},
    "a list": [1, 2, 3],
    "nothing": None,
    "wrong types": {"role": 5, "content": [{"toolResult": {"content": 7, "toolUseId": []}}, 8]},
    "nothing but braces": {"role": "{message}", "content": [{"text": "{0}"}]},
    "a script": said("user", "</script><script>alert(1)</script>"),
}


@pytest.mark.parametrize("dialect", ["strands", "openai", "assistant-ui", "of somebody else"])
@pytest.mark.parametrize("name", HOSTILE)
def test_no_payload_is_an_error(ada, api, name, dialect):
    store = SessionStore(owner=ada)
    session = store.create("s")
    agent = store.agents.open(session, "a", dialect=dialect)
    key = store.append(agent, HOSTILE[name]).id
    url = f"/api/sessions/{session.id}/"
    for asked in (
        url,
        f"{url}messages/?raw=true",
        f"{url}messages/?q=a",
        f"/api/messages/{key}/?raw=true",
        f"{url}export/?as=markdown",
        f"{url}export/?as=jsonl",
        f"{url}usage/",
    ):
        answer = api.get(asked)
        is_refused = "q=" in asked and codec.refuses_search()
        assert answer.status_code == (400 if is_refused else 200), asked
        body = body_of(answer)
        assert "\x00" not in body
    row = api.get(f"/api/messages/{key}/").json()
    assert row["corrupt"] is False
    media = api.get(f"/api/messages/{key}/media/", {"path": '["content", 0]'})
    assert media.status_code == 404


def test_what_is_as_deep_as_may_be_stored_is_answered_whole(ada, api):
    deep: Any = "ground"
    for _ in range(196):
        deep = [deep]
    talk = Talk(ada)
    url = talk.say({"role": "user", "content": [{"text": "here"}], "deep": deep})
    assert api.get(url, {"raw": "true"}).json()["raw"]["deep"] == deep
    state = talk.store.agents.open(talk.session, "deep", dialect="strands", data=AgentState(deep))
    owner = get_user_model().objects.get()
    grant(owner, "view_sessionagent")
    found = client_of(owner).get(f"{talk.url}agents/{state.agent_id}/")
    assert found.json()["state"] == deep


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 500 + "1" + "}" * 500,
        "[" * 900 + "]" * 900,
        "[" * 5000 + "]" * 5000,
        '{"role": "user", "content": [{"text": 1e999}], "a": -1e999}',
        '{"role": "user", "content": [{"toolUse": {"name": "x", "input": {"a": 1e999}}}]}',
    ],
    ids=["deep", "deeper", "deepest", "infinite", "infinite input"],
)
def test_what_somebody_wrote_past_all_limits_is_answered_all_the_same(ada, api, text):
    talk = Talk(ada)
    url = talk.say(said("user", "here"))
    talk.say(said("assistant", "there"))
    set_raw(0, text)
    for asked in (url, f"{url}?raw=true"):
        assert api.get(asked).status_code == 200
    page = listed(api, talk, raw="true")["results"]
    if "1e999" not in text:
        assert "raw" not in page[0]
    assert page[1]["raw"] == said("assistant", "there")
    for form in ("markdown", "jsonl"):
        assert "there" in body_of(api.get(f"{talk.url}export/", {"as": form}))


def test_a_row_that_cannot_be_read_is_told_and_hides_nothing(trip, api):
    set_raw(1, '{"role": "assistant", "cont')
    page = listed(api, trip, raw="true")
    assert [row["corrupt"] for row in page["results"]] == [False, True, False, False]
    assert page["results"][1]["parts"] == []
    assert "raw" not in page["results"][1]
    one = api.get(trip.messages[1]).json()
    assert one["corrupt"] is True
    media = api.get(f"{trip.messages[1]}media/", {"path": '["content", 0]'})
    assert media.status_code == 404
    assert api.get(trip.url).status_code == 200
    assert api.get(f"{trip.url}usage/").json()["messages"] == 4


@pytest.fixture
def large(ada) -> Talk:
    talk = Talk(ada, "small")
    talk.say(said("assistant", "begins " + "x" * (1024 * 1024 + 10) + " ends"))
    talk.say(said("user", "small again"))
    return talk


def test_a_large_message_shows_how_it_begins_and_alone_it_is_whole(large, api):
    answer = api.get(f"{large.url}messages/", {"raw": "true"})
    assert len(answer.content) < 20_000
    rows = answer.json()["results"]
    assert [row["truncated"] for row in rows] == [False, True, False]
    assert rows[1]["parts"][0]["text"].startswith("begins xxx")
    assert len(rows[1]["parts"][0]["text"]) == 2000
    assert rows[1]["size"] > 1024 * 1024
    assert "raw" not in rows[1]
    one = api.get(large.messages[1]).json()
    assert one["truncated"] is False
    assert one["parts"][0]["text"].endswith(" ends")


def test_a_page_reads_no_more_than_it_may_however_many_large_messages_there_are(ada, api):
    talk = Talk(ada)
    for _ in range(6):
        talk.say(said("user", "y" * 900_000))
    answer = api.get(f"{talk.url}messages/")
    assert len(answer.content) < 5 * 1024 * 1024
    assert sum(row["truncated"] for row in answer.json()["results"]) == 2


def media_of(api: Any, ada: Any, block: Any, *, path: Any = ("content", 0), **query: Any) -> Any:
    talk = Talk(ada)
    url = talk.say({"role": "user", "content": [block]})
    return api.get(f"{url}media/", {"path": json.dumps(list(path)), **query})


def image(data: bytes, form: str = "png") -> dict[str, Any]:
    return {"image": {"format": form, "source": {"bytes": data}}}


def test_an_image_is_shown_and_nothing_in_it_runs(ada, api):
    talk = Talk(ada)
    url = talk.say({"role": "user", "content": [{"text": "Look"}, image(PIXEL)]})
    part = api.get(url).json()["parts"][1]
    assert (part["kind"], part["size"]) == ("image", len(PIXEL))
    answer = api.get(part["url"])
    assert answer.content == PIXEL
    assert answer["Content-Type"] == "image/png"
    assert answer["Content-Disposition"].startswith("inline")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert "no-store" in answer["Cache-Control"]
    downloaded = api.get(f"{part['url']}&download=true")
    assert downloaded["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"<html><script>alert(1)</script>", "png"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "svg+xml"),
        (b"<?xml version='1.0'?><svg/>", "svg"),
        (b"%PDF-1.4", "jpeg"),
        (b"", "png"),
    ],
)
def test_what_is_no_picture_is_a_download_whatever_it_claims_to_be(ada, api, data, form):
    answer = media_of(api, ada, image(data, form))
    if data:
        assert answer.content == data
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer["Content-Disposition"].startswith("attachment")
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    else:
        assert answer.status_code in (200, 404)


def test_a_document_is_a_download(ada, api):
    block = {
        "document": {
            "name": "a\r\nSet-Cookie: x=1",
            "format": "html",
            "source": {"bytes": b"<html>hello</html>"},
        }
    }
    answer = media_of(api, ada, block)
    assert answer.content == b"<html>hello</html>"
    assert answer["Content-Disposition"].startswith("attachment")
    assert "Set-Cookie" not in str(answer.headers)


def test_a_picture_of_openai_is_shown_too(ada, api):
    store = SessionStore(owner=ada)
    session = store.create("openai")
    agent = store.agents.open(session, "default", dialect="openai")
    inline = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    key = store.append(
        agent,
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": inline},
                {"type": "input_image", "image_url": "https://example.com/a.png"},
                {"type": "input_image", "image_url": "javascript:alert(1)"},
            ],
        },
    ).id
    parts = api.get(f"/api/messages/{key}/").json()["parts"]
    assert api.get(parts[0]["url"]).content == PIXEL
    assert parts[1]["url"] == "https://example.com/a.png"
    assert parts[2]["url"] == ""


def test_pictures_in_a_tools_result_have_addresses_too(ada, api):
    talk = Talk(ada)
    content = [{"text": "Here"}, image(PIXEL)]
    block = {"toolResult": {"toolUseId": "t", "status": "success", "content": content}}
    url = talk.say({"role": "user", "content": [block]})
    inner = api.get(url).json()["parts"][0]["parts"]
    assert [part["kind"] for part in inner] == ["text", "image"]
    assert api.get(inner[1]["url"]).content == PIXEL


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ('["content", 0]', 404), ('["content", 9]', 404), ('["content", -1]', 404),
        ('["content"]', 404), ("[]", 404), ('["role"]', 404), ('["__class__"]', 404),
        ('["content", 99999999999999999999]', 404),
        ("", 400), ("x", 400), ("{}", 400), ("[null]", 400), ("[true]", 400), ("[1.5]", 400),
        ("[[0]]", 400), ("[" * 100_000, 400), (f"[{'9' * 5000}]", 400), ('["\\ud800"]', 404),
    ],
)  # fmt: skip
def test_a_path_to_no_media_is_an_error(trip, api, path, code):
    # In a body's place, because no server reads an address of that length.
    if len(path) > 6000:
        path = path[:6000]
    assert api.get(f"{trip.messages[0]}media/", {"path": path}).status_code == code


def test_a_link_to_media_keeps_the_scope(ada, bob):
    grant(bob, "view_session", "read_transcript")
    talk = Talk(ada)
    talk.say({"role": "user", "content": [image(PIXEL)]})
    client = client_of(bob)
    page = client.get(f"{talk.url}messages/", {"scope": "all"}).json()
    url = page["results"][0]["parts"][0]["url"]
    answer = client.get(url)
    assert answer.status_code == 200, url
    assert answer.content == PIXEL


def test_a_message_tells_when_it_was_redacted_and_its_figures(ada, api):
    talk = Talk(ada)
    url = talk.say(said("user", "My card"))
    before = api.get(url).json()
    assert before["redacted_at"] is None
    assert before["size"] == len(exact_json.dumps(said("user", "My card")).encode())
    api.post(f"{url}redact/", {"find": "card", "reason": "a ticket"}, format="json")
    after = api.get(url).json()
    assert after["redacted_at"] is not None
    assert after["revision"] >= before["revision"]
    assert "card" not in json.dumps(after)
