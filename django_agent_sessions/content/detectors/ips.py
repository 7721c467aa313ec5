"""IP addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

# The first digit stands before the look behind, because `re` is several times as fast when it
# knows how a match begins.
_V4 = re.compile(
    r"[0-9](?<![0-9A-Za-z_.][0-9])[0-9]{0,2}+(?:\.[0-9]{1,3}+){3}(?![0-9A-Za-z_]|\.[0-9])"
)
_V6 = re.compile(
    r"[0-9A-Fa-f:](?<![0-9A-Za-z_:.][0-9A-Fa-f:])(?:(?<=:)(?=:)|(?=[0-9A-Fa-f]{0,3}:))"
    r"[0-9A-Fa-f:]{1,39}+(?:(?:\.[0-9]{1,3}+){3})?(?![0-9A-Za-z_]|\.[0-9])"
)
# Words and signs before a version, a section or a product: `Chrome/1.2.3.4`.
_VERSION = re.compile(
    r"(?:(?i:\b(?:version|versions|ver|rev|revision|release|released|build|section|chapter|clause|"
    r"table|figure|oid|v))[ :=\"'.]{0,4}|(?i:\brfc ?[0-9]{1,5})[,:]? |"
    r"\u00a7 ?|[=<>~^!]= ?|\b[A-Z][A-Za-z]+/)\Z"
)
# Compressed addresses of two groups look like names in C++ and Rust: `f32::add`, `abc::def`.
_BEGINS_LIKE_ADDRESS = re.compile(r"(?i:2[0-9a-f]{3}|fe80|f[cd][0-9a-f]{2}|64:ff9b|::ffff):")


class Ip:
    """IPv4 and IPv6 addresses, except loopback, unspecified addresses and network masks."""

    name = "ip"
    label = _("IP address")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        for match in _V4.finditer(text):
            if _is_identifying(match[0]) and not _is_version(match):
                yield match.span()
        for match in _V6.finditer(text) if ":" in text else ():
            candidate = match[0]
            if candidate.endswith(":") and not candidate.endswith("::"):
                candidate = candidate[:-1]
            if _is_identifying(candidate) and _looks_like_v6(candidate):
                yield match.start(), match.start() + len(candidate)


def _is_identifying(candidate: str) -> bool:
    try:
        address = ipaddress.ip_address(candidate)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or candidate.startswith("255."))


def _is_version(match: re.Match[str]) -> bool:
    return _VERSION.search(match.string[max(0, match.start() - 20) : match.start()]) is not None


def _looks_like_v6(candidate: str) -> bool:
    """Return whether a candidate is neither a name in code nor an eight-byte hardware address."""
    if "::" not in candidate:
        return any(len(group) > 2 for group in candidate.split(":"))
    groups = [group for group in candidate.split(":") if group]
    has_digit = any(character.isdigit() for character in candidate)
    return has_digit and (len(groups) > 2 or bool(_BEGINS_LIKE_ADDRESS.match(candidate)))
