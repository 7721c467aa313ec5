from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID, uuid4

import pytest

from django_agent_sessions.exceptions import AgentSessionsError, InvalidIdError
from django_agent_sessions.testing import HOSTILE_IDS, INVALID_IDS, error_texts
from django_agent_sessions.values.ids import (
    MAX_ID_LENGTH,
    first_id_for_time,
    id_for_time,
    is_primary_key,
    may_be_issued,
    new_id,
    time_of_id,
    validate_id,
    validate_namespace,
)


@pytest.mark.parametrize("value", [*HOSTILE_IDS, "a", "...", "a.", "\u200f", "e\u0301", "🏴‍☠️"])
def test_an_id_is_any_text_that_can_be_told_apart(value):
    assert validate_id(value) == value


@pytest.mark.parametrize("value", [*INVALID_IDS, "\u2003", "a\tb", "a\x7f", "\x85", "a\udcff"])
def test_an_id_that_cannot_be_one_is_refused(value):
    with pytest.raises(InvalidIdError, match=r"^agent_id "):
        validate_id(value, "agent_id")


@pytest.mark.parametrize("value", [None, 1, b"user-1", ["user-1"], object()])
def test_an_id_that_is_no_text_is_refused_by_its_type(value):
    with pytest.raises(InvalidIdError, match=f"or a UUID, not {type(value).__name__}"):
        validate_id(value)


def test_a_uuid_is_an_id_as_its_string_is():
    key = UUID("01890000-0000-7000-8000-000000000001")
    assert validate_id(key) == str(key)


def test_an_id_may_be_as_long_as_the_column_and_no_longer():
    validate_id("🐇" * MAX_ID_LENGTH)
    with pytest.raises(InvalidIdError, match="has 256 characters; at most 255"):
        validate_id("🐇" * (MAX_ID_LENGTH + 1))


def test_an_invalid_id_is_a_value_error_and_one_of_ours():
    with pytest.raises(ValueError, match="blank") as refusal:
        validate_id(" ")
    assert isinstance(refusal.value, AgentSessionsError)


def test_a_refused_id_is_not_repeated_as_it_may_hold_anything():
    with pytest.raises(InvalidIdError) as refusal:
        validate_id("plantedsecret\n")
    assert "plantedsecret" not in error_texts(refusal.value)


def test_only_a_namespace_may_be_empty():
    assert validate_namespace("") == ""
    assert validate_namespace("support/bot") == "support/bot"
    with pytest.raises(InvalidIdError, match="namespace must not be blank"):
        validate_namespace(" ")


def test_new_ids_are_uuids_of_version_7_in_order_of_time():
    first = new_id()
    time.sleep(0.002)
    second = new_id()

    assert (first.version, first.variant) == (7, RFC_4122)
    assert first < second
    assert is_primary_key(first)
    assert not is_primary_key(uuid4())
    assert len({new_id() for _ in range(10_000)}) == 10_000


def test_a_key_of_the_past_stands_where_it_belongs_in_time():
    past = datetime(2020, 1, 1, tzinfo=UTC)
    keys = [id_for_time(past, place) for place in (0, 1, 4095, 4096, 2**23, 2**24 - 1)]
    keys += [id_for_time(past + timedelta(milliseconds=1), 0), new_id()]

    assert keys == sorted(keys)
    assert {(key.version, key.variant) for key in keys} == {(7, RFC_4122)}
    assert len({id_for_time(past, 5) for _ in range(1000)}) == 1000
    # What has no place in a key stands at its edge.
    assert id_for_time(datetime(1950, 1, 1, tzinfo=UTC), -1) < keys[0]
    assert id_for_time(past, 2**40) > keys[4]


def test_what_is_made_from_a_moment_on_is_found_by_its_key():
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    first = first_id_for_time(moment)

    assert (first.version, first.variant) == (7, RFC_4122)
    assert (
        id_for_time(moment - timedelta(milliseconds=1), 2**24 - 1) < first <= id_for_time(moment, 0)
    )
    assert time_of_id(first) == time_of_id(id_for_time(moment, 0)) == moment
    # Without a time zone it is the clock's.
    assert time_of_id(first_id_for_time(datetime(2026, 1, 2))) == datetime(2026, 1, 2).astimezone(
        UTC
    )
    assert time_of_id(first_id_for_time(datetime(1950, 1, 1, tzinfo=UTC))).year == 1970


def test_a_key_may_be_issued_until_tomorrow():
    now = datetime.now(UTC)
    for moment in (now, datetime(1999, 1, 1, tzinfo=UTC)):
        assert may_be_issued(id_for_time(moment, 0))
    for moment in (now + timedelta(days=2), datetime(9999, 1, 1, tzinfo=UTC)):
        assert not may_be_issued(id_for_time(moment, 0))
    assert not may_be_issued(uuid4())
