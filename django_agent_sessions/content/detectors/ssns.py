"""US social security numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from .cards import HYPHENS, SPACES

# The first digit stands before the look behind, because `re` is several times as fast when it
# knows how a match begins.
_SEPARATED = re.compile(
    rf"[0-9](?<![0-9A-Za-z_][0-9])(?<![0-9A-Za-z_][{HYPHENS}./+][0-9])"
    rf"[0-9]{{2}}(?P<s>[{HYPHENS}{SPACES}])[0-9]{{2}}(?P=s)[0-9]{{4}}"
    rf"(?![0-9A-Za-z_]|[./,+][0-9]|[{HYPHENS}][0-9A-Za-z])"
)
_NAMED = re.compile(
    r"(?i:\bssn|\bsocial[ _-]?security)(?i:[ _-]*(?:number|num|no\b\.?|nr))?"
    r"(?i:\s+(?:is|was)\b)?\W{0,6}\b(?P<number>[0-9]{9})(?![0-9A-Za-z_]|[.-][0-9])"
)
_NUMBER_BEFORE = re.compile(rf"[0-9][{SPACES}]")
_NUMBER_AFTER = re.compile(rf"[{SPACES}][0-9]")


class UsSsn:
    """Social security numbers: ``AAA-GG-SSSS``, or nine digits after the word."""

    name = "us_ssn"
    label = _("US social security number")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        for match in _SEPARATED.finditer(text):
            digits = match[0].replace(match["s"], "")
            if _is_issued(digits) and not (match["s"] in SPACES and _in_a_row(match)):
                yield match.span()
        for match in _NAMED.finditer(text):
            if _is_issued(match["number"]):
                yield match.span("number")


def _is_issued(digits: str) -> bool:
    """Return whether a number may have been issued.

    https://www.ssa.gov/employer/randomization.html
    """
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def _in_a_row(match: re.Match[str]) -> bool:
    """Return whether a match is a part of a sequence of numbers, as in a table."""
    before = _NUMBER_BEFORE.match(match.string, max(0, match.start() - 2))
    return bool(before or _NUMBER_AFTER.match(match.string, match.end()))
