"""A string is found in every spelling, and no text makes the search endless."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from django_agent_sessions.content.masking import TextFinder, mask_tree

ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "utf-16")


def masked(text: str, secret: str) -> str:
    return str(mask_tree({"text": text}, [TextFinder(secret)])[0]["text"])


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
        # An address in an address, a page in a page.
        ("ada%2540example.org", "ada@example.org"),
        ("ada%252540example.org", "ada@example.org"),
        ("O&amp;#39;Brien", "O'Brien"),
        ("A&amp;amp;B", "A&B"),
        ("a%2520b&amp;nbsp;c", "a b c"),
        ("ada&commat;example&period;org", "ada@example.org"),
        # Markdown, source code, bytes that a program printed.
        ("hunter\\_two", "hunter_two"),
        ("\\x68unter2", "hunter2"),
        ("Zo\\xeb", "Zoë"),
        ("Zo\\xc3\\xab", "Zoë"),
        ("O\\u2019Brien", "O'Brien"),
        ("O&rsquo;Brien", "O'Brien"),
        ("O%E2%80%99Brien", "O'Brien"),
    ],
)
def test_escapes_of_addresses_and_pages_are_read(spelled, secret):
    assert masked(f"so {spelled} it is", secret) == "so [REDACTED] it is"


WIDE = {ord(" "): " "} | {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


@pytest.mark.parametrize(
    ("set_in", "secret"),
    [
        ("555\u2011867\u20115309", "555-867-5309"),
        ("Jean–Luc", "Jean-Luc"),
        ("O’Brien", "O'Brien"),
        ("O'Brien", "O’Brien"),
        ("O\u00b4Brien", "O'Brien"),
        ("the “Falcon” plan", 'the "falcon" plan'),
        ("hun\u00adter2", "hunter2"),
        ("hun\u200bter2", "hunter2"),
        ("\u2066h\u2060unter2", "hunter2"),
        ("Zo\u200de\u0308", "Zoë"),
        ("my hunter2".translate(WIDE), "my hunter2"),
        ("my hunter2", "my hunter2".translate(WIDE)),
        ("oﬃce key", "office key"),
        ("straße", "STRASSE"),
        ("\U0001d421unter2", "hunter2"),
        ("4111–1111–1111–1111", "4111 1111 1111 1111"),
        ("4111 1111 1111 1111".translate(WIDE), "4111111111111111"),
        ("4111\u200b1111\u200b1111\u200b1111", "4111 1111 1111 1111"),
    ],
)
def test_a_string_is_found_in_whatever_letters_it_is_set(set_in, secret):
    now = masked(f"Så {set_in} — é", secret)

    # A mark that stands before it and is not seen may stay.
    assert now.replace("\u2066", "") == "Så [REDACTED] — é"
    assert masked(now, secret) == now


@pytest.mark.parametrize(("other", "secret"), [("José", "Jose"), ("a—b", "ab"), ("ﬃ", "x")])
def test_what_people_do_not_read_alike_is_not_found(other, secret):
    assert masked(f"so {other} it is", secret) == f"so {other} it is"


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("before", "said", "after"),
    [
        ("", coded("hunter2"), ""),
        ("Authorization: Basic ", coded("ada:HUNTER2"), "\nAccept: */*"),
        ("![note](data:text/plain;base64,", coded("so hunter2 it is?>"), ")"),
        ("bearer eyJhbGciOiJIUzI1NiJ9.", coded('{"pw":"hunter2"}').rstrip("="), ".c2lnbmVk"),
        ("q=", base64.urlsafe_b64encode("¿¿>> hunter2 ÿÿ".encode()).decode(), "&r=1"),
    ],
)
def test_a_string_is_found_in_base64_within_a_text(before, said, after):
    assert masked(f"{before}{said}{after}", "hunter2") == f"{before}[REDACTED]{after}"


def test_base64_in_the_arguments_of_a_tool_is_found():
    call: Any = {"toolUse": {"toolUseId": "1", "name": "put", "input": {"data": coded("hunter2")}}}

    assert mask_tree(call, [TextFinder("hunter2")])[0]["toolUse"]["input"] == {"data": "[REDACTED]"}


def test_other_base64_stays():
    text = f"Basic {coded('ada:other')} and {coded('hunter1')}"

    assert masked(text, "hunter2") == text


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
    "secret", ["\\" * 8 + "x", r"\\server\share", "\\ \\ x", "\\/" * 6, '"' * 6, "\\" + "x" * 900]
)
@pytest.mark.parametrize("text", ["\\" * 60, "\\" * 200_000, "\\u005c" * 30_000, "%5c\\" * 30_000])
def test_a_row_of_backslashes_does_not_hold_the_search(secret, text):
    assert masked(text, secret) == text


@pytest.mark.timeout(20)
def test_what_is_longer_than_a_text_costs_nothing():
    secrets: Any = [TextFinder(f'"a{number}%' + "x" * 1900) for number in range(2000)]

    assert mask_tree({"text": "terms & privacy"}, secrets)[1] == []


PAGE = " ".join(f'{number}: "Zoë’s" <ñandú> \\ {"Äpfel" * 3};' for number in range(50))


def test_a_page_that_somebody_selected_is_found_as_a_tool_was_given_it():
    said = f"before {PAGE} after".replace("; ", ";\n\n  ")
    call = "I call it with " + json.dumps({"page": json.dumps([said])}) + " & wait"

    assert len(PAGE) < 2000
    for text in (said, call):
        now = masked(text, PAGE)
        assert "ñand" not in now
        assert "00f1and" not in now
        assert now.endswith((" after", " & wait"))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "secret", ["éßñÅ" * 500, "'" * 2000, "İ" * 2000, "12345678" * 250, "ab " * 666]
)
def test_no_text_takes_long_to_look_for(secret):
    assert masked(f"{secret} \\ % & é", secret).split() == ["[REDACTED]", "\\", "%", "&", "é"]
