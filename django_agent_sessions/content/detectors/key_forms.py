"""Formats of the keys of providers."""

from __future__ import annotations

import re
from typing import NamedTuple

_WORD = r"[0-9A-Za-z_]"
_URL_SAFE = r"[0-9A-Za-z_\-]"


class KeyFormat:
    """A format of keys that begin with a fixed text."""

    def __init__(self, literal: str, rest: str, next_character: str = _WORD) -> None:
        self.literal = literal
        # The key begins a word; escapes such as `\n` are decoded already.
        self.pattern = re.compile(rf"(?<!{_WORD}){re.escape(literal)}{rest}(?!{next_character})")


class KeyInContext(NamedTuple):
    """A format of keys after a name or within a URL, where only the key is masked."""

    literal: str
    pattern: re.Pattern[str]
    """Matches from the literal; the group ``key`` is the key."""


def _within(literal: str, rest: str) -> KeyInContext:
    return KeyInContext(literal, re.compile(re.escape(literal) + rest))


_HEX = r"[0-9a-f]"

KEY_FORMATS: tuple[KeyFormat, ...] = (
    # AWS: access keys of users, sessions, bearer tokens and contexts.
    *(KeyFormat(start, r"[0-9A-Z]{16}") for start in ("AKIA", "ASIA", "ABIA", "ACCA")),
    KeyFormat("ABSK", r"[0-9A-Za-z+/]{60,200}+={0,2}", r"[0-9A-Za-z+/=]"),
    # GitHub: https://github.blog/engineering/behind-githubs-new-authentication-token-formats/
    *(KeyFormat(f"gh{kind}_", r"[0-9A-Za-z]{36,255}") for kind in "pousr"),
    KeyFormat("github_pat_", r"[0-9A-Za-z]{22}_[0-9A-Za-z]{59}"),
    # GitLab: https://docs.gitlab.com/security/tokens/#token-prefixes
    *(
        KeyFormat(f"gl{kind}-", rf"{_URL_SAFE}{{20,300}}+(?:\.[0-9a-z]{{2}}\.[0-9a-z]{{7,9}})?")
        for kind in ("pat", "dt", "rt", "cbt", "ptt", "ft", "soat", "imt", "agent", "oas", "ffct")
    ),
    # Slack
    *(KeyFormat(f"xox{kind}-", rf"{_URL_SAFE}{{10,250}}+", _URL_SAFE) for kind in "abeoprs"),
    *(KeyFormat(f"xoxe.xox{kind}-", rf"{_URL_SAFE}{{10,250}}+", _URL_SAFE) for kind in "bp"),
    KeyFormat("xapp-", rf"[0-9]-{_URL_SAFE}{{20,250}}+", _URL_SAFE),
    # Stripe; keys that begin with pk_ are public.
    *(
        KeyFormat(f"{kind}_{mode}_", r"[0-9A-Za-z]{16,250}+")
        for kind in ("sk", "rk")
        for mode in ("live", "test")
    ),
    KeyFormat("whsec_", r"[0-9A-Za-z+/]{24,100}+={0,2}"),
    # Model providers
    *(
        KeyFormat(f"sk-{kind}-", rf"{_URL_SAFE}{{20,300}}+", _URL_SAFE)
        for kind in ("proj", "svcacct", "admin", "None", "ant", "or")
    ),
    KeyFormat("sk-", r"[0-9A-Za-z]{20,100}+", _URL_SAFE),
    KeyFormat("hf_", r"[0-9A-Za-z]{30,60}"),
    KeyFormat("gsk_", r"[0-9A-Za-z]{40,80}"),
    KeyFormat("xai-", r"[0-9A-Za-z]{60,100}"),
    KeyFormat("pplx-", r"[0-9A-Za-z]{40,80}"),
    KeyFormat("nvapi-", rf"{_URL_SAFE}{{50,100}}+", _URL_SAFE),
    KeyFormat("r8_", r"[0-9A-Za-z]{37,40}"),
    # Google
    KeyFormat("AIza", rf"{_URL_SAFE}{{35}}", _URL_SAFE),
    KeyFormat("ya29.", rf"{_URL_SAFE}{{20,2000}}+", _URL_SAFE),
    KeyFormat("GOCSPX-", rf"{_URL_SAFE}{{28}}", _URL_SAFE),
    KeyFormat("1//0", rf"{_URL_SAFE}{{30,200}}+", _URL_SAFE),
    # Mail and messages
    KeyFormat("SG.", rf"{_URL_SAFE}{{22}}\.{_URL_SAFE}{{43}}", _URL_SAFE),
    KeyFormat("SK", rf"{_HEX}{{32}}"),
    KeyFormat("key-", rf"{_HEX}{{32}}"),
    # Registries of packages
    KeyFormat("npm_", r"[0-9A-Za-z]{36}"),
    KeyFormat("pypi-", rf"{_URL_SAFE}{{60,1000}}+", _URL_SAFE),
    KeyFormat("dckr_pat_", rf"{_URL_SAFE}{{27,60}}+", _URL_SAFE),
    KeyFormat("rubygems_", rf"{_HEX}{{48}}"),
    # Hosting and operations
    *(KeyFormat(f"do{kind}_v1_", rf"{_HEX}{{64}}") for kind in "opr"),
    *(KeyFormat(f"hv{kind}.", rf"{_URL_SAFE}{{24,300}}+", _URL_SAFE) for kind in "sbr"),
    KeyFormat("dapi", rf"{_HEX}{{32}}(?:-[0-9])?"),
    KeyFormat("glsa_", rf"[0-9A-Za-z]{{32}}_{_HEX}{{8}}"),
    KeyFormat("glc_", r"[0-9A-Za-z+/]{32,400}+={0,2}"),
    KeyFormat("sbp_", rf"{_HEX}{{40}}"),
    KeyFormat("pul-", rf"{_HEX}{{40}}"),
    KeyFormat("NRAK-", r"[0-9A-Z]{27}"),
    KeyFormat("HRKU-", rf"{_URL_SAFE}{{36,80}}+", _URL_SAFE),
    KeyFormat("ATATT3", r"[0-9A-Za-z_\-=]{60,300}+", r"[0-9A-Za-z_\-=]"),
    KeyFormat("AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    # Shops, payment, tools
    *(KeyFormat(f"shp{kind}_", r"[0-9A-Fa-f]{32}") for kind in ("at", "ca", "pa", "ss")),
    *(KeyFormat(f"sq0{kind}-", rf"{_URL_SAFE}{{22,43}}+", _URL_SAFE) for kind in ("atp", "csp")),
    KeyFormat("lin_api_", r"[0-9A-Za-z]{40}"),
    KeyFormat("ntn_", r"[0-9A-Za-z]{40,60}"),
    KeyFormat("PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    KeyFormat("sntrys_", r"[0-9A-Za-z+/_=]{60,500}+", r"[0-9A-Za-z+/_=]"),
    KeyFormat("sntryu_", rf"{_HEX}{{64}}"),
)

KEYS_IN_CONTEXT: tuple[KeyInContext, ...] = (
    # Storage accounts, service buses and shared access signatures of Azure.
    _within("AccountKey=", r"(?P<key>[0-9A-Za-z+/]{86}==)"),
    _within("SharedAccessKey=", r"(?P<key>[0-9A-Za-z+/]{43}=)"),
    _within("sig=", r"(?P<key>(?:[0-9A-Za-z]|%2[BbFf]|[+/]){35,60}+(?:%3[Dd]|=))"),
    # Secret URLs.
    _within("hooks.slack.com/services/", r"(?P<key>T[0-9A-Z]+/B[0-9A-Z]+/[0-9A-Za-z]{20,40})"),
    _within("hooks.slack.com/workflows/", r"(?P<key>T[0-9A-Z]+/A[0-9A-Z]+/[0-9]+/[0-9A-Za-z]+)"),
    _within("/api/webhooks/", rf"[0-9]{{17,20}}/(?P<key>{_URL_SAFE}{{60,80}}+)"),
    _within("api.telegram.org/bot", rf"(?P<key>[0-9]{{8,10}}:{_URL_SAFE}{{35}})(?!{_URL_SAFE})"),
)

# Known by a text in their middle: the literal, the longest text before it, and the pattern.
INFIX_FORMATS: tuple[tuple[str, int, re.Pattern[str]], ...] = (
    # Telegram's bots
    (":AA", 10, re.compile(rf"(?<!{_WORD})[0-9]{{8,10}}:AA{_URL_SAFE}{{33}}(?!{_URL_SAFE})")),
    # Secrets of Azure's applications
    (
        "Q~",
        4,
        re.compile(
            r"(?<![0-9A-Za-z_~.\-])[0-9A-Za-z_~.\-]{3}[0-9]Q~[0-9A-Za-z_~.\-]{31,34}(?![0-9A-Za-z_~])"
        ),
    ),
    # Mailchimp
    ("-us", 32, re.compile(rf"(?<!{_WORD}){_HEX}{{32}}-us[0-9]{{1,2}}(?!{_WORD})")),
    # HashiCorp's Terraform Cloud
    (
        ".atlasv1.",
        14,
        re.compile(rf"(?<!{_WORD})[0-9A-Za-z]{{14}}\.atlasv1\.{_URL_SAFE}{{60,70}}+"),
    ),
)
