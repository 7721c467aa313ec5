from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

from django_agent_sessions.content.dialects import TEXT_CAP
from django_agent_sessions.exceptions import (
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.testing import error_texts
from django_agent_sessions.values.records import AgentState, Append, NewMessage, Usage
from tests.strategies import exactly, json_values

pytestmark = pytest.mark.django_db


def user(text: str) -> dict:
    return {"role": "user", "content": text}


@given(values=json_values.map(lambda value: [value, {"role": "user", "content": [value]}]))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_comes_back_exactly_by_every_road(agent, store, values):
    store.clear(agent)
    written = store.append_many(agent, values)

    assert exactly(store.payloads(agent)) == exactly(values)
    assert exactly(store.payloads(agent, latest=2)) == exactly(values)
    assert exactly([row[1] for row in store.messages.restore(agent)]) == exactly(values)
    # By their texts: NaN is not equal to itself.
    assert (
        repr(store.messages.list(agent)) == repr(store.messages.latest(agent, 2)) == repr(written)
    )
    assert exactly([record.content for record in store.messages.list(agent)]) == exactly(values)
    assert exactly(store.pop(agent)) == exactly(values[1])


def test_positions_are_dense_from_zero_whoever_appends(store, agent):
    first = store.append(agent, user("a"))
    rest = store.append_many(agent, [user("b"), user("c")])
    other = store.append(store.agents.open(store.open("session-1"), "other"), user("d"))

    assert [record.message_id for record in (first, *rest, other)] == [0, 1, 2, 0]


def test_what_is_returned_is_what_is_read(store, agent):
    run = uuid4()
    written = store.append(agent, user("Hi"), run_id=run)

    assert store.messages.find(agent, 0) == written
    assert (written.message, written.content) == (user("Hi"), user("Hi"))
    assert (written.role, written.run_id, written.revision) == ("user", run, 0)
    assert written.redact_message is None
    assert abs(datetime.now(UTC) - written.created_at) < timedelta(minutes=1)


def test_a_message_can_bring_its_own_key_and_times(store, agent):
    created = datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    new = NewMessage(user("old"), created_at=created)

    written = store.append(agent, new)

    assert store.messages.find(agent, 0) == written
    assert (written.id, written.created_at, written.updated_at) == (new.id, created, created)


def test_a_batch_is_said_at_one_moment(store, agent):
    known = NewMessage(user("old"), created_at=datetime(2020, 2, 3, tzinfo=UTC))
    first, old, last = store.append_many(agent, [user("a"), known, user("b")])
    assert first.created_at == first.updated_at == last.created_at == last.updated_at
    assert old.created_at == old.updated_at == known.created_at
    assert store.messages.list(agent) == [first, old, last]


def test_what_an_earlier_attempt_wrote_is_no_other_writer(store, agent):
    batch = [NewMessage(user(text), id=uuid4()) for text in "ab"]
    store.append_many(agent, batch, expected=0)
    third = NewMessage(user("c"), id=uuid4())

    written = store.append_many(agent, [*batch, third], expected=0, again=True)

    assert [record.message_id for record in written] == [0, 1, 2]
    with pytest.raises(SessionConflictError):
        store.append_many(agent, [user("d")], expected=0, again=True)


def test_the_same_message_again_is_the_same_message(store, agent):
    batch = [NewMessage(user("a")), NewMessage(user("b"))]
    first = store.append_many(agent, batch[:1])

    again = store.append_many(agent, batch, again=True)
    once_more = store.append_many(agent, batch, again=True)

    assert again[0].message_id == first[0].message_id == 0
    assert [record.message_id for record in once_more] == [0, 1]
    assert store.payloads(agent) == [user("a"), user("b")]
    assert store.sessions.usage("session-1") == Usage(2)


@pytest.mark.parametrize("count", [0, 1, 2, 200, 201, 450])
def test_a_batch_of_any_length_is_one_piece(store, agent, count):
    store.append(agent, user("before"))

    records = store.append_many(agent, [user(str(number)) for number in range(count)])

    assert [record.message_id for record in records] == list(range(1, count + 1))
    assert store.payloads(agent)[1:] == [user(str(number)) for number in range(count)]
    assert store.sessions.usage("session-1").messages == count + 1


def test_a_batch_of_large_messages_is_one_piece(store, agent):
    batch = [user(letter * 1_500_000) for letter in "abcd"]

    store.append_many(agent, batch)

    assert store.payloads(agent) == batch


def test_one_bad_message_leaves_nothing_of_its_batch(store, agent, django_assert_num_queries):
    with django_assert_num_queries(0), pytest.raises(PayloadError):
        store.append_many(agent, [user("good"), {"bad": object()}])

    assert store.payloads(agent) == []
    assert store.sessions.usage("session-1") == Usage()


def test_a_message_of_several_megabytes(store, agent):
    message = {"role": "user", "content": "é" * 3_000_000, "raw": bytes(1_000_000)}

    store.append(agent, message)

    assert store.payloads(agent) == [message]
    assert len(SessionMessage.objects.get().text) == TEXT_CAP


@pytest.mark.django_db(transaction=True)
def test_what_the_server_cannot_take_is_refused_and_the_connection_lives(store):
    agent = store.agents.open(store.open("s"))
    large = "plantedsecret\\'" + "x" * 20 * 1024 * 1024
    writes = [
        lambda: store.append(agent, user(large)),
        lambda: store.append_many(agent, [user("a"), user(large)]),
    ]
    with transaction.atomic():
        store.append(agent, user("before"))
        raw = connection.connection
        for write in writes:
            if connection.vendor == "mysql":
                with pytest.raises(PayloadError, match="max_allowed_packet") as refusal:
                    write()
                assert "plantedsecret" not in error_texts(refusal.value)
            else:
                write()
        store.append(agent, user("after"))
        assert connection.connection is raw

    small = [message for message in store.payloads(agent) if len(message["content"]) < 10]
    assert small[0] == user("before")
    assert small[-1] == user("after")
    assert len(small) == (2 if connection.vendor == "mysql" else 3)


# Over a second: seven payloads of 20 megabytes are written.
def test_an_update_or_state_that_the_server_cannot_take_is_refused_too(store, session, agent):
    store.append(agent, user("a"))
    store.multi_agents.create(session, "graph", {})
    large = {"role": "user", "content": "x" * 20 * 1024 * 1024}
    for write in (
        lambda: store.messages.update(agent, 0, large),
        lambda: store.messages.redact(agent, 0, large),
        lambda: store.agents.update(agent, AgentState(state=large)),
        lambda: store.agents.create(session, "large", data=AgentState(internal_state=large)),
        lambda: store.multi_agents.update(session, "graph", large),
        lambda: store.multi_agents.create(session, "large", large),
        lambda: store.open("large", metadata=large),
    ):
        if connection.vendor == "mysql":
            with pytest.raises(PayloadError, match="max_allowed_packet"):
                write()
        else:
            write()

    store.append(agent, user("alive"))
    assert store.payloads(agent)[-1] == user("alive")


# --- columns ---------------------------------------------------------------------------------


def test_neutral_columns_are_read_from_the_payload_by_its_dialect(store, session):
    agent = store.agents.open(session, "strands", dialect="strands")
    store.append(
        agent,
        {
            "role": "assistant",
            "content": [{"text": "Hello"}, {"text": "there"}],
            "metadata": {
                "usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10},
                "metrics": {"latencyMs": 1200},
            },
        },
    )

    row = SessionMessage.objects.get()
    assert (row.role, row.text) == ("assistant", "Hello\nthere")
    assert (row.input_tokens, row.output_tokens, row.latency_ms) == (7, 3, 1200)
    assert store.sessions.usage("session-1") == Usage(1, 7, 3)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("nul \x00 and \ud800", "nul \ufffd and \ufffd"),
        ("🐇" * (TEXT_CAP + 1), "🐇" * TEXT_CAP),
        ("", ""),
        (None, ""),
        (10**400, ""),
    ],
)
def test_text_is_capped_and_fit_for_every_column_and_page(store, agent, content, text):
    store.append(agent, {"role": "user", "content": content})

    assert SessionMessage.objects.get().text == text
    assert store.payloads(agent) == [{"role": "user", "content": content}]


