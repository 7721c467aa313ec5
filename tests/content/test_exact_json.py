from __future__ import annotations

import enum
import json
import math
import sys
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions.content import exact_json
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.testing import error_texts
from tests.strategies import exactly, json_values


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(json_values)
def test_any_value_comes_back_exactly(value):
    assert exactly(exact_json.loads(exact_json.dumps(value))) == exactly(value)


@given(st.lists(json_values))
def test_many_values_come_back_as_each_of_them_does(values):
    texts = [exact_json.dumps(value) for value in values]

    assert exactly(exact_json.loads_all(texts)) == exactly(values)


@given(json_values)
def test_the_text_is_json_that_any_text_column_takes(value):
    text = exact_json.dumps(value)

    assert "\x00" not in text
    assert text.encode().decode() == text
    json.loads(text)


@pytest.mark.parametrize(
    "value",
    [
        {"$bytes": "AA=="},
        {"$bytes": None},
        {"$$bytes": "AA=="},
        {"$$$bytes": {"$bytes": {"$$bytes": b"x"}}},
        {"$bytes": 1, "more": 2},
        {"$bytes\n": 1},
        {"text": '{"$bytes":"AA=="}'},
        {"__bytes_encoded__": True, "data": "AA=="},
        [{"$bytes": b""}],
    ],
)
def test_what_only_looks_like_a_marker_is_left_as_it_is(value):
    assert exactly(exact_json.loads(exact_json.dumps(value))) == exactly(value)


def test_readable_text_stays_readable_in_the_database():
    assert exact_json.dumps({"b": "josé 日本語 🐇", "a": [1, None]}) == (
        '{"b":"josé 日本語 🐇","a":[1,null]}'
    )


