"""Masks, and replacements for ids and names that contain redacted text.

The text inside of a mask is not searched again, and a user can write
``[REDACTED:4111111111111111]``. Therefore only masks of known kinds count as masks.
"""

from __future__ import annotations

import functools
import re

from django.utils.crypto import salted_hmac

from django_agent_sessions.conf import get_settings
from django_agent_sessions.content import detectors

MASK_PATTERN = re.compile(r"\[REDACTED(?::[A-Z0-9_]+|-[g-v]{12})?\]")
"""The format of a mask; in the name of a document with a digest. A model may write one too: only a
row's ``redacted_at`` is proof."""

_BUILT_IN_KINDS = frozenset(
    {
        "IMAGE", "DOCUMENT", "VIDEO", "AUDIO", "REASONING",
        "EMAIL", "CARD", "IBAN", "US_SSN", "PHONE", "IP", "PRIVATE_KEY", "JWT", "API_KEY",
        "PRESIDIO", "PERSON", "LOCATION", "DATE_TIME", "NRP", "URL", "ORGANIZATION", "CRYPTO",
        "MEDICAL_LICENSE", "US_BANK_NUMBER", "US_DRIVER_LICENSE", "US_ITIN", "US_PASSPORT",
    }
)  # fmt: skip

_REPLACEMENT = re.compile(r"(?:redacted-|[a-z]{1,12}_redacted)[0-9a-f]{20}\Z")
_DIGEST_LENGTH = 12
_DIGEST_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
"""Letters, so that no detector of numbers finds one in a digest."""
_MAX_NAME = 200
_PREFIX = re.compile(r"[a-z]{1,12}_")
"""The prefix of an OpenAI id, which names the type of the object."""
_KNOWN_PREFIXES = frozenset(
    {
        "msg_", "rs_", "fc_", "fco_", "call_", "ws_", "fs_", "cu_", "cuo_", "ci_", "ig_", "mcp_",
        "mcpl_", "mcpr_", "mcpa_", "resp_", "cmp_", "ctc_", "ctco_", "lsh_", "sh_", "sho_", "apc_",
        "apco_", "tsc_", "tso_", "conv_", "item_", "prog_",
    }
)  # fmt: skip

# The ids of some providers end in (long) base64.
_PROVIDER_ID = re.compile(r"(?!.*://)[A-Za-z0-9_.:|+/=~\-]{1,4096}")
_CLIENT_ID = re.compile(r"[A-Za-z0-9_.:|\-]{1,128}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,63}")

REPLACEMENT_NAME = "redacted"
"""Replaces the name of a tool or program if the name may contain other text."""


def mask_spans(text: str) -> list[tuple[int, int]]:
    """Return the positions of the masks of known kinds in a text."""
    if "[REDACTED" not in text:
        return []
    return [match.span() for match in MASK_PATTERN.finditer(text) if _is_known(match[0])]


def is_mask(text: str) -> bool:
    """Return whether a text consists of one mask of a known kind."""
    return MASK_PATTERN.fullmatch(text) is not None and _is_known(text)


def _is_known(text: str) -> bool:
    kind = text[len("[REDACTED:") : -1]
    return (
        not kind
        or text[len("[REDACTED")] == "-"
        or kind in _BUILT_IN_KINDS
        or kind in _configured_kinds(tuple(get_settings().DETECTORS))
    )


@functools.lru_cache(maxsize=8)
def _configured_kinds(paths: tuple[str, ...]) -> frozenset[str]:
    # Only the detectors' names: a kind that a detector computes may contain what it found.
    return frozenset(name.upper() for name in detectors.names()) if paths else frozenset()


def replacement_ids(text: str) -> tuple[str, ...]:
    """Return the possible replacements of an id: without a prefix, then with its prefix if any."""
    # Deterministic, so that references still match; keyed, so that the id cannot be guessed; and of
    # characters that every provider accepts.
    data = text.encode(errors="surrogatepass")
    digest = salted_hmac("agent_sessions.masking", data, algorithm="sha256").hexdigest()[:20]
    prefix = _PREFIX.match(text)
    plain = f"redacted-{digest}"
    return (plain,) if prefix is None else (plain, f"{prefix[0]}redacted{digest}")


def is_replacement_id(text: str) -> bool:
    """Return whether an id was made by :func:`replacement_ids`."""
    return _REPLACEMENT.match(text) is not None


def replacement_id(text: str, start: int, *, prefixed: bool) -> str:
    """Return the replacement of an id in which a match starts at ``start``."""
    plain, *others = replacement_ids(text)
    prefix = _PREFIX.match(text) if prefixed else None
    if prefix is None or (start < prefix.end() and prefix[0] not in _KNOWN_PREFIXES):
        return plain
    return others[0]


def safe_id(text: str, *, prefixed: bool = False, chosen: bool = False) -> str:
    """Return an id of a redacted message, replaced unless it has the form of an id."""
    plain = (_CLIENT_ID if chosen else _PROVIDER_ID).fullmatch(text) is not None
    return text if plain or is_mask(text) else replacement_id(text, 0, prefixed=prefixed)


def document_name(text: str, masked: str, *, limited: bool = True) -> str:
    """Return the masked name of a document or file so that providers accept it.

    They accept letters, digits, spaces, hyphens and brackets, and no name twice: each mask gets a
    keyed digest of the name. ``limited`` is whether they accept at most 200 characters.
    """
    digest = replacement_ids(text)[0][-_DIGEST_LENGTH:].translate(_DIGEST_LETTERS)
    unique = f"[REDACTED-{digest}]"
    name = MASK_PATTERN.sub(unique, masked)
    return unique if limited and len(name) > _MAX_NAME else name


def pseudonymous_id(text: str) -> str:
    """Replace an id that no other item refers to."""
    return text if is_replacement_id(text) else replacement_ids(text)[0]


def safe_name(text: str) -> str:
    """Return a tool's name in a redacted message, replaced unless it has the form of a name."""
    return text if _NAME.fullmatch(text) or is_mask(text) else REPLACEMENT_NAME