@pytest.mark.parametrize(
    "figures",
    [
        {"inputTokens": -1, "outputTokens": 10**400},
        {"inputTokens": 2**63, "outputTokens": "many"},
        {"inputTokens": 1.5, "outputTokens": None},
        {"inputTokens": float("1e300"), "outputTokens": True},
        "none",
    ],
)
def test_figures_that_are_none_do_not_cost_the_message(store, session, figures):
    agent = store.agents.open(session, "strands", dialect="strands")
    message = {"role": "r" * 100, "content": [], "metadata": {"usage": figures, "metrics": figures}}

    with transaction.atomic():
        store.append(agent, message)
        assert store.payloads(agent) == [message]

    assert store.sessions.usage("session-1").messages == 1


# --- conditions ------------------------------------------------------------------------------


def test_an_expected_position_holds_or_nothing_is_written(store, agent):
    store.append(agent, user("a"), expected=0)
    with transaction.atomic():
        for write in (
            lambda: store.append(agent, user("b"), expected=0),
            lambda: store.append(agent, user("b"), expected=2),
            lambda: store.append_many(agent, [user("b"), user("c")], expected=0),
            lambda: store.append_many(agent, [user("b")] * 450, expected=0),
        ):
            with pytest.raises(SessionConflictError, match="another writer"):
                write()
        store.append_many(agent, [user("b"), user("c")], expected=1)

    assert store.payloads(agent) == [user("a"), user("b"), user("c")]
    assert store.sessions.usage("session-1").messages == 3


def test_an_epoch_holds_or_nothing_is_written(store, agent):
    store.append(agent, user("secret"), epoch=0)
    epoch = store.messages.redact(agent, 0, user("[gone]"))
    with transaction.atomic():
        for write in (
            lambda: store.append(agent, user("secret, he said"), epoch=0),
            lambda: store.append_many(agent, [user("secret")] * 450, epoch=0),
        ):
            with pytest.raises(StaleSessionError, match="content was redacted"):
                write()
        store.append(agent, user("b"), epoch=epoch)

    assert store.payloads(agent) == [user("[gone]"), user("b")]


