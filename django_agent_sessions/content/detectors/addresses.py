"""E-mail addresses, telephone numbers and IP addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from django_agent_sessions.exceptions import MissingDependencyError

# Letters of scripts that separate words with spaces. In Chinese or Japanese the word before an
# address would be matched as a part of it, so other letters are tried second.
_SPACED = r"0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u052f"
_ANY = r"\w"
# Read backwards from the @, 64 characters at most (RFC 5321, 4.5.3.1).
_LOCAL = [re.compile(rf"[{letters}_.+'\-]{{1,64}}+") for letters in (_SPACED, _ANY)]
_DOMAIN = [
    re.compile(
        rf"(?:[{start}](?:[{inner}\-]{{0,61}}[{inner}])?\.){{1,9}}"
        rf"(?:xn--[0-9A-Za-z\-]{{2,59}}|[{tld}]{{2,24}})(?![{inner}])"
    )
    for start, inner, tld in (
        (_SPACED, _SPACED, r"A-Za-z\u0370-\u052f"),
        (r"^\W_", r"^\W_", r"^\W\d_"),
    )
]
# The @ of an address in a query string.
_AT = re.compile("@|%40")
_FILE = re.compile(
    r"(?i:png|jpe?g|gif|svg|webp|bmp|ico|avif|pdf|[cm]?jsx?|tsx|s?css|less|html?|json|xml|ya?ml|txt|"
    r"csv|log|lock|conf|cfg|ini|toml|java|class|jar|exe|dll|tar|tgz|gz|whl|mp[34]|wav|docx|xlsx|"
    r"pptx|service|socket|timer|target|mount)"
)
_COMMON = re.compile(r"(?i:[a-z]{2}|com|net|org|edu|gov|mil|info|biz|dev|app|cloud)")
# What is left of a file that is called by an address, and not for a density (`logo@2x.de.png`).
_IN_FILE = re.compile(rf"(?![0-9]+x\.).*\.{_COMMON.pattern}")
_USER_INFO = re.compile(r"[^\s/@\"'<>]*//:")


class Email:
    """E-mail addresses, also with letters beyond ASCII, and with ``%40`` for the ``@``."""

    name = "email"
    label = _("e-mail address")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        if "@" not in text and "%40" not in text:
            return
        for at in _AT.finditer(text):
            end = _domain_end(text, at.end())
            start = _local_start(text, at.start()) if end else None
            if end and start is not None and not _is_user_info(text, start):
                yield start, end


def _domain_end(text: str, start: int) -> int | None:
    for pattern in _DOMAIN:
        if match := pattern.match(text, start):
            return _end_without_file(match) if _is_code(text, match) else match.end()
    return None


def _is_code(text: str, domain: re.Match[str]) -> bool:
    """Return whether a match is a file (``logo@2x.png``) or a matrix product (``w@x.mean()``)."""
    last = domain[0].rpartition(".")[2]
    if text.startswith("(", domain.end()):
        return not _COMMON.fullmatch(last)
    return _FILE.fullmatch(last) is not None


def _end_without_file(domain: re.Match[str]) -> int | None:
    """Return the end of the address that a file is called by (``ada@example.com.pdf``), if any."""
    address, _, last = domain[0].rpartition(".")
    is_called = domain.string.startswith("(", domain.end())
    is_file = not is_called and _FILE.fullmatch(last) and _IN_FILE.fullmatch(address)
    return domain.start() + len(address) if is_file else None


def _local_start(text: str, at: int) -> int | None:
    before = text[max(0, at - 64) : at][::-1]
    for pattern in _LOCAL:
        if match := pattern.match(before):
            local = match[0].rstrip("'.+-")
            start = at - len(local)
            # `@ada@example.social` is a handle, `git@example.com:` a shared account.
            excluded = not local or local == "tig" or text[start - 1 : start] == "@"
            return None if excluded else start
    return None


def _is_user_info(text: str, start: int) -> bool:
    """Return whether a match begins in the user info of ``https://ada:secret@example.com``."""
    return _USER_INFO.match(text[max(0, start - 256) : start][::-1]) is not None


# --- telephone numbers, by the ``phonenumbers`` package ----------------------------------------

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


# --- IP addresses ------------------------------------------------------------------------------

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
