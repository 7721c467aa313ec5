"""What people put between groups of digits, as parts of character classes."""

from __future__ import annotations

# The plain space, and those that word processors put into numbers.
SPACES = " \u00a0\u2007\u2009\u202f"
# The hyphen-minus (escaped, for it stands within brackets), hyphens and the en dash.
HYPHENS = "\\-\u2010\u2011\u2012\u2013"
