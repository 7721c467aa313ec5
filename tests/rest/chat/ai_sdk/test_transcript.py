"""Transcripts of either framework as messages of the AI SDK."""

from __future__ import annotations

import base64

import pytest
from django.db import connection

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.queries import message_pages
from django_agent_sessions.rest.chat.ai_sdk import page_of
from tests.admin.transcripts import said

pytestmark = pytest.mark.django_db

STEP = {"type": "step-start"}


class Conversation:
    def __init__(self, store, dialect, **options) -> None:
        self._store = store
        self._record = store.open("s", **options)
        self._agent = store.agents.open(self._record, dialect=dialect)

    def say(self, *messages):
        return [self._store.append(self._agent, message).id for message in messages]

    def page(self, **options):
        return page_of(Session.objects.get(), **options)

    @property
    def messages(self):
        return self.page().messages

    @property
    def parts(self):
        return [message["parts"] for message in self.messages]


@pytest.fixture
def strands(store):
    return Conversation(store, "strands")


@pytest.fixture
def openai(store):
    return Conversation(store, "openai")


def text(words):
    return {"type": "text", "text": words, "state": "done"}


def use(name, key):
    return {"toolUse": {"name": name, "toolUseId": key, "input": {"n": 1}}}


def result(key, *content, status="success"):
    found = [{"text": c} if isinstance(c, str) else c for c in content]
    return {"toolResult": {"toolUseId": key, "status": status, "content": found}}


def tool(name, key, **more):
    return {"type": "dynamic-tool", "toolName": name, "toolCallId": key, "input": {"n": 1}, **more}


def test_a_turn_of_many_rows_is_one_message_in_steps(strands):
    keys = strands.say(
        said("user", "Go"),
        said("assistant", "First.", use("a", "1"), use("b", "2")),
        said("user", result("2", {"json": {"x": [1]}}), result("1", "no", status="error")),
        said("assistant", use("a", "3")),
        said("user", result("3", "fine")),
        said("assistant", "Done."),
        said("user", "Thanks"),
    )
    asked, answered, thanked = strands.messages
    assert [one["id"] for one in (asked, answered, thanked)] == [
        str(keys[place]) for place in (0, 1, 6)
    ]
    assert answered["parts"] == [
        STEP,
        text("First."),
        tool("a", "1", state="output-error", errorText="no"),
        tool("b", "2", state="output-available", output={"x": [1]}),
        STEP,
        tool("a", "3", state="output-available", output="fine"),
        STEP,
        text("Done."),
    ]


def test_items_of_a_turn_are_one_message_too(openai):
    openai.say(
        {"role": "user", "content": "Go"},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm"}]},
        {"type": "reasoning", "id": "e", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "1", "name": "a", "arguments": '{"n": 1}'},
        {"type": "function_call_output", "call_id": "1", "output": '{"ok": true}'},
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "See there.",
                    "annotations": [
                        {"type": "url_citation", "url": "https://e.org/", "title": "There"},
                        {"type": "url_citation", "url": "javascript:alert(1)", "title": "No"},
                    ],
                }
            ],
        },
    )
    assert openai.parts == [
        [text("Go")],
        [
            STEP,
            {"type": "reasoning", "text": "Hm", "state": "done"},
            tool("a", "1", state="output-available", output={"ok": True}),
            STEP,
            text("See there."),
            {
                "type": "source-url",
                "sourceId": "https://e.org/",
                "url": "https://e.org/",
                "title": "There",
            },
        ],
    ]


def test_a_call_without_a_result_waits(strands):
    strands.say(said("user", "Go"), said("assistant", use("a", "1")))
    assert strands.parts[1] == [STEP, tool("a", "1", state="input-available")]


def test_a_result_without_a_call_is_shown(strands):
    strands.say(said("user", result("9", "fine")))
    (message,) = strands.messages
    assert message["role"] == "assistant"
    assert message["parts"][1]["output"] == "fine"


