"""Presidio, the real one, without a network."""

from __future__ import annotations

import pytest

from django_agent_sessions.content.detectors import Detection, available, detect, labels, load
from django_agent_sessions.content.detectors.presidio import Presidio

pytest.importorskip(
    "presidio_analyzer", reason="presidio-analyzer is not installed: see docs/how-to/detectors.md"
)


def test_it_finds_what_its_patterns_know_and_names_the_kinds_as_we_do():
    text = "Write to ada@example.com, card 4111 1111 1111 1111, from 10.1.2.3."
    found = detect(text, load(["presidio"]))
    assert {(text[d.start : d.end], d.kind) for d in found} >= {
        ("ada@example.com", "email"),
        ("4111 1111 1111 1111", "card"),
        ("10.1.2.3", "ip"),
    }


def test_ours_and_its_findings_become_one():
    text = "Write to ada@example.com"
    assert detect(text, [*load(["email", "presidio"])]) == [Detection(9, 24, "email")]


def test_it_is_offered_but_never_used_by_itself():
    assert "presidio" in labels()
    assert "presidio" not in [d.name for d in available()]


def test_dates_and_web_addresses_are_only_masked_when_asked_for():
    text = "On 2024-01-15 see https://example.com/page"
    assert detect(text, load(["presidio"])) == []
    assert {place.kind for place in detect(text, [Presidio(without=())])} == {"date_time", "url"}
