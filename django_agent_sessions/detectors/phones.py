"""Telephone numbers, by the ``phonenumbers`` package."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from django_agent_sessions.exceptions import MissingDependencyError

# Numbers are looked for by their form, and `phonenumbers` is asked about those: to search all of
# a text with it takes seconds per megabyte.
_INTERNATIONAL = re.compile(
    r"\+(?<![\w+/]\+)\(?[1-9](?:[ ().\-/\u00a0]{0,2}[0-9]){6,14}(?!\w)", re.ASCII
)
# How numbers are written in North America, after their first character. Digits with spaces or
# with nothing between them are as likely to be something else.
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
# After these words, digits in any form are a number.
_NAMED = re.compile(
    r"(?i:(?<![a-z])(?:tel|phone|telephone|mobile|cell|fax|whatsapp|(?:call|text) (?:me|us))"
    r"(?![a-z])(?:[ _-]?(?:number|no|nr)(?![a-z]))?)[\s:=.\"'#]{0,4}(?i:(?:is|at|on)\s)?"
    r"(?P<number>\(?[0-9][0-9 ()./-]{5,18}[0-9])(?![\w/])",
    re.ASCII,
)
_LAST_GROUP = re.compile(r"[^0-9]+[0-9]+$")
_LEAST_DIGITS = 7


class Phone:
    """Telephone numbers that exist: with a country's code, or written as in one region."""

    name = "phone"
    label = _("telephone number")
    needs = ("phonenumbers", "phonenumbers", "detectors")

    def __init__(self, region: str = "US") -> None:
        self.region = region

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Finds the numbers."""
        for match in _INTERNATIONAL.finditer(text) if "+" in text else ():
            yield from self._existing(match.start(), match[0])
        for match in (_NANP if self.region == "US" else _NATIONAL).finditer(text):
            yield from self._existing(match.start(), match[0])
        for match in _NAMED.finditer(text):
            yield from self._existing(match.start("number"), match["number"])

    def _existing(self, start: int, written: str) -> Iterator[tuple[int, int]]:
        """The longest beginning that is a number; perhaps another number follows it."""
        try:
            import phonenumbers
        except ImportError:
            raise MissingDependencyError("phonenumbers", extra="detectors") from None
        for _attempt in range(3):
            if sum(map(str.isdigit, written)) < _LEAST_DIGITS:
                return
            try:
                number = phonenumbers.parse(written, self.region)
            except phonenumbers.NumberParseException:
                return
            if phonenumbers.is_valid_number(number):
                yield start, start + len(written)
                return
            written = _LAST_GROUP.sub("", written)
