"""International bank account numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from .cards import HYPHENS, SPACES

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
_KINDS = {"n": "[0-9]", "a": "[A-Za-z]", "c": "[0-9A-Za-z]"}
_GAP = f"[{SPACES}{HYPHENS}]?"


def _account(parts: str) -> re.Pattern[str]:
    kinds = re.findall("([nac])([0-9]+)", parts)
    return re.compile(
        "".join(f"(?:{_GAP}{_KINDS[k]}){{{n}}}" for k, n in kinds) + r"(?![0-9A-Za-z_])"
    )


_ACCOUNTS = {entry[:2]: _account(entry[3:]) for entry in _COUNTRIES.split()}
_START = re.compile(r"[A-Za-z](?<![0-9A-Za-z_][A-Za-z])[A-Za-z][0-9]{2}")


class Iban:
    """Account numbers with the length and format of their country and valid check digits."""

    name = "iban"
    label = _("bank account number (IBAN)")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        for match in _START.finditer(text):
            account = _ACCOUNTS.get(match[0][:2].upper())
            rest = account.match(text, match.end()) if account else None
            if rest and _is_valid(match[0], rest[0]):
                yield match.start(), rest.end()


def _is_valid(head: str, account: str) -> bool:
    """Return whether the check digits are valid (ISO 7064, MOD 97-10)."""
    characters = filter(str.isalnum, account + head)
    return int("".join(str(int(character, 36)) for character in characters)) % 97 == 1