def test_what_a_user_says_beside_a_result_is_the_users(strands):
    strands.say(
        said("user", "Go"),
        said("assistant", use("a", "1")),
        said("user", result("1", "fine"), "And now?"),
    )
    assert [one["role"] for one in strands.messages] == ["user", "assistant", "user"]
    assert strands.parts[1][1]["output"] == "fine"
    assert strands.parts[2] == [text("And now?")]


def test_media_has_an_address_or_says_what_it_is(strands):
    inline = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    document = {"document": {"format": "txt", "name": "Notes", "source": {"text": "Buy milk"}}}
    remote = {"image": {"format": "png", "source": {"location": {"uri": "s3://bucket/x"}}}}
    (key,) = strands.say(said("user", inline, document, remote))

    page = strands.page(link=lambda message, path: f"/{message}/{path[-1]}")
    assert page.messages[0]["parts"] == [
        {"type": "file", "mediaType": "image/png", "url": f"/{key}/0"},
        {
            "type": "data-document",
            "data": {"mediaType": "text/plain", "filename": "Notes", "text": "Buy milk"},
        },
        {"type": "data-file", "data": {"mediaType": "image/png"}},
    ]
    assert strands.parts[0][0] == {
        "type": "data-file",
        "data": {"mediaType": "image/png", "size": 4},
    }


def test_media_among_results_has_an_address_too(strands, openai):
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    strands.say(said("assistant", use("a", "1")), said("user", result("1", "A dot:", image)))
    page = strands.page(link=lambda message, path: "/".join(map(str, path)))
    assert page.messages[0]["parts"][1]["output"] == [
        {"type": "text", "text": "A dot:"},
        {"type": "file", "mediaType": "image/png", "url": "content/0/toolResult/content/1"},
    ]


def test_a_picture_at_an_address_keeps_it(openai):
    dot = base64.b64encode(b"\x89PNG").decode()
    openai.say(
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": "https://e.org/x.png"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{dot}"},
                {"type": "input_image", "image_url": "javascript:alert(1)"},
            ],
        }
    )
    page = openai.page(link=lambda message, path: "/here")
    assert [part.get("url") for part in page.messages[0]["parts"]] == [
        "https://e.org/x.png",
        "/here",
        None,
    ]


def test_what_nobody_knows_is_a_data_part(strands, openai):
    strands.say(said("assistant", {"hologram": {"depth": 3}}))
    assert strands.parts == [
        [STEP, {"type": "data-unknown", "data": {"value": {"hologram": {"depth": 3}}}}]
    ]


def test_a_message_that_says_nothing_is_no_message(strands):
    strands.say(said("user", ""), said("user", "Hello"))
    assert strands.parts == [[text("Hello")]]


def test_a_redacted_message_shows_its_masks_and_never_the_original(strands, ada):
    strands.say(said("user", "I am 4111 1111 1111 1111."), said("assistant", "Thanks."))
    card = Find("4111 1111 1111 1111")
    redact(Session.objects.get().pk, card, actor=ada, reason="a card")

    asked, answered = strands.messages
    assert asked["parts"] == [text("I am [REDACTED].")]
    assert [asked["metadata"]["redacted"], answered["metadata"]["redacted"]] == [True, False]


def test_a_message_tells_when_it_was_said_and_what_it_took(strands):
    metadata = {"usage": {"inputTokens": 10, "outputTokens": 5}}
    strands.say(
        said("assistant", use("a", "1")) | {"metadata": metadata},
        said("user", result("1", "fine")),
        said("assistant", "Done.") | {"metadata": metadata},
    )
    (message,) = strands.messages
    assert message["metadata"]["usage"] == {"inputTokens": 20, "outputTokens": 10}
    assert message["metadata"]["createdAt"].endswith("Z")
    assert len(message["metadata"]["createdAt"]) == len("2026-01-02T03:04:05.678Z")


def test_a_message_has_the_tokens_of_a_cache_by_the_names_of_the_ai_sdk(strands):
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 105}
    cached = {"cacheReadInputTokens": 80, "cacheWriteInputTokens": 10}
    strands.say(said("assistant", "Hello") | {"metadata": {"usage": {**usage, **cached}}})

    (message,) = strands.messages
    assert message["metadata"]["usage"] == {
        "inputTokens": 100,
        "outputTokens": 5,
        "inputTokenDetails": {"cacheReadTokens": 80, "cacheWriteTokens": 10},
    }


