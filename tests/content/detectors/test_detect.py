"""One list of places out of what several detectors say."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions.content.detectors import Detection, available, detect, load

from .made import MADE


class Words:
    """Finds fixed words."""

    def __init__(self, name, *words):
        self.name = name
        self.words = words

    def find(self, text):
        return [m.span() for word in self.words for m in re.finditer(re.escape(word), text)]


class Says:
    """Says whatever it was told."""

    name = "says"

    def __init__(self, *places):
        self.places = places

    def find(self, text):
        return self.places


def test_the_places_come_in_order_and_name_their_kind():
    text = "10.1.2.3 wrote to ada@example.com"
    assert detect(text, load(["email", "ip"])) == [
        Detection(0, 8, "ip"),
        Detection(18, 33, "email"),
    ]


def test_the_longest_of_what_overlaps_names_the_kind():
    using = [Words("short", "secret"), Words("long", "secret plan")]
    assert detect("a secret plan", using) == [Detection(2, 13, "long")]


def test_the_order_decides_between_equals():
    using = [Words("first", "same"), Words("second", "same")]
    assert detect("same", using) == [Detection(0, 4, "first")]
    assert detect("same", using[::-1]) == [Detection(0, 4, "second")]


def test_nothing_of_what_overlaps_stays_outside():
    using = [Words("left", "abcdef"), Words("right", "efgh")]
    assert detect("abcdefgh", using) == [Detection(0, 8, "left")]


def test_places_that_only_touch_stay_apart():
    using = [Words("left", "abc"), Words("right", "def")]
    assert detect("abcdef", using) == [Detection(0, 3, "left"), Detection(3, 6, "right")]


@pytest.mark.parametrize("place", [(-1, 2), (2, 2), (3, 1), (0, 99)])
def test_places_that_are_none_are_left_out(place):
    assert detect("text", [Says(place)]) == []


def test_a_detector_may_name_the_kind_of_each_place():
    assert detect("text", [Says((0, 1, "person"), (2, 3))]) == [
        Detection(0, 1, "person"),
        Detection(2, 3, "says"),
    ]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_whatever_detectors_say_all_is_covered_and_nothing_twice(places):
    text = "x" * 20
    found = detect(text, [Says(*places[::2]), Says(*places[1::2])])
    covered = {i for start, end in places if start < end for i in range(start, end)}
    assert {i for d in found for i in range(d.start, d.end)} == covered
    assert sum(d.end - d.start for d in found) == len(covered)
    assert found == sorted(found)


@given(
    st.recursive(
        st.text() | st.one_of([MADE[name] for name in sorted(MADE)]) | st.integers(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=8,
    ),
    st.booleans(),
)
def test_json_stays_json_when_what_was_found_in_its_strings_is_masked(value, ascii_only):
    text = json.dumps({"quoted": json.dumps([value, "x"], ensure_ascii=ascii_only)})
    for place in reversed(detect(text, load(["email", "private_key", "jwt", "api_key"]))):
        text = f"{text[: place.start]}[REDACTED]{text[place.end :]}"
    json.loads(json.loads(text)["quoted"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\nada@example.com", "ada@example.com"),
        (r"\"ada@example.com\"", "ada@example.com"),
        (r"ada\u0040example.com", r"ada\u0040example.com"),
        (r"\\\\nada@example.com\\\\t", "ada@example.com"),
        (r"\xe9 ada@example.com", "ada@example.com"),
    ],
)
def test_an_escape_is_read_as_what_it_stands_for(text, found):
    start = text.index(found)
    assert detect(text, load(["email"])) == [Detection(start, start + len(found), "email")]


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "\ud800", "\\", "\\u12", "İ" * 50 + " password=hunter2"]
)
def test_odd_texts_do_no_harm(text):
    assert [d.kind for d in detect(text, available())] == ["api_key"] * text.count("hunter2")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ada@example.com.pdf", "ada@example.com"),
        ("the file carol@example.co.uk.txt", "carol@example.co.uk"),
        ("logo@2x.de.png", None),
        ("weights@x.de.json()", None),
        ("icons@main.min.js", None),
    ],
)
def test_an_address_is_found_in_the_name_of_a_file(text, found):
    assert [text[each.start : each.end] for each in detect(text, load(["email"]))] == (
        [found] if found else []
    )
