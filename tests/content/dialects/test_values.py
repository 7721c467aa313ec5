"""The values inside of payloads: texts, sizes of binaries, JSON in strings."""

from __future__ import annotations

import base64
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions.content.dialects import (
    OPENAI,
    STRANDS,
    TEXT_CAP,
    Part,
    PartKind,
    displayable,
    get,
)
from django_agent_sessions.content.dialects.media import (
    base64_size,
    media_from_data,
    media_from_url,
    media_type,
)

any_text = st.text(st.characters(codec=None, exclude_categories=[]))


def arguments_of(text: object) -> object:
    item = {"type": "function_call", "call_id": "c", "name": "n", "arguments": text}
    (part,) = get(OPENAI).parts(item)
    return part.data


def result_of(output: str) -> object:
    item = {"type": "function_call_output", "call_id": "c", "output": output}
    (part,) = get(OPENAI).parts(item)
    assert part.text == output
    return part.data


@given(any_text)
def test_displayable_text_can_go_anywhere_and_keeps_its_length(text):
    shown = displayable(text)
    shown.encode()
    assert "\x00" not in shown
    assert len(shown) == len(text)
    assert all(
        new == old or (new == "\ufffd" and (old == "\x00" or "\ud800" <= old <= "\udfff"))
        for new, old in zip(shown, text, strict=True)
    )


def test_displayable_leaves_good_text_alone():
    text = "Grüße 👋 \t\n\x7f"
    assert displayable(text) == text


@pytest.mark.parametrize(
    ("dialect", "payload"),
    [
        (STRANDS, {"role": "user", "content": [{"text": "ä\x00\ud800" * TEXT_CAP}]}),
        (OPENAI, {"role": "user", "content": "ä\x00\ud800" * TEXT_CAP}),
    ],
    ids=[STRANDS, OPENAI],
)
def test_long_text_is_capped_and_replaced(dialect, payload):
    text = get(dialect).summary(payload).text
    assert text == ("ä\ufffd\ufffd" * TEXT_CAP)[:TEXT_CAP]


def test_the_cap_counts_the_lines_between_texts():
    half = "a" * (TEXT_CAP // 2)
    message = {"role": "user", "content": [{"text": half}, {"text": ""}, {"text": half}] * 2}
    text = get(STRANDS).summary(message).text
    assert text == half + "\n" + half[:-1]
    assert len(text) == TEXT_CAP


def test_text_that_fills_the_cap_exactly_is_whole():
    message = {"role": "user", "content": [{"text": "a" * (TEXT_CAP - 2)}, {"text": "b"}]}
    assert get(STRANDS).summary(message).text == "a" * (TEXT_CAP - 2) + "\nb"


@given(st.binary(), st.booleans())
def test_the_size_of_base64_is_told_without_decoding(data, in_lines):
    encoded = (base64.encodebytes if in_lines else base64.b64encode)(data).decode()
    assert base64_size(encoded) == len(data)
    assert base64_size(encoded.rstrip("=\n")) == len(data)
    assert media_from_data(f"data:image/png;base64,{encoded}") == ("image/png", len(data), "")


@pytest.mark.parametrize(
    ("reference", "media"),
    [
        ("https://example.org/a.png", ("", None, "https://example.org/a.png")),
        ("javascript:alert(1)", ("", None, "javascript:alert(1)")),
        ("DATA:Image/PNG;BASE64,AAAA", ("image/png", 3, "")),
        ("data:text/plain;charset=utf-8;base64,AAAA", ("text/plain", 3, "")),
        ("data:text/plain,words", ("text/plain", None, "")),
        ("data:,words", ("", None, "")),
        ('data:"><script>;base64,AAAA', ("", 3, "")),
        ("data:" + "x" * 1_000 + ",AAAA", ("", None, "")),
        ("data:", ("", None, "")),
        ("", ("", None, "")),
    ],
)
def test_references_to_media_are_told_apart(reference, media):
    assert media_from_url(reference) == media


@pytest.mark.parametrize(
    ("family", "file_format", "expected"),
    [
        ("image", "png", "image/png"),
        ("image", "JPG", "image/jpeg"),
        ("image", "svg", "image/svg+xml"),
        ("audio", "mp3", "audio/mpeg"),
        ("video", "mkv", "video/x-matroska"),
        ("document", "md", "text/markdown"),
        ("document", "exe", ""),
        ("image", "png\r\nX-Header: 1", ""),
        ("image", "../png", ""),
        ("image", "", ""),
        ("image", ["png"], ""),
        ("image", None, ""),
    ],
)
def test_formats_become_media_types(family, file_format, expected):
    assert media_type(family, file_format) == expected


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ).filter(lambda value: value not in (float("inf"), float("-inf")))
)
def test_arguments_that_are_json_are_parsed(value):
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        text = json.dumps(value)
        assert arguments_of(text) == text
    else:
        assert arguments_of(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        '{"a": NaN}',
        "[Infinity]",
        "1e999",
        "9" * 5_000,
        "[" * 101 + "]" * 101,
        "[" * 100_000 + "]" * 100_000,
        "[" * 100_000,
    ],
    ids=lambda text: text[:12],
)
def test_arguments_that_cannot_be_json_again_stay_text(text):
    assert arguments_of(text) == text


def test_arguments_may_nest_a_hundred_deep():
    text = "[" * 100 + "]" * 100
    assert json.dumps(arguments_of(text)) == text


def test_many_flat_dicts_are_not_deep():
    value = [{"a": [n]} for n in range(500)]
    assert arguments_of(json.dumps(value)) == value


@pytest.mark.parametrize("value", [None, 5, {"a": 1}, ["a"], b"bytes"])
def test_arguments_that_are_not_text_are_kept(value):
    assert arguments_of(value) == value


@pytest.mark.parametrize(
    ("output", "data"),
    [
        (' {"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ("{}", {}),
        ("72", None),
        ("true", None),
        ('"quoted"', None),
        ("[see below]", None),
        ("", None),
    ],
)
def test_an_output_is_json_only_if_it_is_a_container(output, data):
    assert result_of(output) == data


@pytest.mark.parametrize("dialect", ["", "adk", "STRANDS"])
def test_another_dialect_is_kept_as_it_is(dialect):
    payload = {"role": "user", "content": "Hello"}
    assert get(dialect).parts(payload) == (Part(PartKind.UNKNOWN, data=payload),)
    assert get(dialect).summary(payload).text == ""
    assert get(dialect).summary(payload).role == ""


@pytest.mark.process
def test_reading_imports_neither_django_nor_an_sdk():
    script = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "from django_agent_sessions.content import dialects\n"
        "for dialect in dialects.all_dialects():\n"
        "    assert dialect.parts({}) and dialect.summary({}) and dialect.vocabulary\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - sys.stdlib_module_names - {'django_agent_sessions'}))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "[]"