def test_a_message_that_is_too_large_shows_how_it_begins(strands, monkeypatch):
    monkeypatch.setattr(message_pages, "MAX_PAYLOAD_BYTES_SHOWN", 2000)
    keys = strands.say(
        said("user", "u" * 5000),
        said("assistant", use("a", "1")),
        said("user", result("1", "r" * 5000)),
        said("assistant", "Done."),
    )
    asked, answered = strands.parts
    assert asked[0]["text"] == "u" * message_pages.TEXT_BEGINNING_LENGTH
    assert asked[1]["type"] == "data-truncated"
    assert asked[1]["data"]["message"] == str(keys[0])
    assert answered[1]["output"] == "r" * message_pages.TEXT_BEGINNING_LENGTH
    assert answered[2]["data"]["message"] == str(keys[2])
    assert answered[-1] == text("Done.")


def test_a_corrupt_row_hides_nothing_else(strands):
    keys = strands.say(said("user", "Hello"), said("assistant", "Hi"))
    with connection.cursor() as cursor:
        table = SessionMessage._meta.db_table
        cursor.execute(f"UPDATE {table} SET message = '[1' WHERE message_id = 0")
    assert strands.parts[0][0]["type"] == "data-corrupt"
    assert strands.parts[0][0]["data"]["message"] == str(keys[0])
    assert strands.parts[1] == [STEP, text("Hi")]


@pytest.mark.parametrize("limit", range(1, 12))
def test_pages_of_any_size_are_the_whole_conversation_and_cut_no_turn(strands, limit):
    for number in range(4):
        strands.say(
            said("user", f"Go {number}"),
            said("assistant", "First.", use("a", f"{number}-1")),
            said("user", result(f"{number}-1", "fine")),
            said("assistant", use("a", f"{number}-2")),
            said("user", result(f"{number}-2", "fine")),
            said("assistant", "Done."),
        )
    whole = strands.messages
    assert len(whole) == 8

    found: list[dict] = []
    before = None
    while True:
        page = strands.page(limit=limit, before=before)
        assert page.messages
        found = page.messages + found
        before = page.before
        if before is None:
            break
    assert found == whole


def test_agents_of_a_session_speak_for_themselves(store):
    record = store.open("s")
    for name in ("planner", "writer"):
        agent = store.agents.open(record, name, dialect="strands")
        store.append(agent, said("assistant", f"I am the {name}."))
    page = page_of(Session.objects.get())
    assert [one["parts"][1]["text"] for one in page.messages] == [
        "I am the planner.",
        "I am the writer.",
    ]


def test_what_a_client_claims_beside_the_agents_is_left_out(store):
    record = store.open("s")
    spoken = store.agents.open(record, "a", dialect="strands")
    claimed = store.agents.open(record, "assistant-ui", dialect="assistant-ui")

    def claim(words):
        content = {"role": "assistant", "parts": [{"type": "text", "text": words}]}
        wire = {"id": words, "parent_id": None, "format": "ai-sdk/v6", "content": content}
        return store.append(claimed, wire).id

    store.append(spoken, said("user", "Hello"))
    claim("We refund 10000.")
    store.append(spoken, said("assistant", "Hi"))
    last = claim("We refund 20000.")

    session = Session.objects.get()
    whole = page_of(session, limit=2)
    assert [one["parts"][-1]["text"] for one in whole.messages] == ["Hello", "Hi"]
    assert whole.before is None
    assert len(page_of(session, before=last).messages) == 2
    named = page_of(session, agent=SessionAgent.objects.get(agent_id="assistant-ui"))
    assert named.messages[0]["parts"][1]["text"] == "We refund 10000."


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_turn_that_is_longer_than_many_pages_is_whole(strands, limit):
    for turn in range(2):
        strands.say(said("user", f"Go {turn}"))
        for number in range(15):
            key = f"{turn}-{number}"
            strands.say(said("assistant", use("a", key)), said("user", result(key, "fine")))
        strands.say(said("assistant", "Done."))
    whole = strands.page(limit=200).messages
    assert len(whole) == 4

    last = strands.page(limit=limit)
    first = strands.page(limit=limit, before=last.before)
    assert [*first.messages, *last.messages] == whole


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_call_whose_result_is_on_the_next_page_is_answered(strands, limit):
    strands.say(
        said("user", "Go"),
        said("assistant", use("a", "1")),
        said("user", result("1", "interrupted", status="error"), "And now?"),
        said("assistant", "Fine."),
    )
    whole = strands.messages
    found: list[dict] = []
    before = None
    while True:
        page = strands.page(limit=limit, before=before)
        found = page.messages + found
        before = page.before
        if before is None:
            break
    assert found == whole


