"""Numbers of payment cards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

# Separators between groups of digits, for character classes: the plain space, and those that word
# processors insert into numbers.
SPACES = " \u00a0\u2007\u2009\u202f"
# The hyphen-minus (escaped for character classes), hyphens and the en dash.
HYPHENS = "\\-\u2010\u2011\u2012\u2013"

# As one run, or in the groups that are printed on cards. The first character stands before the
# look behind, because `re` is several times as fast when it knows how a match begins.
_CARD = re.compile(
    rf"[0-9](?<![0-9A-Za-z_][0-9])(?<![0-9][.,{HYPHENS}][0-9])(?<![^0-9][0-9]{{4}}[{SPACES}][0-9])"
    rf"(?:[0-9]{{12,18}}"
    rf"|[0-9]{{3}}(?P<s>[{SPACES}{HYPHENS}])"
    rf"(?:[0-9]{{4}}(?P=s)[0-9]{{4}}(?P=s)[0-9]{{4}}(?:(?P=s)[0-9]{{3}})?"
    rf"|[0-9]{{6}}(?P=s)[0-9]{{4,5}}))"
    rf"(?![0-9A-Za-z_]|[.,{HYPHENS}][0-9])"
)
# First prefix, last prefix and lengths of the numbers of each issuer.
# https://en.wikipedia.org/wiki/Payment_card_number#Issuer_identification_number_(IIN)
_ISSUERS: tuple[tuple[int, int, frozenset[int]], ...] = (
    (4, 4, frozenset({13, 16, 19})),  # Visa
    (51, 55, frozenset({16})),  # Mastercard
    (2221, 2720, frozenset({16})),
    (34, 34, frozenset({15})),  # American Express
    (37, 37, frozenset({15})),
    (6011, 6011, frozenset(range(16, 20))),  # Discover
    (644, 649, frozenset(range(16, 20))),
    (65, 65, frozenset(range(16, 20))),
    (300, 305, frozenset(range(14, 20))),  # Diners Club
    (3095, 3095, frozenset(range(14, 20))),
    (36, 36, frozenset(range(14, 20))),
    (38, 39, frozenset(range(14, 20))),
    (3528, 3589, frozenset(range(16, 20))),  # JCB
    (62, 62, frozenset(range(16, 20))),  # UnionPay
    (5018, 5018, frozenset(range(13, 20))),  # Maestro
    (5020, 5020, frozenset(range(13, 20))),
    (5038, 5038, frozenset(range(13, 20))),
    (5893, 5893, frozenset(range(13, 20))),
    (6304, 6304, frozenset(range(13, 20))),
    (6759, 6763, frozenset(range(13, 20))),
    (2200, 2204, frozenset(range(16, 20))),  # Mir
    (60, 60, frozenset({16})),  # RuPay
    (81, 82, frozenset({16})),
    (508, 508, frozenset({16})),
    (9792, 9792, frozenset({16})),  # Troy
)
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


class Card:
    """Payment cards: 13 to 19 digits with the prefix of an issuer and a valid check digit."""

    name = "card"
    label = _("payment card number")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        for match in _CARD.finditer(text):
            if _is_card(match[0]):
                yield match.span()
            elif match["s"] and match[0].count(match["s"]) == 4:
                # Four groups, followed by the three digits of the card verification code.
                shorter = match[0].rpartition(match["s"])[0]
                if _is_card(shorter):
                    yield match.start(), match.start() + len(shorter)


def _is_card(text: str) -> bool:
    digits = "".join(filter(str.isdigit, text))
    has_issuer = any(
        low <= int(digits[: len(str(low))]) <= high and len(digits) in lengths
        for low, high, lengths in _ISSUERS
    )
    return has_issuer and luhn(digits)


def luhn(digits: str) -> bool:
    """Return whether the check digit of a number is valid (ISO/IEC 7812-1, annex B)."""
    numbers = [int(digit) for digit in reversed(digits)]
    return (sum(numbers[::2]) + sum(_DOUBLED[n] for n in numbers[1::2])) % 10 == 0
