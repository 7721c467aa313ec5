"""After masking nothing of the secret is left, and nothing else is gone."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_agent_sessions.content import detectors
from django_agent_sessions.content.masking import (
    MASK_PATTERN,
    DetectorFinder,
    Finder,
    PatternFinder,
    TextFinder,
    mask_tree,
)
from tests.strategies import exactly, json_values

from .payloads import FINDERS, HIDING_PLACES, SECRET, SPELLINGS, holds_secret, spellings, words

STRUCTURE = ("role", "type", "status", "name", "toolUseId", "call_id", "id", "format")


def paths(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """Every leaf by its path."""
    if isinstance(value, dict):
        inner: Any = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        return {path: value}
    found: dict[tuple[Any, ...], Any] = {path: type(value)}
    for key, item in inner:
        found |= paths(item, (*path, key))
    return found


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("place", HIDING_PLACES)
def test_a_secret_is_found_in_every_place_and_spelling(place, spelling):
    payload = HIDING_PLACES[place](SPELLINGS[spelling](SECRET))
    before = copy.deepcopy(payload)

    masked, hits = mask_tree(payload, FINDERS)

    assert payload == before
    assert hits
    assert not holds_secret(masked)
    again, more = mask_tree(masked, FINDERS)
    assert again is masked
    assert more == []


@given(st.sampled_from(sorted(HIDING_PLACES)), spellings, words, words)
def test_what_stands_around_a_secret_stays(place, spelled, before, after):
    payload = HIDING_PLACES[place](f"{before}{spelled}{after}")
    masked, hits = mask_tree(payload, FINDERS)

    assert hits
    assert not holds_secret(masked)
    assert mask_tree(masked, FINDERS) == (masked, [])
    was, now = paths(payload), paths(masked)
    assert {path: value for path, value in was.items() if path and path[-1] in STRUCTURE[:2]} == {
        path: value for path, value in now.items() if path and path[-1] in STRUCTURE[:2]
    }


@pytest.mark.parametrize("place", HIDING_PLACES)
def test_ids_and_names_of_tools_stay_and_so_does_the_shape(place):
    payload = HIDING_PLACES[place](f"b {SECRET} b")
    masked, _ = mask_tree(payload, FINDERS)

    was, now = paths(payload), paths(masked)
    if "signed" not in place and "key" not in place:
        assert was.keys() == now.keys()
    changed = {path for path in was.keys() & now.keys() if was[path] != now[path]}
    assert not {path for path in changed if path[-1] in STRUCTURE and "document" not in path}
    for path in changed:
        if path[-1] == "encrypted_content":
            assert now[path] is None
        elif isinstance(was[path], str) and was[path].startswith("{"):
            json.loads(now[path])


@given(json_values)
def test_what_does_not_hold_the_secret_is_the_very_same_object(value):
    finders = [TextFinder("neverinahypothesis")]
    for free in (True, False):
        masked, hits = mask_tree(value, finders, free=free)
        assert masked is value
        assert hits == []


@given(json_values, st.booleans())
def test_masking_any_payload_once_is_enough(value, free):
    finders: list[Finder] = [
        TextFinder("0"),
        TextFinder("a"),
        PatternFinder(r"[é-ÿ]+"),
        DetectorFinder(detectors.available()),
    ]
    before = exactly(value)
    masked, _ = mask_tree(value, finders, free=free)
    again, hits = mask_tree(masked, finders, free=free)

    assert exactly(value) == before
    assert hits == []
    assert again is masked


@given(st.lists(st.one_of(st.just("plantedsecret"), st.just("[REDACTED:EMAIL]"), words)))
@example(["plantedsecret", "plantedsecret"])
def test_a_mask_is_never_masked(pieces):
    finders: list[Finder] = [
        TextFinder("plantedsecret"),
        TextFinder("REDACTED"),
        TextFinder("EMAIL"),
        PatternFinder(r"[A-Z]+"),
    ]
    text = " ".join(pieces)
    masked, _ = mask_tree(text, finders)

    assert "plantedsecret" not in masked
    for kind in MASK_PATTERN.findall(text):
        assert masked.count(kind) >= text.count(kind)
    assert "REDACTED[" not in masked


def test_an_id_becomes_another_wherever_it_stands():
    items: Any = [
        {"type": "function_call", "call_id": "plantedsecret", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "plantedsecret", "output": "x"},
        {"type": "function_call", "call_id": "other", "name": "f", "arguments": "{}"},
    ]
    finders: list[Finder] = [TextFinder("plantedsecret"), TextFinder("redacted"), TextFinder("e")]
    masked = [mask_tree(item, finders[:1])[0] for item in items]

    assert masked[0]["call_id"] == masked[1]["call_id"] != "plantedsecret"
    assert masked[2] is items[2]
    assert mask_tree(masked, finders)[0][0]["call_id"] == masked[0]["call_id"]


def test_names_of_tools_and_nodes_stay_even_if_they_are_called_like_the_secret():
    call = {"type": "function_call", "call_id": "1", "name": "secret", "arguments": '{"a": 1}'}
    use = {"toolUse": {"toolUseId": "1", "name": "secret", "input": {"name": "secret"}}}
    answer = {"role": "function", "name": "secret", "content": "b"}
    tools = {"type": "mcp_list_tools", "tools": [{"name": "secret", "input_schema": {}}]}
    graph = {"completed_nodes": ["secret"], "node_results": {"secret": {"result": "b"}}}
    finders = [TextFinder("secret")]

    for payload in (call, answer, tools, graph):
        assert mask_tree(payload, finders)[0] is payload
    assert mask_tree(use, finders)[0] == {
        "toolUse": {"toolUseId": "1", "name": "secret", "input": {"name": "[REDACTED]"}}
    }


def test_numbers_are_masked_where_a_number_may_be_a_text():
    call = {"toolUse": {"toolUseId": "1", "name": "pay", "input": {"card": 4111, "at": [4111.5]}}}
    finders = [TextFinder("4111")]
    arguments = {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"a": 4111}'}

    assert mask_tree(call, finders)[0]["toolUse"]["input"] == {
        "card": "[REDACTED]",
        "at": ["[REDACTED]"],
    }
    assert mask_tree(arguments, finders)[0]["arguments"] == '{"a": "[REDACTED]"}'
    usage = {"role": "assistant", "content": "b", "metadata": {"usage": {"inputTokens": 4111}}}
    assert mask_tree(usage, finders)[0] is usage


def test_two_keys_that_become_alike_are_both_kept():
    masked, _ = mask_tree(
        {"plantedsecret": 1, "PlantedSecret": 2}, [TextFinder("plantedsecret")], free=True
    )

    assert list(masked.values()) == [1, 2]
    assert all(MASK_PATTERN.search(key) for key in masked)


@pytest.mark.parametrize(
    "text", ['{"a": "plain\\ntext", "b": 1}', '["\\u00e9 \\"n\\" \\\\n", 2]', '"\\u00e9"']
)
def test_an_escape_is_not_cut(text):
    finders = [TextFinder(name) for name in ("nt", "ne", "0e9", "u00", "\\")]
    masked, _ = mask_tree(text, finders)

    assert type(json.loads(masked)) is type(json.loads(text))
    assert "redacted" not in masked


def test_json_punctuation_in_the_secret_leaves_json():
    call = {"arguments": '{"user": "ada", "pin": "1234", "x": 1}'}

    masked, hits = mask_tree(call, [TextFinder('"ada", "pin": "1234"')])

    assert len(hits) == 1
    assert isinstance(json.loads(masked["arguments"]), dict)
    assert "1234" not in masked["arguments"]


def test_a_name_tells_a_secret_beside_another_finding_in_json():
    arguments = json.dumps({"email": "ada@example.org", "password": "Tr0ub4dor&3x"})
    masked, _ = mask_tree({"arguments": arguments}, [DetectorFinder(detectors.available())])

    assert "Tr0ub4dor" not in masked["arguments"]
    assert "ada@" not in masked["arguments"]
    assert json.loads(masked["arguments"]).keys() == {"email", "password"}


@pytest.mark.parametrize("padding", range(4))
@pytest.mark.parametrize("space", ["", " "])
@pytest.mark.parametrize("length", [10, 2000])
def test_words_that_look_like_base64_are_read_as_words(padding, space, length):
    text = space.join(["b" * length, "plantedsecret", "b" * padding])

    masked, hits = mask_tree(
        {"type": "program_output", "result": text}, [TextFinder("plantedsecret")]
    )

    assert len(hits) == 1
    assert "plantedsecret" not in masked["result"]


def test_a_picture_is_not_torn_by_a_short_find():
    picture = base64.b64encode(bytes(range(256)) * 40).decode()
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": picture}

    assert mask_tree(item, [TextFinder(picture[100:103])])[0] is item


def test_bytes_that_are_no_text_keep_their_length():
    data = b"\xff\xd8" + b" plantedsecret " * 3 + bytes(range(128, 256))

    masked, hits = mask_tree({"image": {"source": {"bytes": data}}}, [TextFinder("plantedsecret")])

    assert len(hits) == 3
    assert masked["image"]["source"]["bytes"] == data.replace(b"plantedsecret", b"*" * 13)


def test_log_probabilities_of_a_changed_text_go_and_others_stay():
    block = {"type": "output_text", "text": "plantedsecret", "logprobs": [{"token": "pl"}]}
    other = {**block, "text": "b"}

    masked, _ = mask_tree({"content": [block, other]}, [TextFinder("plantedsecret")])

    assert masked["content"] == [{**block, "text": "[REDACTED]", "logprobs": []}, other]


def test_a_detector_does_not_read_signatures():
    sealed = {
        "role": "assistant",
        "content": [
            {
                "reasoningContent": {
                    "reasoningText": {"text": "b", "signature": "AKIAIOSFODNN7EXAMPLE"}
                }
            }
        ],
    }

    assert mask_tree(sealed, [DetectorFinder(detectors.available())])[0] is sealed


HOSTILE = {
    "backslashes": "\\" * 150_000,
    "brackets": "[" * 1_000_000,
    "quotes": '"' * 1_000_000,
    "nearly": "plantedsecre " * 400_000,
    "nearly, escaped": "%70lantedsecre\\" * 40_000,
    "spaces": "planted" + " \\n+%20" * 60_000,
    "masks": "[REDACTED" * 200_000,
    "found often": "plantedsecret " * 100_000,
    "binary": b"\xff" + b"plantedsecret" * 25_000,
    "list": ["planted", "secret"] * 15_000,
    "blocks": [{f"a{n}": half for n in range(10_000)} for half in ("planted", "secret")],
    "base64": {"data": "b" * 1_000_000},
    "unseen": "planted" + "\u200b" * 1_000_000,
    "nearly, hyphenated": "plan\u00adtedsecre " * 60_000,
    "often, hyphenated": "plan\u00adtedsecret " * 30_000,
    "base64 of a text": base64.b64encode(b"plantedsecre " * 60_000).decode(),
    "words in base64": (base64.b64encode(b"plantedsecre " * 3).decode() + " ") * 10_000,
    "escapes of escapes": "planted%2525252" * 30_000 + "&amp;" * 50_000,
    "groups": "4111 1111 1111 111\u2011 " * 50_000,
}


# Over a second: only a large payload shows such a cost.
@pytest.mark.large
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_payload_takes_no_time_that_grows_with_its_square(name):
    texts = ("planted secret", '"plantedsecret/', "plantedsecret", "4111 1111 1111 1111")
    finders = [TextFinder(text) for text in texts]
    masked, _ = mask_tree({"input": HOSTILE[name]}, finders)

    assert mask_tree(masked, finders) == (masked, [])


@pytest.mark.parametrize("free", [True, False])
def test_the_deepest_payload_with_the_deepest_json_inside(free):
    value: Any = json.dumps(["plantedsecret"])
    for _ in range(99):
        value = json.dumps([json.loads(value)])
    for _ in range(49):
        value = {"text": [{"a": [value]}]} if free else {"content": [{"text": [value]}]}

    masked, hits = mask_tree(value, [TextFinder("plantedsecret")], free=free)

    assert len(hits) == 1
    assert "plantedsecret" not in json.dumps(masked)