def test_appending_to_what_was_deleted_says_so(store, session, agent):
    store.delete("session-1")

    with transaction.atomic():
        for write in (
            lambda: store.append(agent, user("plantedsecret")),
            lambda: store.append_many(agent, [user("plantedsecret")] * 3),
            lambda: store.append_many(agent, [user("plantedsecret")] * 450),
            lambda: store.append(agent, user("plantedsecret"), epoch=0, expected=0),
        ):
            with pytest.raises(SessionNotFoundError, match="agent 'default'") as refusal:
                write()
            assert "plantedsecret" not in error_texts(refusal.value)
        store.open("fine")


# --- updates ---------------------------------------------------------------------------------


def test_a_message_is_replaced_with_all_its_columns(store, agent):
    store.append_many(agent, [user("a"), user("plantedsecret"), user("c")])

    store.messages.update(agent, 1, {"role": "assistant", "content": "B", "x": b"\x00"})

    record = store.messages.find(agent, 1)
    assert record.message == {"role": "assistant", "content": "B", "x": b"\x00"}
    assert (record.role, record.revision) == ("assistant", 1)
    assert record.updated_at > record.created_at
    assert SessionMessage.objects.get(message_id=1).text == "B"
    assert len(store.payloads(agent)) == 3


def test_replacing_what_is_not_there_says_so(store, agent):
    store.append(agent, user("a"))
    with transaction.atomic():
        with pytest.raises(SessionNotFoundError, match="the message does not exist"):
            store.messages.update(agent, 1, user("b"))
        with pytest.raises(PayloadError):
            store.messages.update(agent, 0, {(1,): 2})

    assert store.payloads(agent) == [user("a")]


# --- corrupt rows ----------------------------------------------------------------------------


@pytest.fixture
def damaged(store, agent):
    store.append_many(agent, [user(text) for text in "abcdef"])
    SessionMessage.objects.filter(message_id__in=[2, 4]).update(
        message=CorruptPayload('{"plantedsecret')
    )
    return agent


def test_a_corrupt_message_is_left_out_and_reported_by_every_road(store, damaged, caplog):
    kept = [user(text) for text in "abdf"]
    for read in (
        lambda: store.payloads(damaged),
        lambda: [row[1] for row in store.messages.restore(damaged)],
        lambda: [record.content for record in store.messages.list(damaged)],
        lambda: [record.content for record in store.messages.latest(damaged, 6)],
        lambda: store.payloads(damaged, latest=4),
    ):
        caplog.clear()
        assert read() == kept
        for position in (2, 4):
            assert f"message {position} of agent default" in caplog.text
        assert str(damaged.id) in caplog.text
        assert "plantedsecret" not in caplog.text
    assert store.messages.find(damaged, 2) is None
    assert store.messages.find(damaged, 3).content == user("d")


@pytest.mark.parametrize("latest", range(8))
def test_the_latest_payloads_are_as_many_as_wanted_beside_corrupt_ones(store, damaged, latest):
    kept = [user(text) for text in "abdf"]

    assert store.payloads(damaged, latest=latest) == (kept[-latest:] if latest else [])


def test_a_corrupt_message_is_popped_past(store, damaged):
    assert [store.pop(damaged) for _ in range(5)] == [*(user(text) for text in "fdba"), None]
    assert store.sessions.usage("session-1").messages == 0
    assert SessionMessage.objects.count() == 0


def test_corrupt_messages_that_a_pop_deletes_are_reported(store, damaged, caplog):
    SessionMessage.objects.filter(message_id=5).update(message=CorruptPayload('{"plantedsecret'))

    assert store.pop(damaged) == user("d")

    row = f"of agent default (row {damaged.id}) is corrupt and was deleted"
    assert caplog.messages == [f"message 5 {row}", f"message 4 {row}"]
    caplog.clear()
    assert store.pop(damaged) == user("b")
    assert caplog.messages == [f"message 2 {row}"]
    assert "plantedsecret" not in caplog.text


def test_a_corrupt_message_can_be_redacted(store, damaged):
    store.messages.redact(damaged, 2, user("[gone]"))

    assert store.payloads(damaged)[2] == user("[gone]")


def test_an_id_of_another_conversation_is_refused_and_changes_nothing(store, agent):
    other = store.agents.open(store.open("other"))
    new = NewMessage({"role": "user", "content": "theirs"})
    store.append(other, new)
    mine = NewMessage({"role": "user", "content": "mine"}, id=new.id)

    for again in (False, True):
        with pytest.raises(SessionConflictError, match="another conversation"):
            store.append(agent, mine, again=again)
    (result,) = store.write_batch([Append(agent, [mine])])

    assert isinstance(result, SessionConflictError)
    assert store.payloads(agent) == []
    assert store.payloads(other) == [{"role": "user", "content": "theirs"}]
