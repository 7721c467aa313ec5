"""A string is found in every spelling, and no text makes the search endless."""

from __future__ import annotations

import base64
import json
import re
import tracemalloc
from collections import Counter
from typing import Any

import pytest

from django_agent_sessions.content.masking import Finders, TextFinder, find_matches, mask_tree

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
        # JavaScript, Rust, Python, C, shells.
        ("\\u{68}unter2", "hunter2"),
        ("hunter2\\u{1F600}", "hunter2\U0001f600"),
        ("hunter2\\ud83d\\ude00", "hunter2\U0001f600"),
        ("\\U00000068unter2", "hunter2"),
        ("\\x{68}unter2", "hunter2"),
        ("\\150unter\\62", "hunter2"),
        ("Zo\\303\\253", "Zoë"),
        ("Zo\\353", "Zoë"),
        ("hun\\\nter2", "hunter2"),
        # Mails: quoted-printable, with soft line breaks.
        ("hun=74er2", "hunter2"),
        ("hun=\r\nter2", "hunter2"),
        ("Zo=C3=AB", "Zoë"),
        ("=68=75=6E=74=65=72=32", "hunter2"),
        # Not an escape: a line break stands before the name, or the name begins like one.
        ("nadine%40example.org", "nadine@example.org"),
    ],
)
def test_escapes_of_addresses_and_pages_are_read(spelled, secret):
    assert masked(f"so {spelled} it is", secret) == "so [REDACTED] it is"


@pytest.mark.parametrize(
    ("text", "secret", "after"),
    [
        ("pw=beef%40home", "beef@home", "pw=[REDACTED]"),
        ("C:\\users\\nadine%40x", "nadine@x", "C:\\users\\[REDACTED]"),
        ("a+b c+d", "b c", "a+[REDACTED]+d"),
        ("q=my+secret+word&x", "my secret word", "q=[REDACTED]&x"),
    ],
)
def test_what_looks_like_an_escape_before_a_string_hides_it_not(text, secret, after):
    assert masked(text, secret) == after


INVISIBLE = [
    "".join(chr(0xE0000 + ord(letter)) for letter in "hunter2"),
    "".join(chr(0xE0100 + ord(letter) - 16) for letter in "hunter2"),
]


@pytest.mark.parametrize("copy", INVISIBLE)
def test_invisible_copies_of_letters_are_read(copy):
    assert masked(f"so \U0001f600{copy} it is", "hunter2") == "so \U0001f600[REDACTED] it is"


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


BEFORE = ("token_", "token/", "tokens", "a", "ab", "abc", "-", "x=", "Basic_", "b'")


@pytest.mark.parametrize("secret", ["hunter2", "Zoë Müller", "密码是日本"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("padding", ["", "~", "~~"])
def test_base64_is_found_at_every_alignment_and_of_every_encoding(
    secret, encoding, before, padding
):
    said = base64.b64encode(f"{padding}{secret}".encode(encoding)).decode()

    now = masked(f"so {before}{said} it is", secret)

    assert said[4:-4] not in now
    assert now.startswith("so ")
    assert now.endswith("[REDACTED] it is")


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("indent", ["", "    ", "> "])
def test_base64_in_lines_is_found_across_them(indent, escaped):
    for padding in range(80):
        content = "x" * padding + "hunter2" + "y" * 90
        lines = base64.encodebytes(content.encode()).decode().replace("\n", f"\n{indent}")
        text = f"attached:\n{indent}{lines}\nbye".strip()
        now = masked(json.dumps([text])[1:-1] if escaped else text, "hunter2")

        kept = re.sub(r"\\n|[\s>\"]", "", now.partition("attached:")[2])
        for piece in kept.removesuffix("bye").split("[REDACTED]"):
            for start in range(4):
                coded_piece = piece[start : start + (len(piece) - start) // 4 * 4]
                assert b"hunter2" not in base64.b64decode(coded_piece)
        assert "[REDACTED]" in now
        assert now.rstrip('"').endswith("bye")


def test_base64_of_base64_is_found():
    for before in ("", "a", "ab", "abc"):
        twice = coded(f"{before}{coded('my hunter2!')}")
        assert masked(f"so k_{twice} it is", "hunter2") == "so [REDACTED] it is"


@pytest.mark.parametrize(
    ("said", "secret"),
    [
        (json.dumps({"name": "Zoë O’Brien"}), "zoë o'brien"),
        (json.dumps({"name": "Zoë O’Brien"}, ensure_ascii=False), "ZOË O'Brien"),
        ("a=%68unter2&b", "hunter2"),
        ("my   hunter\n2", "my hunter 2"),
    ],
)
def test_every_spelling_is_found_in_base64(said, secret):
    assert masked(f"so {coded(said)} it is", secret) == "so [REDACTED] it is"


@pytest.mark.large
@pytest.mark.parametrize("secret", ["a" * 1998 + "b", "ab " * 3000 + "c", "4" * 64, "a" * 9])
@pytest.mark.parametrize("piece", ["a", "ab ", "4 ", "%61", "\\u0061", "&#97;", "=61", "YWFh"])
@pytest.mark.timeout(20)
def test_a_string_of_any_length_is_searched_in_linear_time(secret, piece):
    assert masked(piece * (400_000 // len(piece)), secret) is not None


def test_matches_at_the_ends_of_pieces_are_found():
    for offset in range(-8, 4):
        text = "x " * (64 * 1024 + offset) + "hunter2" + " y" * 5_000
        assert masked(text, "hunter2") == text.replace("hunter2", "[REDACTED]")


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


class Counting(TextFinder):
    """Counts how often it searches each text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.searched: Counter[str] = Counter()

    def find(self, searched: Any) -> Any:
        self.searched[searched.text] += 1
        return super().find(searched)


def test_a_redaction_searches_equal_texts_once():
    finder = Counting("hunter2")
    finders = Finders([finder])
    messages = [
        {"content": [{"text": "my password is hunter2"}, {"text": f"{number} of 20"}]}
        for number in range(20)
    ]

    results = [mask_tree(message, finders) for message in messages]

    assert {masked["content"][0]["text"] for masked, _ in results} == {"my password is [REDACTED]"}
    assert [len(hits) for _, hits in results] == [1] * 20
    assert set(finder.searched.values()) == {1}
    assert {f"{number} of 20" for number in range(20)} <= finder.searched.keys()


def test_texts_that_differ_in_anything_are_searched_both():
    finder = Counting("hunter2")
    finders = Finders([finder])

    for text in ("Hunter2", "hunter2", "hunter2 ", "h\u00fcnter2", "hu\u0308nter2", "HUNTER2"):
        assert list(finders.find(text)) == find_matches(text, [TextFinder("hunter2")])

    assert set(finder.searched.values()) == {1}
    assert len(finder.searched) == 6


def test_other_finders_search_a_text_again():
    other = Finders([TextFinder("swordfish")])
    finders = Finders([TextFinder("hunter2")])

    assert [len(list(each.find("hunter2"))) for each in (finders, other)] == [1, 0]
    assert [len(list(each.find("swordfish"))) for each in (finders, other)] == [0, 1]


@pytest.mark.parametrize("length", [1000, 100_000])
def test_only_so_many_texts_are_kept(length):
    finders = Finders([TextFinder("hunter2")])

    tracemalloc.start()
    try:
        for number in range(4_000_000 // length):
            assert not list(finders.find(f"{number:0{length}}"))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 2_000_000
