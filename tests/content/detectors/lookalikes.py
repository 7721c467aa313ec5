"""The corpus of texts in which nothing must be found."""

from __future__ import annotations

from pathlib import Path

_SECTIONS = [
    *("email", "card", "iban", "us_ssn", "phone", "ip", "private_key", "jwt", "api_key", "log"),
]


def lookalikes() -> list[tuple[str, str]]:
    """Pairs of the detector that is most likely to be taken in, and a text."""
    section = ""
    found = []
    for line in Path(__file__).with_name("lookalikes.txt").read_text().splitlines():
        if line.startswith("[") and line[1:-1] in _SECTIONS:
            section = line[1:-1]
        elif line and not line.startswith("#"):
            found.append((section, line.replace("\\n", "\n")))
    return found
