"""What a redaction took away is found out from before and after, and taken away elsewhere."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions.content.masking import (
    TextFinder,
    find_matches,
    mask_texts,
    mask_texts_in_place,
    mask_tree,
    masked_texts,
)

from .payloads import FINDERS, HIDING_PLACES, SECRET, holds_secret, words

SPLIT = ("two", "around", "summary")


@pytest.mark.parametrize(
    "place", [place for place in HIDING_PLACES if not any(word in place for word in SPLIT)]
)
def test_what_was_taken_away_is_known_and_nothing_else(place):
    payload = HIDING_PLACES[place](f"b {SECRET} b")
    masked, _ = mask_tree(payload, FINDERS)

    secrets = masked_texts(payload, masked)

    assert secrets
    if "signed" not in place:
        assert {find_matches(text, [TextFinder(SECRET)])[0].start for text in secrets} == {0}
        assert all(len(text) <= len(json.dumps(SECRET)) for text in secrets)
    assert not holds_secret(mask_texts({"copy": f"as I said: b {SECRET} b"}, secrets)) or (
        "signed" in place
    )


_states = st.recursive(
    st.one_of(words, st.just("plantedsecret"), st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(words, st.just("plantedsecret")), inner, max_size=3),
        inner.map(json.dumps),
    ),
    max_leaves=12,
)


@given(_states)
def test_any_state_of_before_becomes_that_of_after(state):
    before = {"state": state, "said": ["it is plantedsecret"]}
    after, _ = mask_tree(before, [TextFinder("plantedsecret")], free=True)

    secrets = masked_texts(before, after)

    assert "plantedsecret" in secrets
    assert "plantedsecret" not in json.dumps(mask_texts(before, secrets))
    assert "plantedsecret" not in json.dumps(mask_texts({"other": before}, secrets))
    mine = copy.deepcopy(before)
    assert mask_texts_in_place(mine, secrets, free=True)
    assert mine == mask_texts(before, secrets)
    assert not mask_texts_in_place(mine, secrets, free=True)


@given(_states, _states)
def test_what_was_only_changed_is_no_redaction(one, other):
    assert masked_texts({"a": one}, {"a": other}) == set()
    assert masked_texts(one, one) == set()


def test_a_number_and_a_key_that_were_masked_are_known():
    before = {"input": {"card": 41114111, "plantedsecret": {"a": 1}}}
    after, _ = mask_tree(before, [TextFinder("41114111"), TextFinder("plantedsecret")])

    assert masked_texts(before, after) == {"41114111", "plantedsecret"}


def test_json_that_was_said_with_other_spaces_gives_its_secret_only():
    before = {"arguments": '{"card":"41114111","é":1}'}
    after, _ = mask_tree(before, [TextFinder("41114111")])

    assert masked_texts(before, after) == {"41114111"}


# Over a second: megabytes are looked through.
@pytest.mark.large
@pytest.mark.timeout(60)
def test_a_secret_of_megabytes_is_taken_away():
    secret = 'say "plantedsecret" ' * 500_000
    assert "planted" not in mask_texts(f"b {secret} b", [secret])
    assert "planted" not in mask_texts(json.dumps({"a": secret}), [secret])
    assert mask_texts("a short reason", [secret]) == "a short reason"


@pytest.mark.timeout(60)
def test_many_secrets_are_looked_for_in_a_short_text():
    secrets = {f"ada{number}@example.org" for number in range(50_000)}

    assert mask_texts("asked by ADA77@example.org, today", secrets) == "asked by [REDACTED], today"
    assert mask_texts("as it is", ["", " "]) == "as it is"


@pytest.mark.parametrize(
    ("before", "after", "taken"),
    [
        (
            "IBAN DE89 3704 0044 0532 0130 00 a@b.cc end",
            "IBAN [REDACTED:IBAN] [REDACTED:EMAIL] end",
            {"DE89 3704 0044 0532 0130 00", "a@b.cc"},
        ),
        ("a@b.cc +49 30 1", "[REDACTED:EMAIL] [REDACTED:PHONE]", {"a@b.cc", "+49 30 1"}),
        ("one 1 and two 2 and three", "[REDACTED] and [REDACTED]", {"one 1", "two 2 and three"}),
    ],
)
def test_all_that_masks_side_by_side_may_stand_for_is_known(before, after, taken):
    assert taken <= masked_texts({"a": before}, {"a": after})


# Over a second: only a large text shows a cost that grows with its square.
@pytest.mark.large
@pytest.mark.timeout(60)
def test_very_many_masks_side_by_side_are_told_apart_in_time():
    secrets = masked_texts("ab c " * 10_000, "[REDACTED] " * 10_000)

    assert "ab c" in secrets


@pytest.mark.parametrize(
    "said",
    ["O’Neill\u20114711", "bzpPJ05laWxsLTQ3MTE=", "o%2527neill-4711"],
)
def test_what_is_spelled_in_another_way_is_taken_away_from_a_text(said):
    assert mask_texts(f"It is {said}.", {"O'Neill-4711", "something else"}) == "It is [REDACTED]."