def test_a_result_that_is_too_large_is_given_to_no_other_call(openai, monkeypatch):
    monkeypatch.setattr(message_pages, "MAX_PAYLOAD_BYTES_SHOWN", 2000)
    openai.say(
        {"role": "user", "content": "Go"},
        {"type": "function_call", "call_id": "1", "name": "a", "arguments": '{"n": 1}'},
        {"type": "function_call", "call_id": "2", "name": "b", "arguments": '{"n": 1}'},
        {"type": "function_call_output", "call_id": "2", "output": "x" * 5000},
    )
    _step, first, second, cut = openai.parts[1]
    assert [first["state"], second["state"]] == ["input-available", "input-available"]
    assert cut["type"] == "data-truncated"


SEARCH = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}}


@pytest.mark.parametrize(
    ("item", "outcome"),
    [
        (SEARCH | {"status": "completed"}, {"state": "output-available", "output": None}),
        (SEARCH | {"status": "failed"}, {"state": "output-error", "errorText": "The tool failed."}),
        (SEARCH | {"status": "in_progress"}, {"state": "input-available"}),
        (
            {"type": "code_interpreter_call", "id": "ci", "code": "1", "status": "incomplete"},
            {"state": "output-error", "errorText": "The tool failed."},
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "status": "completed"},
            {"state": "output-available", "output": None},
        ),
        (
            {
                "type": "tool_search_call",
                "id": "ts",
                "call_id": None,
                "arguments": {},
                "execution": "server",
                "status": "completed",
            },
            {"state": "output-available", "output": None},
        ),
    ],
)
def test_a_providers_own_call_ends_as_its_item_says(openai, item, outcome):
    openai.say({"role": "user", "content": "Go"}, item)
    _step, call = openai.parts[1]
    assert {key: call.get(key) for key in ("state", *outcome)} == outcome


def test_a_providers_own_call_is_in_the_step_of_the_text_after_it(openai):
    found = {"file_id": "f", "filename": "a.txt", "score": 1, "text": "A passage", "attributes": {}}
    search = {"type": "file_search_call", "id": "fs", "queries": ["q"], "status": "completed"}
    answer = {"type": "output_text", "text": "Found.", "annotations": []}
    openai.say(
        {"role": "user", "content": "Go"},
        SEARCH | {"status": "completed"},
        search | {"results": [found]},
        {"type": "message", "role": "assistant", "content": [answer]},
    )
    _step, web, file, said_last = openai.parts[1]
    assert [web["output"], said_last] == [None, text("Found.")]
    assert "A passage" in str(file["output"])


@pytest.mark.parametrize("dialect", ["strands", "openai"])
def test_a_large_message_of_a_user_stays_the_users(store, monkeypatch, dialect):
    monkeypatch.setattr(message_pages, "MAX_PAYLOAD_BYTES_SHOWN", 2000)
    conversation, question = Conversation(store, dialect), "q" * 5000
    if dialect == "strands":
        conversation.say(said("assistant", use("a", "1")), said("user", question))
    else:
        call = {"type": "function_call", "call_id": "1", "name": "a", "arguments": "{}"}
        conversation.say(call, {"role": "user", "content": question})
    answered, asked = conversation.messages
    assert asked["role"] == "user"
    assert asked["parts"][-1]["type"] == "data-truncated"
    assert answered["parts"][-1]["state"] == "output-error"


