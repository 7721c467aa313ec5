"""Separators between groups of digits, for use in regular expression character classes."""

from __future__ import annotations

# The plain space, and those that word processors insert into numbers.
SPACES = " \u00a0\u2007\u2009\u202f"
# The hyphen-minus (escaped for character classes), hyphens and the en dash.
HYPHENS = "\\-\u2010\u2011\u2012\u2013"
