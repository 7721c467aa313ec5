"""Telephone numbers, by the ``phonenumbers`` package."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from django_agent_sessions.exceptions import MissingDependencyError

# Candidates are searched by format and then validated with `phonenumbers`, whose own search takes
# seconds per megabyte.
_INTERNATIONAL = re.compile(
    r"\+(?<![\w+/]\+)\(?[1-9](?:[ ().\-/\u00a0]{0,2}[0-9]){6,14}(?!\w)", re.ASCII
)
# North American formats after the first character. Digits without separators or with spaces are
# excluded: too often they are other numbers.
_PLAIN = r"(?<=[2-9])[0-9]{2}(?P<s>[.-])[2-9][0-9]{2}(?P=s)"
_AREA = r"[2-9][0-9]{2}\)[ -]?[2-9][0-9]{2}[ .-]"
_TRUNK = rf"(?<=1)[ .-](?:\({_AREA}|[2-9][0-9]{{2}}[ .-][2-9][0-9]{{2}}[.-])"
_NANP = re.compile(
    rf"[(1-9](?<![\w.+\-/][(1-9])(?:{_PLAIN}|(?<=\(){_AREA}|{_TRUNK})"
    r"[0-9]{4}(?!\w|[.-][0-9]|-[A-Za-z])",
    re.ASCII,
)
_NATIONAL = re.compile(
    r"[0(](?<![\w.+\-/:][0(])(?:[ ().\-/\u00a0]{0,2}[0-9]){6,12}(?!\w)", re.ASCII
)
# After these words, digits in any format are a candidate.
_NAMED = re.compile(
    r"(?i:(?<![a-z])(?:tel|phone|telephone|mobile|cell|fax|whatsapp|(?:call|text) (?:me|us))"
    r"(?![a-z])(?:[ _-]?(?:number|no|nr)(?![a-z]))?)[\s:=.\"'#]{0,4}(?i:(?:is|at|on)\s)?"
    r"(?P<number>\(?[0-9][0-9 ()./-]{5,18}[0-9])(?![\w/])",
    re.ASCII,
)
_LAST_GROUP = re.compile(r"[^0-9]+[0-9]+$")
_LEAST_DIGITS = 7


class Phone:
    """Valid telephone numbers: with a country code, or in the format of one region."""

    name = "phone"
    label = _("telephone number")
    needs = ("phonenumbers", "phonenumbers", "detectors")

    def __init__(self, region: str = "US") -> None:
        self.region = region

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        for match in _INTERNATIONAL.finditer(text) if "+" in text else ():
            yield from self._find_valid(match.start(), match[0])
        for match in (_NANP if self.region == "US" else _NATIONAL).finditer(text):
            yield from self._find_valid(match.start(), match[0])
        for match in _NAMED.finditer(text):
            yield from self._find_valid(match.start("number"), match["number"])

    def _find_valid(self, start: int, candidate: str) -> Iterator[tuple[int, int]]:
        """Yield the longest prefix that is valid; another number may follow it."""
        try:
            import phonenumbers
        except ImportError:
            raise MissingDependencyError("phonenumbers", extra="detectors") from None
        for _attempt in range(3):
            if sum(map(str.isdigit, candidate)) < _LEAST_DIGITS:
                return
            try:
                number = phonenumbers.parse(candidate, self.region)
            except phonenumbers.NumberParseException:
                return
            if phonenumbers.is_valid_number(number):
                yield start, start + len(candidate)
                return
            candidate = _LAST_GROUP.sub("", candidate)