def test_bytes_like_values_and_subclasses_are_stored_as_what_they_are():
    point = namedtuple("point", "x y")

    class Colour(str, enum.Enum):  # noqa: UP042 - whose str() is its name
        RED = "red"

    class Level(enum.IntEnum):
        HIGH = 3

    class Text(str):
        def __str__(self) -> str:
            return "not what it is"

    class Ratio(float):
        def __repr__(self) -> str:
            return "not a number"

    value = OrderedDict(
        [
            (Colour.RED, Colour.RED),
            ("level", Level.HIGH),
            (Text("text"), Text("text")),
            ("ratio", Ratio(0.5)),
            ("tuple", (1, point(2, 3))),
            ("bytes", [bytearray(b"a"), memoryview(b"b")]),
        ]
    )

    assert exactly(exact_json.loads(exact_json.dumps(value))) == exactly(
        {
            "red": "red",
            "level": 3,
            "text": "text",
            "ratio": 0.5,
            "tuple": [1, [2, 3]],
            "bytes": [b"a", b"b"],
        }
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({b"x": "x"}, "a dict key is of type bytes, at depth 1"),
        ({"a": {(1,): "x"}}, "a dict key is of type tuple, at depth 2"),
        ({10**4300: "x"}, "an integer has more than"),
        ({"a": {1, 2}}, "of type set at depth 2"),
        (object(), "of type object"),
        (1j, "of type complex"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(value, said):
    with pytest.raises(PayloadError, match=said):
        exact_json.dumps(value)


def test_a_refusal_never_tells_the_content():
    for value in (
        {"plantedsecret": {("plantedsecret",): 1}},
        ["plantedsecret", 1j],
        ["plantedsecret" * 10, object],
    ):
        with pytest.raises(PayloadError) as refusal:
            exact_json.dumps(value)
        assert "plantedsecret" not in error_texts(refusal.value)


def test_nesting_is_taken_up_to_the_limit_and_not_beyond(settings):
    for limit in (200, 3):
        settings.AGENT_SESSIONS = {"MAX_PAYLOAD_DEPTH": limit}
        assert exact_json.loads(exact_json.dumps(nested(limit))) == nested(limit)
        with pytest.raises(PayloadError, match=f"deeper than {limit} "):
            exact_json.dumps(nested(limit + 1))


def test_nesting_counts_lists_dicts_and_tuples_alike(settings):
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_DEPTH": 3}
    exact_json.dumps({"a": ({"b": 1},)})
    with pytest.raises(PayloadError):
        exact_json.dumps({"a": ({"b": ()},)})


def test_a_value_inside_itself_is_refused():
    value: list[Any] = []
    value.append({"again": value})
    with pytest.raises(PayloadError):
        exact_json.dumps(value)


def test_nesting_that_python_itself_cannot_follow_is_refused(settings):
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_DEPTH": 1_000_000}
    with pytest.raises(PayloadError, match="deeper than Python"):
        exact_json.dumps(nested(100_000))


def test_text_that_python_cannot_follow_is_a_value_error():
    with pytest.raises(ValueError, match="nested too deeply"):
        exact_json.loads("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        exact_json.loads_all(["1", "[" * 100_000])


@pytest.mark.parametrize("limit", [4300, 20, 19, 100])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_are_taken_up_to_the_limit_and_not_beyond(settings, limit, sign):
    settings.AGENT_SESSIONS = {"MAX_INTEGER_DIGITS": limit}
    largest = sign * (10**limit - 1)

    assert exact_json.loads(exact_json.dumps([largest])) == [largest]
    with pytest.raises(PayloadError, match=f"more than {limit} digits"):
        exact_json.dumps([largest + sign])


def test_no_setting_allows_more_digits_than_python_reads(settings):
    settings.AGENT_SESSIONS = {"MAX_INTEGER_DIGITS": 10_000}
    with pytest.raises(PayloadError, match="4300 digits"):
        exact_json.dumps(10**4300)


def test_an_interpreter_that_allows_less_says_so():
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with pytest.raises(PayloadError, match="set_int_max_str_digits"):
            exact_json.dumps({"n": 10**1000})
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("letter", ["a", "é", "🐇", "\ud800", "\x00"])
def test_size_is_counted_in_bytes_of_the_text(settings, letter):
    value = {"text": letter * 100}
    size = len(exact_json.dumps(value).encode())

    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": size}
    exact_json.dumps(value)
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": size - 1}
    with pytest.raises(PayloadError, match=f"is {size} bytes .* allows {size - 1}"):
        exact_json.dumps(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nonsense",
        "NaN",
        "[Infinity]",
        '{"a":1} more',
        '{"$bytes":"%"}',
        '{"$bytes":1}',
        '{"$bytes":null}',
        "1" * 4301,
    ],
)
def test_text_that_was_not_written_here_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        exact_json.loads(text)
    for texts in ([text], [text, "1"], ["1", text]):
        with pytest.raises(ValueError, match=r"."):
            exact_json.loads_all(texts)


@pytest.mark.parametrize(
    "value",
    ["\ud83d\ude00", {"a": ["x\ud83d\ude00y", "\U0001f600"]}, {"$text": "eA=="}, {"$$text": b"x"}],
)
def test_texts_in_which_surrogates_meet_and_their_look_alikes_come_back_equal(value: Any) -> None:
    assert exact_json.loads(exact_json.dumps(value)) == value


def test_a_key_in_which_surrogates_meet_is_refused() -> None:
    with pytest.raises(PayloadError, match="dict key"):
        exact_json.dumps({"\ud83d\ude00": 1})


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        [math.inf, -math.inf, {"a": math.nan}],
        {"$float": "NaN"},
        {"$float": 1},
        {"$$float": math.nan},
        {"$float": "NaN", "b": math.nan},
    ],
)
def test_what_is_not_finite_and_its_look_alikes_are_valid_json_and_come_back(value: Any) -> None:
    text = exact_json.dumps(value)

    json.loads(text, parse_constant=pytest.fail)
    assert exactly(exact_json.loads(text)) == exactly(value)
    assert exact_json.loads(text) == exact_json.loads_all([text])[0] or value != value


def test_a_look_alike_of_an_earlier_version_is_no_number() -> None:
    assert exact_json.loads('{"$float":"1.5"}') == {"$float": "1.5"}
    assert exact_json.loads('{"$float":["NaN"]}') == {"$float": ["NaN"]}


keys = st.one_of(st.text(max_size=3), st.none(), st.booleans(), st.integers(), st.floats())


@given(st.recursive(st.floats(), lambda values: st.dictionaries(keys, values, max_size=5)))
def test_keys_that_are_no_strings_come_back_as_from_python_s_json(value: Any) -> None:
    text = exact_json.dumps(value)

    json.loads(text, parse_constant=pytest.fail, object_pairs_hook=_without_equal_keys)
    assert exactly(exact_json.loads(text)) == exactly(json.loads(json.dumps(value)))


def _without_equal_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # A redaction sees only the last of them.
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_of_two_keys_that_become_equal_the_later_value_is_kept() -> None:
    assert exact_json.dumps({1: "plantedsecret", "a": 2, "1": "b"}) == '{"1":"b","a":2}'
