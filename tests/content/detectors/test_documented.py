"""What the page about detectors shows, works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django_agent_sessions.content.detectors import Detection, detect

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "detectors.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run(containing: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    (block,) = (block for block in BLOCKS if containing in block)
    exec(block, namespace)  # noqa: S102 - our own page
    return namespace


def test_the_detector_of_ones_own_finds_its_tickets():
    ticket = run("class Ticket")["Ticket"]()
    assert detect('{"see": "\\nTICKET-123456"}', [ticket]) == [Detection(11, 24, "ticket")]


def test_the_example_for_another_country_finds_its_number():
    phone = run('Phone("DE")')["german_phone"]
    assert detect("Ruf an: 030 901820!", [phone]) == [Detection(8, 18, "phone")]


def test_the_first_example_finds_what_it_says():
    (block,) = (block for block in BLOCKS if "available()" in block)
    namespace: dict[str, Any] = {}
    exec(block, namespace)  # noqa: S102 - our own page
    said = re.search(r"# \[(.*)\]", block)
    found = namespace["detect"]("Write to ada@example.com", namespace["load"](["email"]))
    assert said
    assert repr(found) == f"[{said[1]}]"
