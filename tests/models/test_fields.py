from __future__ import annotations

import copy
import pickle

import pytest
from django.core import serializers
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload, ExactJSONField
from tests.strategies import exactly, json_values


def set_raw(message_id: int, text: str) -> None:
    """Writes into a message's payload past all that guards it."""
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {quote('agent_sessions_sessionmessage')} SET {quote('message')} = %s "
            f"WHERE {quote('message_id')} = %s",
            [text, message_id],
        )


@given(value=json_values)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_comes_back_exactly_from_the_database(agent, value):
    SessionAgent.objects.filter(pk=agent.id).update(state=value)

    assert exactly(SessionAgent.objects.get(pk=agent.id).state) == exactly(value)


def test_a_payload_may_be_missing_only_where_the_column_may(agent):
    SessionAgent.objects.filter(pk=agent.id).update(state=None, window=None)

    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {quote('state')}, {quote('window')} "
            f"FROM {quote('agent_sessions_sessionagent')}"
        )
        assert cursor.fetchone() == ("null", None)
    row = SessionAgent.objects.get(pk=agent.id)
    assert (row.state, row.window) == (None, None)


def test_a_payload_over_a_limit_is_refused_before_the_database_sees_it(agent, settings):
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 10}
    refused = pytest.raises(PayloadError)
    with CaptureQueriesContext(connection) as captured, refused, transaction.atomic():
        SessionAgent.objects.filter(pk=agent.id).update(state="x" * 100)

    assert not [query for query in captured.captured_queries if "UPDATE" in query["sql"].split()[0]]
    assert SessionAgent.objects.get().state == {}


@pytest.mark.parametrize("text", ["", "{", "NaN", '{"$bytes":"%"}', "[" * 5000, "1" * 5000])
def test_what_is_no_payload_reads_as_corrupt_and_can_be_written_back(agent, store, text):
    store.append(agent, {})
    set_raw(0, text)

    message = SessionMessage.objects.get()
    assert message.message == CorruptPayload(text)
    message.save()
    assert SessionMessage.objects.get().message == CorruptPayload(text)


def test_a_corrupt_payload_shows_its_size_and_not_its_text():
    corrupt = CorruptPayload("plantedsecret")

    for shown in (repr(corrupt), str(corrupt), f"{corrupt}"):
        assert shown == "<CorruptPayload of 13 characters>"
    assert pickle.loads(pickle.dumps(corrupt)) == copy.deepcopy(corrupt) == corrupt  # noqa: S301 - our own pickle


@pytest.mark.parametrize("serialization", ["json", "xml", "jsonl", "python"])
def test_fixtures_keep_payloads_exactly(agent, store, serialization):
    values = [
        {"z": 1, "a": b"\x00\xff", "m": {"$bytes": "x"}},
        "nul \x00 and \ud800 <b>&amp;</b>",
        10**400,
        -0.0,
        1.5,
        True,
        None,
        [],
        "",
        "null",
        '{"a": 1}',
    ]
    store.append_many(agent, values)
    store.messages.redact(agent, 0, {"b": b"redacted", "a": 1})
    rows = [*Session.objects.all(), *SessionAgent.objects.all(), *SessionMessage.objects.all()]

    fixture = serializers.serialize(serialization, rows)
    Session.objects.all().delete()
    for restored in serializers.deserialize(serialization, fixture):
        restored.save()

    assert exactly(store.payloads(agent)) == exactly([{"b": b"redacted", "a": 1}, *values[1:]])
    assert exactly(store.messages.find(agent, 0).redact_message) == exactly(
        {"b": b"redacted", "a": 1}
    )
    assert store.messages.find(agent, 1).redact_message is None


def test_the_field_is_built_again_from_what_it_deconstructs_to():
    _, path, arguments, options = ExactJSONField(null=True, default=dict).deconstruct()

    assert path == "django_agent_sessions.models.fields.ExactJSONField"
    assert arguments == []
    assert options == {"null": True, "default": dict}
