from __future__ import annotations

import tracemalloc
from uuid import UUID

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

from django_agent_sessions.content import exact_json
from django_agent_sessions.interchange import export_sessions
from django_agent_sessions.interchange.jsonl_export import (
    AGENT_COLUMNS,
    AGENT_PAYLOADS,
    FEEDBACK_COLUMNS,
    FEEDBACK_PAYLOADS,
    LABEL_COLUMNS,
    MESSAGE_COLUMNS,
    MULTI_AGENT_COLUMNS,
    MULTI_AGENT_PAYLOADS,
    NOTE_COLUMNS,
    NOTE_PAYLOADS,
    REVIEW_COLUMNS,
    SESSION_COLUMNS,
)
from django_agent_sessions.models import (
    Label,
    MessageFeedback,
    Note,
    Review,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.values.records import AgentState
from tests.models.test_fields import set_raw
from tests.sealed import update_content
from tests.strategies import exactly, json_values

pytestmark = pytest.mark.django_db

ODD = {
    "nul": "\x00",
    "bytes": b"\x00\xff",
    "surrogate": "\ud800",
    "meeting": "\ud83d\udc07",
    "marker": {"$bytes": "x"},
    "escaped": {"$$text": 1},
    "lines": "a\nb\r\u2028c",
    "big": 10**100,
    "z": 1,
    "a": 1.0,
}


def exported(sessions=None, **options) -> list[dict]:
    text = "".join(export_sessions(sessions or Session.objects.all(), **options))
    assert text.endswith("\n")
    return [exact_json.loads(line) for line in text.removesuffix("\n").split("\n")]


def messages_of(line: dict) -> list:
    return [message["message"] for message in line["agents"][0]["messages"]]


def redact(message_id: int) -> None:
    """Redact a message."""
    update_content(
        SessionMessage.objects.filter(message_id=message_id),
        {"message": {"role": "user", "content": "[REDACTED]"}},
        text="[REDACTED]",
        redacted_at=timezone.now(),
    )


def test_a_line_is_a_session_with_all_that_belongs_to_it(store, ada):
    session = store.open("talk", title="A title", metadata={"tags": ["a"], "x": {"$bytes": 1}})
    Session.objects.filter(pk=session.id).update(owner=ada, legal_hold=True, external_id="e")
    state = AgentState(ODD, [ODD], "internal", {"kept": [[0, 1]], "tail": 6})
    agent = store.agents.open(session, "first", dialect="strands", data=state)
    store.append_many(agent, [ODD, {"role": "user", "content": [{"text": "hi"}]}, None])
    store.agents.open(session, "second")
    store.multi_agents.create(session, "graph", {"nodes": [b"x"]}, kind="graph")

    [line] = exported()

    row = Session.objects.get()
    assert (line["format"], line["version"]) == ("django-agent-sessions", 1)
    assert line["session"]["id"] == str(row.pk)
    assert line["session"]["session_id"] == "talk"
    assert line["session"]["title"] == "A title"
    assert line["session"]["metadata"] == {"tags": ["a"], "x": {"$bytes": 1}}
    assert line["session"]["owner"] == {"id": str(ada.pk), "username": "ada"}
    assert line["session"]["legal_hold"] is True
    assert line["session"]["message_count"] == 3
    assert line["session"]["created_at"] == row.created_at.isoformat()
    first, second = line["agents"]
    assert (first["agent_id"], first["dialect"]) == ("first", "strands")
    assert exactly(first["state"]) == exactly(ODD)
    assert exactly(first["conversation_manager_state"]) == exactly([ODD])
    assert first["internal_state"] == "internal"
    assert first["window"] == {"kept": [[0, 1]], "tail": 6}
    assert exactly(messages_of(line)[0]) == exactly(ODD)
    assert messages_of(line)[2] is None
    assert (second["agent_id"], second["window"], second["messages"]) == ("second", None, [])
    for message, stored in zip(first["messages"], SessionMessage.objects.all(), strict=True):
        assert UUID(message["id"]) == stored.pk
        assert message["message_id"] == stored.message_id
        assert message["created_at"] == stored.created_at.isoformat()
        assert message["role"] == stored.role
        assert (message["redacted"], message["redacted_at"]) == (False, None)
    [graph] = line["multi_agents"]
    assert (graph["multi_agent_id"], graph["kind"]) == ("graph", "graph")
    assert graph["state"] == {"nodes": [b"x"]}


@given(value=json_values)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_payload_can_be_read_back_exactly(agent, value):
    update_content(SessionAgent.objects.filter(pk=agent.id), {"state": value})
    SessionMessage.objects.all().delete()
    SessionMessage.objects.create(
        session_id=agent.session, agent_id=agent.id, message_id=0, message=value
    )

    [line] = exported()

    assert exactly(line["agents"][0]["state"]) == exactly(value)
    assert exactly(messages_of(line)) == exactly([value])


def test_no_column_is_forgotten():
    """A new column must be exported, or be named here with the reason why not."""
    derived = {"text", "has_errors"}
    elsewhere = {"session", "agent", "owner"}
    as_one_value = {"message"}
    # An import makes no forks: nobody there has what these were copied from.
    of_forks = {"forked_from"}
    # By which writers and streams of this database find out what was committed.
    of_writers = {"last_write", "change", "removed_messages"}
    of_writers |= {"redaction_change", "header_change", "feedback_change"}
    for model, written in (
        (Session, SESSION_COLUMNS),
        (SessionAgent, AGENT_COLUMNS + AGENT_PAYLOADS),
        (SessionMessage, MESSAGE_COLUMNS),
        (SessionMultiAgent, MULTI_AGENT_COLUMNS + MULTI_AGENT_PAYLOADS),
        (MessageFeedback, FEEDBACK_COLUMNS + FEEDBACK_PAYLOADS),
        (Review, REVIEW_COLUMNS),
        (Note, NOTE_COLUMNS + NOTE_PAYLOADS),
        (Label, LABEL_COLUMNS),
    ):
        columns = {field.name for field in model._meta.concrete_fields}
        left_out = derived | elsewhere | as_one_value | of_forks | of_writers
        if model is MessageFeedback:
            # It stands in its message.
            left_out |= {"message"}
        if model in (Note, Label):
            # The key of a message, instead of the message itself; and a text that is no copy.
            left_out -= {"message", "text"}
        assert columns - left_out == set(written)


def test_what_was_redacted_is_there_only_as_it_was_redacted(store, agent):
    store.append_many(agent, [{"role": "user", "content": "plantedsecret"}, {"content": "b"}])
    redact(0)

    [line] = exported()

    message = line["agents"][0]["messages"][0]
    assert message["message"] == {"role": "user", "content": "[REDACTED]"}
    assert message["redacted"] is True
    assert message["redacted_at"] is not None
    assert "plantedsecret" not in str(line)


def test_a_corrupt_payload_is_kept_as_marked_text_and_hides_nothing(store, agent):
    store.append_many(agent, [{"content": "a"}, {"content": "b"}])
    set_raw(0, '{"half\n\u2028')

    [line] = exported()

    assert messages_of(line) == [None, {"content": "b"}]
    first, second = line["agents"][0]["messages"]
    assert first["corrupt"] == {"message": '{"half\n\u2028'}
    assert "corrupt" not in second


def test_a_payload_with_line_feeds_is_on_one_line_all_the_same(store, agent):
    store.append(agent, {})
    set_raw(0, '{\r\n "content":\n "a"}\n')

    assert messages_of(*exported()) == [{"content": "a"}]


def test_branches_follow_one_another(store, agent):
    store.append_many(agent, [{"content": "a"}, {"content": "b"}])
    SessionMessage.objects.create(
        session_id=agent.session,
        agent_id=agent.id,
        branch=1,
        message_id=1,
        message={"content": "c"},
    )

    [line] = exported()

    found = [(m["branch"], m["message_id"]) for m in line["agents"][0]["messages"]]
    assert found == [(0, 0), (0, 1), (1, 1)]


def test_long_conversations_and_many_sessions_come_whole_and_in_order(store):
    for number in range(3):
        agent = store.agents.open(store.open(f"s-{number}"))
        store.append_many(agent, [{"content": f"{number}-{n}"} for n in range(250)])

    lines = exported()

    assert [line["session"]["session_id"] for line in lines] == ["s-0", "s-1", "s-2"]
    for number, line in enumerate(lines):
        assert messages_of(line) == [{"content": f"{number}-{n}"} for n in range(250)]


def test_rows_and_sliced_querysets_are_exported_too(store):
    rows = [store.open(name) for name in ("a", "b", "c")]
    newest_first = Session.objects.order_by("-pk")

    assert len(exported(list(newest_first))) == 3
    assert [line["session"]["id"] for line in exported(newest_first[:2])] == [
        str(rows[2].id),
        str(rows[1].id),
    ]


def test_a_session_that_was_deleted_meanwhile_is_left_out(store):
    rows = [Session.objects.get(pk=store.open(name).id) for name in ("a", "b")]
    store.delete("a")

    assert [line["session"]["session_id"] for line in exported(rows)] == ["b"]


def test_exporting_changes_and_records_nothing(store, agent):
    store.append(agent, {"content": "a"})
    with CaptureQueriesContext(connection) as captured:
        exported()

    assert all(query["sql"].startswith("SELECT") for query in captured)


def test_a_long_conversation_is_never_in_memory_as_a_whole(store, agent):
    for _ in range(10):
        store.append_many(agent, [{"content": "x" * 200_000}] * 10)

    tracemalloc.start()
    try:
        written = sum(map(len, export_sessions(Session.objects.all())))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert written > 20_000_000
    assert peak < 10_000_000


def test_the_owner_is_a_value_that_survives_the_user(store, bob):
    Session.objects.filter(pk=store.open("s").id).update(owner=bob)

    assert exported()[0]["session"]["owner"]["username"] == "bob"
    assert get_user_model().objects.get() == bob
