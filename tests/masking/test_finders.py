"""A string is found in every spelling, and no text makes the search endless."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_agent_sessions.masking import Literal, mask_tree

ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "utf-16")


def masked(text: str, secret: str) -> str:
    return str(mask_tree({"text": text}, [Literal(secret)])[0]["text"])


@pytest.mark.parametrize(
    ("spelled", "secret"),
    [
        ("%68unter2", "hunter2"),
        ("%48%55%4E%54%45%52%32", "hunter2"),
        ("&#104;unter2", "hunter2"),
        ("&#x68;unter&#50;", "hunter2"),
        ("&#X48;unter&#0050;", "hunter2"),
        ("\\u0048unter\\\\u0032", "hunter2"),
        ("O&#39;Brien", "O'Brien"),
        ("O&apos;Brien", "O'Brien"),
        ("Zo&euml;", "Zoë"),
        ("Zo&#235;", "Zoë"),
        ("Zo%c3%8b", "Zoë"),
        ("a&#32;b&#160;c", "a b c"),
        ("\\ud83d\\ude00x", "😀x"),
        ("%F0%9F%98%80x", "😀x"),
    ],
)
def test_escapes_of_addresses_and_pages_are_read(spelled, secret):
    assert masked(f"so {spelled} it is", secret) == "so [REDACTED] it is"


@pytest.mark.parametrize("times", range(5))
@pytest.mark.parametrize(
    "secret", [r"\\server\share", r"C:\new", "a\\ b", '\\"x\\"', "\\\\", "\\é"]
)
def test_backslashes_are_found_however_often_they_are_escaped(secret, times):
    text = secret
    for _ in range(times):
        text = json.dumps(text)[1:-1]

    assert masked(f"so {text} it is", secret) == "so [REDACTED] it is"


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "secret", ["\\" * 8 + "x", r"\\server\share", "\\ \\ x", "\\/" * 6, '"' * 6]
)
@pytest.mark.parametrize("text", ["\\" * 60, "\\" * 200_000, "\\u005c" * 30_000, "%5c\\" * 30_000])
def test_a_row_of_backslashes_does_not_hold_the_search(secret, text):
    assert masked(text, secret) == text


@pytest.mark.timeout(20)
def test_what_is_longer_than_a_text_costs_nothing():
    secrets: Any = [Literal(f'"a{number}%' + "x" * 1900) for number in range(2000)]

    assert mask_tree({"text": "terms & privacy"}, secrets)[1] == []
