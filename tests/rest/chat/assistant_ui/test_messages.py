"""What a client stores, once and under its own ids."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.content.dialects import ASSISTANT_UI
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.queries import search
from django_agent_sessions.store import SessionStore
from tests.rest.chat.assistant_ui.conftest import V6, Cloud, rows, session_of, ui

pytestmark = pytest.mark.django_db

TOOL = {
    "type": "tool-search",
    "toolCallId": "call-1",
    "state": "output-available",
    "input": {"q": "Lisbon"},
    "output": {"hits": [1, 2.5, None]},
}


def talk(cloud: Cloud, thread: str, count: int) -> list[str]:
    made: list[str] = []
    for number in range(count):
        role = "assistant" if number % 2 else "user"
        made.append(cloud.say(thread, ui(role, f"words {number}"), made[-1] if made else None))
    return made


def test_messages_come_back_newest_first_exactly_as_they_were_sent(cloud, thread):
    said = [
        ui("user", "Where to? \u0000 \U0001f600"),
        ui("assistant", {"type": "step-start"}, TOOL, "To Lisbon.", metadata={"z": 1, "a": {}}),
    ]
    first = cloud.say(thread, said[0])
    second = cloud.say(thread, said[1], first)

    found = cloud.messages(thread, format=V6, limit="200")

    assert [message["id"] for message in found] == [second, first]
    assert [message["parent_id"] for message in found] == [first, None]
    assert [message["content"] for message in found] == said[::-1]
    assert [list(message["content"]) for message in found] == [list(one) for one in said[::-1]]
    assert [message["format"] for message in found] == [V6, V6]
    assert found[0]["height"] > found[1]["height"]
    assert set(found[0]) == {
        *("id", "parent_id", "height", "created_at", "updated_at", "format", "content")
    }


def test_what_the_client_wrote_is_an_agent_of_its_own_with_neutral_columns(cloud, thread, ada):
    key = cloud.say(thread, ui("user", "Find me, marzipan"))

    agent = SessionAgent.objects.get(session=thread)
    (row,) = rows(thread)
    assert (agent.agent_id, agent.dialect) == ("assistant-ui", ASSISTANT_UI)
    assert (row.role, row.text, row.input_tokens) == ("user", "Find me, marzipan", None)
    assert next(iter(row.message.items())) == ("id", key)
    found = search.find_sessions("marzipan", sessions=Session.objects.all(), content=True)
    assert [str(one) for one in found.sessions] == [thread]
    assert session_of(thread).message_count == 1


def test_a_message_that_is_sent_again_is_stored_once(cloud, thread):
    first = talk(cloud, thread, 6)
    before = [(row.pk, row.revision) for row in rows(thread)]

    assert talk(cloud, thread, 6) == first
    assert [(row.pk, row.revision) for row in rows(thread)] == before


def test_the_same_words_at_another_place_are_another_message(cloud, thread):
    yes = cloud.say(thread, ui("user", "yes"))
    reply = cloud.say(thread, ui("assistant", "sure?"), yes)

    again = cloud.say(thread, ui("user", "yes"), reply)

    assert again != yes
    assert len(rows(thread)) == 3


def test_the_same_words_in_another_thread_have_another_id(cloud, thread):
    assert cloud.say(thread, ui("user", "yes")) != cloud.say(cloud.thread(), ui("user", "yes"))


def test_a_message_with_an_id_of_the_clients_is_written_over_under_it(cloud, thread):
    for text in ("a draft", "the answer"):
        assert cloud.say(thread, ui("assistant", text, id="msg_1")) == "msg_1"

    (found,) = cloud.messages(thread)
    assert found["content"] == ui("assistant", "the answer", id="msg_1")
    assert [(row.revision, row.text) for row in rows(thread)] == [(1, "the answer")]


def test_a_changed_message_is_found_by_its_id_and_by_what_it_says_now(cloud, thread):
    key = cloud.say(thread, ui("assistant", "a draft"))

    assert cloud.change(thread, key, ui("assistant", "the answer")).status_code == 204

    assert cloud.say(thread, ui("assistant", "the answer")) == key
    (found,) = cloud.messages(thread)
    assert (found["id"], found["content"]) == (key, ui("assistant", "the answer"))


@pytest.mark.parametrize(
    "name", ["a/b", 'q"uo\\te', "é ß 中", "\U0001f600" * 255, "%2F?#", "100%_x", "<script>"]
)
def test_any_printable_id_names_one_message(cloud, thread, name):
    # The lone surrogate has the whole payload written in escapes.
    for text in ("one", "two \ud800"):
        cloud.say(thread, ui("user", text, id=name))
    cloud.say(thread, ui("assistant", "x", id="x"), name)

    found = cloud.messages(thread)

    assert [message["id"] for message in found] == ["x", name]
    assert found[0]["parent_id"] == name
    assert found[1]["content"]["parts"][0]["text"] == "two \ud800"
    assert [message["id"] for message in cloud.messages(thread, after="x")] == [name]


def test_ids_that_differ_in_case_or_look_like_patterns_are_different(cloud, thread):
    for name in ("abc", "ABC", "ab%", "ab_", "ab"):
        cloud.say(thread, ui("user", name, id=name))

    assert len(rows(thread)) == 5
    assert cloud.change(thread, "aBc", ui("user", "x")).status_code == 404


def test_a_long_thread_is_read_page_by_page(cloud, thread):
    made = talk(cloud, thread, 7)

    found: list[Any] = []
    after: dict[str, str] = {}
    while page := cloud.messages(thread, limit="3", **after):
        found += [message["id"] for message in page]
        after = {"after": found[-1]}

    assert found == made[::-1]


def test_only_the_messages_of_a_format_are_given_and_pages_are_full(cloud, thread):
    spoken = {"role": "user", "content": [{"type": "text", "text": '"format":"ai-sdk/v6"'}]}
    first = cloud.say(thread, ui("user", "one"))
    other = cloud.say(thread, spoken, first, "aui/v0")
    last = cloud.say(thread, ui("user", "two"), other)

    assert [one["id"] for one in cloud.messages(thread, format=V6, limit="2")] == [last, first]
    assert [one["id"] for one in cloud.messages(thread, format="aui/v0")] == [other]
    assert cloud.messages(thread, format="none") == []
    assert len(cloud.messages(thread)) == 3


def test_reading_and_storing_take_the_same_statements_in_a_thread_of_any_length(cloud, thread):
    def statements() -> list[int]:
        made.append(cloud.say(thread, ui("user", f"more {len(made)}"), made[-1]))
        taken = []
        for ask in (
            lambda: cloud.messages(thread, format=V6),
            lambda: cloud.messages(thread, after=made[-1]),
            lambda: made.append(cloud.say(thread, ui("user", "last"), made[-1])),
            lambda: cloud.change(thread, made[-1], ui("user", f"changed {len(made)}")),
        ):
            with CaptureQueriesContext(connection) as captured:
                ask()
            taken.append(len(captured))
        return taken

    made = talk(cloud, thread, 2)
    few = statements()
    for number in range(20):
        made.append(cloud.say(thread, ui("user", f"words {number}"), made[-1]))

    assert statements() == few
    assert max(few) <= 20


def test_a_message_that_is_sent_again_leaves_the_session_as_it_is(cloud, thread):
    said = cloud.say(thread, ui("user", "hello"))
    before = Session.objects.values().get(pk=thread)

    assert cloud.say(thread, ui("user", "hello")) == said
    assert Session.objects.values().get(pk=thread) == before


def test_what_does_not_fit_a_page_is_shortened_and_keeps_its_place(cloud, thread, settings):
    made = [cloud.say(thread, ui("user", "x" * 5000))]
    made.append(cloud.say(thread, ui("user", "short"), made[0]))
    settings.AGENT_SESSIONS = {"MAX_ANSWER_BYTES": 1000}

    newest, oldest = cloud.messages(thread)

    assert newest["content"] == ui("user", "short")
    assert oldest["id"] == made[0]
    assert oldest["parent_id"] is None
    assert oldest["content"]["parts"] == ui("user", "x" * 2000)["parts"]


def test_a_corrupt_message_is_shown_as_one_and_hides_no_other(cloud, thread):
    made = talk(cloud, thread, 3)
    SessionMessage.objects.filter(session=thread, message_id=1).update(text="words 1")
    with connection.cursor() as cursor:
        table = SessionMessage._meta.db_table
        cursor.execute(
            f"UPDATE {table} SET message = %s WHERE message_id = 1",
            ['{"id":"broken'],
        )

    found = cloud.messages(thread)

    assert [found[0]["id"], found[2]["id"]] == [made[2], made[0]]
    assert found[1]["content"]["parts"][0]["type"] == "text"


def test_a_parent_that_is_not_there_is_refused_and_nothing_is_stored(cloud, thread):
    answer = cloud.send(thread, ui("user", "x"), "nowhere")

    assert answer.status_code == 400
    assert answer.json()["errors"] == {
        "parent_id": ["The thread has no such message. Store messages in order, parents first."]
    }
    assert rows(thread) == []


def test_a_message_is_never_before_itself(cloud, thread):
    assert cloud.send(thread, ui("user", "x", id="a"), "a").status_code == 400
    cloud.say(thread, ui("user", "x", id="a"))
    cloud.say(thread, ui("user", "y", id="b"), "a")

    cloud.say(thread, ui("user", "x again", id="a"), "b")

    assert {one["id"]: one["parent_id"] for one in cloud.messages(thread)} == {"a": None, "b": "a"}


def serve(thread: str, owner, *texts: str) -> list[str]:
    """An agent of the server talks in the session."""
    store = SessionStore(owner=owner)
    agent = store.agents.open(store.get(session_of(thread).session_id), "concierge")
    roles = ("user", "assistant")
    made = [
        store.append(agent, {"role": roles[number % 2], "content": text})
        for number, text in enumerate(texts)
    ]
    return [str(one.id) for one in made]


def words(found: list[dict]) -> list[str]:
    return [
        part["text"]
        for one in found[::-1]
        for part in one["content"]["parts"]
        if part["type"] == "text"
    ]


def test_where_the_client_stored_nothing_it_is_given_what_the_server_said(cloud, thread, ada):
    made = serve(thread, ada, "Where to?", "To Lisbon.")

    found = cloud.messages(thread, format=V6)

    assert words(found) == ["Where to?", "To Lisbon."]
    assert [one["id"] for one in found] == made[::-1]
    assert [one["parent_id"] for one in found] == [made[0], None]
    assert [one["content"]["role"] for one in found] == ["assistant", "user"]
    assert all(re.fullmatch(r"[0-9T:.-]{23}Z", one["created_at"]) for one in found)
    assert cloud.messages(thread, format="aui/v0") == []
    assert SessionAgent.objects.filter(session=thread).count() == 1


def test_what_the_server_said_is_paged(cloud, thread, ada):
    serve(thread, ada, *[f"{number}" for number in range(7)])

    found: list[Any] = []
    after: dict[str, str] = {}
    while page := cloud.messages(thread, limit="3", **after):
        found += page
        after = {"after": found[-1]["id"]}

    assert words(found) == [f"{number}" for number in range(7)]
    assert [one["parent_id"] for one in found] == [*(one["id"] for one in found[1:]), None]


def test_of_long_turns_of_the_server_no_page_is_cut(cloud, thread, ada):
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.get(session_of(thread).session_id), "worker", dialect="openai")
    for turn in range(12):
        items = [{"role": "user", "content": f"go {turn}"}]
        for number in range(105):
            call = {"call_id": f"c{turn}-{number}", "name": "work"}
            items += [
                {"type": "function_call", **call, "arguments": "{}"},
                {"type": "function_call_output", "call_id": call["call_id"], "output": "x"},
            ]
        items.append({"role": "assistant", "content": f"done {turn}"})
        store.append_many(agent, items)

    found = cloud.messages(thread, limit="24")
    newest = cloud.messages(thread, limit="23")

    expected = [f"{word} {turn}" for turn in range(12) for word in ("go", "done")]
    assert words(found) == expected
    assert words(newest) == expected[1:]
    assert [one["parent_id"] for one in found] == [*(one["id"] for one in found[1:]), None]
    assert newest[-1]["parent_id"] == found[-1]["id"]


def test_the_client_goes_on_from_what_the_server_said_and_nothing_is_there_twice(
    cloud, thread, ada
):
    made = serve(thread, ada, "Where to?", "To Lisbon.")
    # The server's own record of the same turn.
    serve(thread, ada, "And then?", "To Porto.")
    mine = cloud.say(thread, ui("user", "And then?"), made[1])
    cloud.say(thread, ui("assistant", "To Porto."), mine)

    expected = ["Where to?", "To Lisbon.", "And then?", "To Porto."]
    assert words(cloud.messages(thread, format=V6)) == expected
    paged: list[Any] = []
    after: dict[str, str] = {}
    while page := cloud.messages(thread, limit="1", format=V6, **after):
        paged += page
        after = {"after": paged[-1]["id"]}
    assert words(paged) == expected
    assert [one["parent_id"] for one in paged] == [*(one["id"] for one in paged[1:]), None]


def test_a_thread_that_the_client_began_has_nothing_before_it(cloud, thread, ada):
    serve(thread, ada, "Where to?", "To Lisbon.")
    cloud.say(thread, ui("user", "Where to?"))

    assert words(cloud.messages(thread)) == ["Where to?"]


def test_a_file_is_stored_with_its_bytes(cloud, thread):
    url = "data:text/plain;base64," + base64.b64encode(b"hello" * 1000).decode()
    content = ui("user", {"type": "file", "mediaType": "text/plain", "url": url})

    cloud.say(thread, content)

    assert cloud.messages(thread)[0]["content"] == content
