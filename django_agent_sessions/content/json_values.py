"""Counting of the values of JSON before it is parsed.

Parsed, an empty list of two characters takes more than thirty times as much memory.
"""

from __future__ import annotations

import re

# Possessive, because a backtracking repetition stores each step of a long text.
_STRING_OR_START = re.compile(rb'"(?:[^"\\]++|\\.)*+"|([,\[{])', re.DOTALL)


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether JSON has more values than this; members and items of lists count."""
    # Texts contain these characters, too, and are only searched if there are that many.
    if sum(text.count(start) for start in (b",", b"[", b"{")) <= most:
        return False
    count = 0
    for found in _STRING_OR_START.finditer(text):
        count += found[1] is not None
        if count > most:
            return True
    return False
