"""Ids and names in which something is redacted: they pair and order messages, and say nothing."""

from __future__ import annotations

import re

from django.utils.crypto import salted_hmac

from .masks import is_mask

_NEW_ID = re.compile(r"(?:redacted-|[a-z]{1,12}_redacted)[0-9a-f]{20}\Z")
_PREFIX = re.compile(r"[a-z]{1,12}_")
"""What the ids of OpenAI begin with, by which it tells what is meant."""
PREFIXED = frozenset(
    {"id", "parent_id", "call_id", "tool_call_id", "item_id", "approval_request_id"}
)
"""Keys of ids that may begin with it."""
_KNOWN_PREFIXES = frozenset(
    {
        "msg_", "rs_", "fc_", "fco_", "call_", "ws_", "fs_", "cu_", "cuo_", "ci_", "ig_", "mcp_",
        "mcpl_", "mcpr_", "mcpa_", "resp_", "cmp_", "ctc_", "ctco_", "lsh_", "sh_", "sho_", "apc_",
        "apco_", "tsc_", "tso_", "conv_", "item_", "prog_",
    }
)  # fmt: skip

# Some providers put base64 behind their ids, long ones too.
_GIVEN = re.compile(r"(?!.*://)[A-Za-z0-9_.:|+/=~\-]{1,4096}")
_CHOSEN = re.compile(r"[A-Za-z0-9_.:|\-]{1,128}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,63}")

NAMELESS = "redacted"
"""What is called so is a tool or program whose name said more than a name does."""


def masked_ids(text: str) -> tuple[str, ...]:
    """Tells what an id becomes where something is found in it."""
    # Alike wherever it stands, of the letters that every provider takes, and not to be guessed.
    said = text.encode(errors="surrogatepass")
    new = salted_hmac("agent_sessions.masking", said, algorithm="sha256").hexdigest()[:20]
    prefix = _PREFIX.match(text)
    plain = f"redacted-{new}"
    return (plain,) if prefix is None else (plain, f"{prefix[0]}redacted{new}")


def is_new(text: str) -> bool:
    """Tells whether an id is one that :func:`masked_ids` makes."""
    return _NEW_ID.match(text) is not None


def new_id(text: str, start: int, *, prefixed: bool) -> str:
    """Renames an id in which something was found."""
    plain, *others = masked_ids(text)
    prefix = _PREFIX.match(text) if prefixed else None
    if prefix is None or (start < prefix.end() and prefix[0] not in _KNOWN_PREFIXES):
        return plain
    return others[0]


def kept_id(text: str, *, prefixed: bool = False, chosen: bool = False) -> str:
    """Keeps an id of a message that is redacted as a whole, if it can only be an id."""
    plain = (_CHOSEN if chosen else _GIVEN).fullmatch(text) is not None
    return text if plain or is_mask(text) else new_id(text, 0, prefixed=prefixed)


def opaque_id(text: str) -> str:
    """Renames an id that nothing is paired by."""
    return text if is_new(text) else masked_ids(text)[0]


def kept_name(text: str) -> str:
    """Keeps a tool's name in a message that is redacted as a whole, if it can only be one."""
    return text if _NAME.fullmatch(text) or is_mask(text) else NAMELESS
