"""Numbers of payment cards, bank accounts, and social security."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

# Separators between groups of digits, for character classes: the plain space, and those that word
# processors insert into numbers.
SPACES = " \u00a0\u2007\u2009\u202f"
# The hyphen-minus (escaped for character classes), hyphens and the en dash.
HYPHENS = "\\-\u2010\u2011\u2012\u2013"

# As one run, or in the groups that are printed on cards.
_REST_OF_CARD = (
    rf"(?:[0-9]{{12,18}}"
    rf"|[0-9]{{3}}(?P<s>[{SPACES}{HYPHENS}])"
    rf"(?:[0-9]{{4}}(?P=s)[0-9]{{4}}(?P=s)[0-9]{{4}}(?:(?P=s)[0-9]{{3}})?"
    rf"|[0-9]{{6}}(?P=s)[0-9]{{4,5}}))"
    rf"(?![0-9A-Za-z_]|[.,{HYPHENS}][0-9])"
)
# The first character stands before the look behind, because `re` is several times as fast when it
# knows how a match begins.
_CARD = re.compile(
    rf"[0-9](?<![0-9A-Za-z_][0-9])(?<![0-9][.,{HYPHENS}][0-9])(?<![^0-9][0-9]{{4}}[{SPACES}][0-9])"
    + _REST_OF_CARD
)
# After a space behind a card, whose last group it would follow.
_NEXT_CARD = re.compile(rf"[{SPACES}](?P<number>[0-9]{_REST_OF_CARD})")
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
        at = 0
        while first := _CARD.search(text, at):
            at, start, end = first.end(), first.start(), _card_end(first, first[0])
            while end is not None:
                yield start, end
                at = max(at, end)
                following = _NEXT_CARD.match(text, end)
                if following is None:
                    break
                start = following.start("number")
                end = _card_end(following, following["number"])


def _card_end(match: re.Match[str], number: str) -> int | None:
    """Return where the card that a match is, or begins with, ends."""
    if _is_card(number):
        return match.end()
    if match["s"] and number.count(match["s"]) == 4:
        # Four groups, followed by the three digits of the card verification code.
        shorter = number.rpartition(match["s"])[0]
        if _is_card(shorter):
            return match.end() - len(number) + len(shorter)
    return None


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


# --- bank accounts -----------------------------------------------------------------------------

# The format after country and check digits: numbers of digits (n), letters (a), or either (c).
# SWIFT's IBAN registry, release 101: https://www.swift.com/standards/data-standards/iban
_COUNTRIES = """
    AD:n8c12 AE:n19 AL:n8c16 AT:n16 AZ:a4c20 BA:n16 BE:n12 BG:a4n6c8 BH:a4c14 BI:n23 BR:n23a1c1
    BY:c4n4c16 CH:n5c12 CR:n18 CY:n8c16 CZ:n20 DE:n18 DJ:n23 DK:n14 DO:c4n20 EE:n16 EG:n25
    ES:n20 FI:n14 FK:a2n12 FO:n14 FR:n10c11n2 GB:a4n14 GE:a2n16 GI:a4c15 GL:n14 GR:n7c16 GT:c24
    HN:a4n20 HR:n17 HU:n24 IE:a4n14 IL:n19 IQ:a4n15 IS:n22 IT:a1n10c12 JO:a4n4c18 KW:a4c22
    KZ:n3c13 LB:n4c20 LC:a4c24 LI:n5c12 LT:n16 LU:n3c13 LV:a4c13 LY:n21 MC:n10c11n2 MD:c20
    ME:n18 MK:n3c10n2 MN:n16 MR:n23 MT:a4n5c18 MU:a4n19a3 NI:a4n20 NL:a4n10 NO:n11 OM:n3c16
    PK:a4c16 PL:n24 PS:a4c21 PT:n21 QA:a4c21 RO:a4c16 RS:n18 RU:n14c15 SA:n2c18 SC:a4n20a3
    SD:n14 SE:n20 SI:n15 SK:n20 SM:a1n10c12 SO:n19 ST:n21 SV:a4n20 TL:n19 TN:n20 TR:n6c16
    UA:n6c19 VA:n18 VG:a4n16 XK:n16 YE:a4n4c18
"""
_CHARACTERS = {"n": "[0-9]", "a": "[A-Za-z]", "c": "[0-9A-Za-z]"}
_GAP = f"[{SPACES}{HYPHENS}]?"


def _account(parts: str) -> re.Pattern[str]:
    kinds = re.findall("([nac])([0-9]+)", parts)
    return re.compile(
        "".join(f"(?:{_GAP}{_CHARACTERS[k]}){{{n}}}" for k, n in kinds) + r"(?![0-9A-Za-z_])"
    )


_ACCOUNTS = {entry[:2]: _account(entry[3:]) for entry in _COUNTRIES.split()}
_ACCOUNT_START = re.compile(r"[A-Za-z](?<![0-9A-Za-z_][A-Za-z])[A-Za-z][0-9]{2}")


class Iban:
    """Account numbers with the length and format of their country and valid check digits."""

    name = "iban"
    label = _("bank account number (IBAN)")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        for match in _ACCOUNT_START.finditer(text):
            account = _ACCOUNTS.get(match[0][:2].upper())
            rest = account.match(text, match.end()) if account else None
            if rest and _is_account(match[0], rest[0]):
                yield match.start(), rest.end()


def _is_account(head: str, account: str) -> bool:
    """Return whether the check digits are valid (ISO 7064, MOD 97-10)."""
    characters = filter(str.isalnum, account + head)
    return int("".join(str(int(character, 36)) for character in characters)) % 97 == 1


# --- social security ---------------------------------------------------------------------------

# The first digit stands before the look behind, because `re` is several times as fast when it
# knows how a match begins.
_SEPARATED = re.compile(
    rf"[0-9](?<![0-9A-Za-z_][0-9])(?<![0-9A-Za-z_][{HYPHENS}./+][0-9])"
    rf"[0-9]{{2}}(?P<s>[{HYPHENS}{SPACES}])[0-9]{{2}}(?P=s)[0-9]{{4}}"
    rf"(?![0-9A-Za-z_]|[./,+][0-9]|[{HYPHENS}][0-9A-Za-z])"
)
_NAMED_NUMBER = re.compile(
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
        for match in _NAMED_NUMBER.finditer(text):
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