def test_results_belong_to_the_calls_of_the_same_id_in_order(strands):
    strands.say(
        said("user", "Go"),
        said("assistant", use("a", "f"), use("b", "f")),
        said("user", result("f", "one"), result("f", "two")),
        said("assistant", use("c", "f"), use("d", "f-2")),
        said("user", result("f", "three"), result("f-2", "four")),
    )
    calls = [part for part in strands.parts[1] if part["type"] == "dynamic-tool"]
    assert [(part["toolName"], part["output"]) for part in calls] == [
        ("a", "one"),
        ("b", "two"),
        ("c", "three"),
        ("d", "four"),
    ]
    assert len({part["toolCallId"] for part in calls}) == 4


def test_a_later_result_replaces_the_one_of_the_same_call(strands):
    strands.say(
        said("user", "Go"),
        said("assistant", use("a", "f")),
        said("user", result("f", "one")),
        said("assistant", use("b", "f")),
        said("user", result("f", "interrupted", status="error")),
        said("user", result("f", "two")),
    )
    calls = [part for part in strands.parts[1] if part["type"] == "dynamic-tool"]
    assert [part["output"] for part in calls] == ["one", "two"]
    assert calls[1]["state"] == "output-available"


def test_a_call_was_interrupted_if_the_user_wrote_after_it(strands):
    strands.say(
        said("user", "Go"),
        said("assistant", use("a", "1")),
        said("user", "And now?"),
        said("assistant", use("a", "2")),
    )
    error = "The tool was interrupted: it has no result."
    assert strands.parts[1][1] == tool("a", "1", state="output-error", errorText=error)
    assert strands.parts[3][1] == tool("a", "2", state="input-available")


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_an_interrupted_call_is_the_same_on_every_page(strands, limit):
    strands.say(
        said("user", "Go"),
        said("assistant", use("a", "1"), use("b", "1")),
        said("user", "And now?"),
        said("assistant", "Fine."),
    )
    whole = strands.messages
    found: list[dict] = []
    before = None
    while True:
        page = strands.page(limit=limit, before=before)
        found = page.messages + found
        before = page.before
        if before is None:
            break
    assert found == whole


def test_what_is_said_to_another_agent_interrupts_no_call(store):
    record = store.open("s")
    caller = store.agents.open(record, "caller", dialect="strands")
    called = store.agents.open(record, "called", dialect="strands")
    store.append(caller, said("user", "Go"))
    store.append(caller, said("assistant", use("called", "1")))
    store.append(called, said("user", "Help me"))
    messages = page_of(Session.objects.get()).messages
    assert messages[1]["parts"][1]["state"] == "input-available"


def test_a_document_that_is_cited_is_a_source(strands, store):
    location = {"documentChar": {"documentIndex": 0, "start": 0, "end": 5}}
    cited = {
        "citationsContent": {
            "content": [{"text": "See the report."}],
            "citations": [{"title": "Report", "location": location}, {"location": location}],
        }
    }
    strands.say(said("user", "Go"), said("assistant", cited))
    sources = [part for part in strands.parts[1] if part["type"].startswith("source-")]
    assert sources == [
        {
            "type": "source-document",
            "sourceId": "Report",
            "mediaType": "application/octet-stream",
            "title": "Report",
        }
    ]


def test_a_file_that_is_cited_is_a_source(openai):
    annotation = {"type": "file_citation", "file_id": "f-1", "filename": "a.pdf", "index": 0}
    answer = {"type": "output_text", "text": "See there.", "annotations": [annotation]}
    openai.say({"type": "message", "role": "assistant", "content": [answer]})
    assert openai.parts[0][2] == {
        "type": "source-document",
        "sourceId": "f-1",
        "mediaType": "application/octet-stream",
        "title": "a.pdf",
        "filename": "a.pdf",
    }
