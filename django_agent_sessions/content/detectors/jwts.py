"""JSON web tokens."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

# Beginnings of a JSON object in base64: `{"`, `{ `, or `{` and a line break.
_STARTS = ("eyJ", "eyA", "ewo", "ewk", "ew0K")
# Signed tokens have three parts (RFC 7515), encrypted ones five (RFC 7516). The signature is empty
# when there is none (RFC 7519, 6).
_TOKEN = re.compile(
    r"(?<![\w-])(?P<header>[\w-]{8,4096}+)\.[\w-]{2,}+\.[\w-]*+(?:\.[\w-]+\.[\w-]+)?", re.ASCII
)


class Jwt:
    """Tokens whose decoded first part is a JSON object with ``alg``."""

    name = "jwt"
    label = _("JSON web token")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        for start in _STARTS:
            position = text.find(start)
            while position >= 0:
                match = _TOKEN.match(text, position)
                if match and _is_header(match["header"]):
                    yield match.span()
                    position = match.end()
                else:
                    position += len(start)
                position = text.find(start, position)


def _is_header(part: str) -> bool:
    try:
        header = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and isinstance(header.get("alg"), str)
