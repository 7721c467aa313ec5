"""A number that people write in groups is found however its digits are grouped."""

from __future__ import annotations

import base64

import pytest

from django_agent_sessions.content.masking import TextFinder, mask_tree

CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    "said",
    ["4111111111111111", "4111-1111-1111-1111", "It is 41111111 11111111.", "4111 1111\n1111 1111"],
)
@pytest.mark.parametrize("sought", [CARD, "4111111111111111", "4111-1111-1111-1111"])
def test_digits_are_found_in_any_groups(said, sought):
    changed, hits = mask_tree({"card": said}, [TextFinder(sought)], free=True)

    assert len(hits) == 1
    assert "1111" not in changed["card"]


def test_a_number_without_its_separators_is_found_in_base64():
    said = base64.b64encode(b"4111111111111111").decode()

    changed, hits = mask_tree(f"It is {said}.", [TextFinder("4111-1111-1111-1111")], free=True)

    assert (changed, len(hits)) == ("It is [REDACTED].", 1)


def test_a_short_character_that_stands_for_many_is_found():
    for said in ("\ufdfa", "&#xFDFA;", "\\ufdfa"):
        sought = "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647"

        assert mask_tree(said, [TextFinder(sought)], free=True)[1], said


def test_a_number_in_the_arguments_of_a_tool_is_found_by_its_groups():
    payload = {"input": {"card": 4111111111111111, "other": 4111111111111112}}

    changed, hits = mask_tree(payload, [TextFinder(CARD)])

    assert len(hits) == 1
    assert changed == {"input": {"card": "[REDACTED]", "other": 4111111111111112}}


@pytest.mark.parametrize(
    ("said", "sought"),
    [
        ("(555) 867-5309", "555.867.5309"),
        ("5558675309", "(555) 867-5309"),
        ("+1 555 867 5309", "+1-555-867-5309"),
        ("tel=%2B1+555%2D867%205309", "+15558675309"),
        ("de89370400440532013000", "DE89 3704 0044 0532 0130 00"),
        ("DE89-3704-0044-0532-0130-00", "DE89370400440532013000"),
        ("550e8400e29b41d4a716446655440000", "550e8400-e29b-41d4-a716-446655440000"),
    ],
)
def test_signs_and_letters_of_a_number_hide_nothing(said, sought):
    now = str(mask_tree(f"It is {said}, yes.", [TextFinder(sought)], free=True)[0])

    assert "[REDACTED]" in now
    assert not any(map(str.isdigit, now.replace("%2B", "")))


@pytest.mark.parametrize(
    "said", ["14111 1111 1111 1111", "4111 1111 1111 11112", "4111 1111 1111 111"]
)
def test_a_part_of_another_number_is_not_it(said):
    assert mask_tree(said, [TextFinder("4111111111111111")], free=True)[0] == said


def test_a_short_number_is_found_only_as_it_is():
    assert mask_tree("12 34", [TextFinder("1234")], free=True)[0] == "12 34"
