"""Things that detectors must find, and texts that they stand in."""

from __future__ import annotations

import base64
import ipaddress
import json
import random
import string
from collections.abc import Callable
from typing import Any

import phonenumbers
from hypothesis import strategies as st

from django_agent_sessions.content.detectors.account_numbers import _COUNTRIES

ALNUM = string.ascii_letters + string.digits
URL_SAFE = ALNUM + "-_"
HEX = "0123456789abcdef"
BASE64 = ALNUM + "+/"

Maker = Callable[[random.Random], str]


def drawn(make: Maker) -> st.SearchStrategy[str]:
    """What a machine draws evenly; hypothesis by itself prefers `AAAA`."""
    return st.integers(0, 2**48).map(lambda seed: make(random.Random(seed)))


def _some(r: random.Random, letters: str, count: int) -> str:
    return "".join(r.choices(letters, k=count))


# --- One maker for each detector -----------------------------------------------------------------

_local = st.text(ALNUM + "éöñøžΩж._+-'", min_size=1, max_size=30).filter(
    lambda s: s[0] not in "._+-'" and s[-1] not in "'" and s != "git"
)
_label = st.text(string.ascii_letters + string.digits + "éöñ", min_size=1, max_size=15)
_tld = st.sampled_from(["com", "org", "de", "co.uk", "museum", "travel", "рф", "xn--p1ai", "COM"])
EMAILS = st.builds(
    lambda local, labels, tld, at: f"{local}{at}{'.'.join(labels)}.{tld}",
    _local,
    st.lists(_label, min_size=1, max_size=3),
    _tld,
    st.sampled_from(["@", "@", "@", "%40"]),
)


def _with_luhn(digits: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        n = int(digit) * (2 if place % 2 == 0 else 1)
        total += n - 9 if n > 9 else n
    return digits + str(-total % 10)


_ISSUERS = [
    *[("4", 16), ("4", 13), ("4", 19), ("34", 15), ("37", 15), ("6011", 16), ("65", 16)],
    *[("649", 16), ("300", 14), ("36", 14), ("38", 14), ("3528", 16), ("3589", 16), ("62", 16)],
    *[("62", 19), ("5018", 16), ("6759", 18), ("2200", 16), ("2221", 16), ("2720", 16)],
    *[(str(n), 16) for n in range(51, 56)],
]


def _card(r: random.Random) -> str:
    prefix, length = r.choice(_ISSUERS)
    digits = _with_luhn(prefix + _some(r, string.digits, length - 1 - len(prefix)))
    groups = {16: (4, 4, 4, 4), 19: (4, 4, 4, 4, 3), 15: (4, 6, 5), 14: (4, 6, 4)}.get(length)
    separator = r.choice(["", "", " ", "-", "\u00a0", "\u2011"])
    if not groups or not separator:
        return digits
    pieces, done = [], 0
    for group in groups:
        pieces.append(digits[done : done + group])
        done += group
    return separator.join(pieces)


def _iban(r: random.Random) -> str:
    entry = r.choice(_COUNTRIES.split())
    account, kind, count = "", "", ""
    for character in entry[3:] + "n":
        if character.isdigit():
            count += character
            continue
        letters = {"n": string.digits, "a": string.ascii_uppercase}.get(
            kind, string.digits + string.ascii_uppercase
        )
        account += _some(r, letters, int(count or 0))
        kind, count = character, ""
    number = int("".join(str(int(c, 36)) for c in account + entry[:2] + "00"))
    iban = f"{entry[:2]}{98 - number % 97:02d}{account}"
    iban = r.choice([str.upper, str.upper, str.lower])(iban)
    separator = r.choice(["", " ", "\u00a0", "-"])
    return separator.join(iban[i : i + 4] for i in range(0, len(iban), 4))


def _ssn(r: random.Random) -> str:
    area = r.choice([n for n in range(1, 900) if n != 666])
    separator = r.choice("-- \u2011")
    return f"{area:03d}{separator}{r.randint(1, 99):02d}{separator}{r.randint(1, 9999):04d}"


def _phone(r: random.Random) -> str:
    if r.random() < 0.4:
        while True:
            area, office, line = r.randint(201, 989), r.randint(200, 999), r.randint(0, 9999)
            number = phonenumbers.parse(f"+1{area}{office}{line:04d}")
            if phonenumbers.is_valid_number(number):
                break
        shape = r.choice(
            [
                "({}) {}-{:04d}",
                "{}-{}-{:04d}",
                "{}.{}.{:04d}",
                "1-{}-{}-{:04d}",
                "+1 ({}) {}-{:04d}",
            ]
        )
        return shape.format(area, office, line)
    example = None
    while example is None:
        region = r.choice(sorted(phonenumbers.SUPPORTED_REGIONS))
        kind = r.choice(
            [phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE]
        )
        example = phonenumbers.example_number_for_type(region, kind)
    form = r.choice(
        [phonenumbers.PhoneNumberFormat.E164, phonenumbers.PhoneNumberFormat.INTERNATIONAL]
    )
    return phonenumbers.format_number(example, form)


def _ip(r: random.Random) -> str:
    if r.random() < 0.5:
        return ".".join(
            map(str, (r.choice([10, 172, 192, r.randint(1, 126)]), *r.choices(range(256), k=3)))
        )
    network = r.choice([0x2001 << 112, 0x2A02 << 112, 0xFD12 << 112, 0xFE80 << 112])
    bits = r.choice([16, 32, 64, 112])
    address = ipaddress.IPv6Address(network | r.getrandbits(bits) | 1)
    return r.choice([address.compressed, address.exploded, address.compressed.upper()])


def _pem(r: random.Random) -> str:
    label = r.choice(["", "RSA ", "EC ", "DSA ", "ENCRYPTED ", "OPENSSH "]) + "PRIVATE KEY"
    headers = ""
    if r.random() < 0.15:
        label, headers = "PGP PRIVATE KEY BLOCK", "Version: GnuPG v2\n\n"
    elif r.random() < 0.2:
        headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0123456789ABCDEF\n\n"
    body = base64.b64encode(r.randbytes(r.randint(48, 1200))).decode()
    lines = [body[i : i + 64] for i in range(0, len(body), 64)]
    return f"-----BEGIN {label}-----\n{headers}" + "\n".join(lines) + f"\n-----END {label}-----"


def _jwt(r: random.Random) -> str:
    def part(value: Any) -> str:
        text = json.dumps(value, separators=r.choice([(",", ":"), None]), indent=None)
        return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()

    header = {"alg": r.choice(["HS256", "RS256", "ES384", "EdDSA"]), "typ": "JWT"}
    if r.random() < 0.5:
        header = {"kid": _some(r, HEX, 16), **header}
    claims = {"sub": _some(r, string.digits, 10), "iat": r.randint(10**9, 2 * 10**9)}
    signature = base64.urlsafe_b64encode(r.randbytes(r.choice([32, 64, 256]))).rstrip(b"=").decode()
    return f"{part(header)}.{part(claims)}.{signature}"


KEYS: dict[str, Maker] = {
    "AWS access key": lambda r: (
        r.choice(["AKIA", "ASIA"]) + _some(r, string.ascii_uppercase + "234567", 16)
    ),
    "GitHub": lambda r: r.choice(["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]) + _some(r, ALNUM, 36),
    "GitHub, fine-grained": lambda r: f"github_pat_{_some(r, ALNUM, 22)}_{_some(r, ALNUM, 59)}",
    "GitLab": lambda r: r.choice(["glpat-", "glptt-", "glrt-", "gldt-"]) + _some(r, URL_SAFE, 20),
    "Slack": lambda r: (
        r.choice(["xoxb-", "xoxp-"])
        + f"{_some(r, string.digits, 12)}-{_some(r, string.digits, 12)}-{_some(r, ALNUM, 24)}"
    ),
    "Slack app": lambda r: (
        f"xapp-1-A{_some(r, ALNUM, 10)}-{_some(r, string.digits, 13)}-{_some(r, HEX, 64)}"
    ),
    "Stripe": lambda r: r.choice(["sk_live_", "sk_test_", "rk_live_"]) + _some(r, ALNUM, 24),
    "Stripe webhook": lambda r: "whsec_" + _some(r, ALNUM, 32),
    "OpenAI, old": lambda r: f"sk-{_some(r, ALNUM, 20)}T3BlbkFJ{_some(r, ALNUM, 20)}",
    "OpenAI": lambda r: r.choice(["sk-proj-", "sk-svcacct-"]) + _some(r, URL_SAFE, 120),
    "Anthropic": lambda r: f"sk-ant-api03-{_some(r, URL_SAFE, 93)}AA",
    "OpenRouter": lambda r: f"sk-or-v1-{_some(r, HEX, 64)}",
    "Google API": lambda r: "AIza" + _some(r, URL_SAFE, 35),
    "Google OAuth token": lambda r: "ya29." + _some(r, URL_SAFE, 120),
    "Google OAuth secret": lambda r: "GOCSPX-" + _some(r, URL_SAFE, 28),
    "SendGrid": lambda r: f"SG.{_some(r, URL_SAFE, 22)}.{_some(r, URL_SAFE, 43)}",
    "Twilio": lambda r: "SK" + _some(r, HEX, 32),
    "Mailgun": lambda r: "key-" + _some(r, HEX, 32),
    "Mailchimp": lambda r: _some(r, HEX, 32) + "-us12",
    "npm": lambda r: "npm_" + _some(r, ALNUM, 36),
    "PyPI": lambda r: "pypi-AgEIcHlwaS5vcmc" + _some(r, URL_SAFE, 150),
    "Hugging Face": lambda r: "hf_" + _some(r, string.ascii_letters, 34),
    "DigitalOcean": lambda r: r.choice(["dop_v1_", "doo_v1_"]) + _some(r, HEX, 64),
    "Telegram": lambda r: f"{r.randint(10**8, 10**10 - 1)}:AA{_some(r, URL_SAFE, 33)}",
    "Docker": lambda r: "dckr_pat_" + _some(r, URL_SAFE, 27),
    "Vault": lambda r: "hvs." + _some(r, URL_SAFE, 90),
    "Databricks": lambda r: "dapi" + _some(r, HEX, 32),
    "Grafana": lambda r: f"glsa_{_some(r, ALNUM, 32)}_{_some(r, HEX, 8)}",
    "Groq": lambda r: "gsk_" + _some(r, ALNUM, 52),
    "Shopify": lambda r: "shpat_" + _some(r, HEX, 32),
    "Linear": lambda r: "lin_api_" + _some(r, ALNUM, 40),
    "Azure application": lambda r: _some(r, ALNUM, 3) + "8Q~" + _some(r, ALNUM + "_~.-", 33) + "a",
}


def _with_digit(r: random.Random, letters: str, count: int) -> str:
    return _some(r, letters, count - 2) + r.choice(string.ascii_letters) + r.choice(string.digits)


# What stands before a secret, the secret, and what stands after it.
NAMED: dict[str, tuple[str, Maker, str]] = {
    "env": ("API_KEY=", lambda r: _with_digit(r, ALNUM, 32), ""),
    "JSON": ('"client_secret": "', lambda r: _with_digit(r, URL_SAFE, 40), '"'),
    "Python": ("auth_token = '", lambda r: _with_digit(r, ALNUM, 24), "'"),
    "YAML": ("access-token: ", lambda r: _with_digit(r, HEX, 40), ""),
    "AWS secret": ("aws_secret_access_key = ", lambda r: _with_digit(r, BASE64, 40), ""),
    "AWS pair": ("AKIAIOSFODNN7EXAMPLE and ", lambda r: _some(r, BASE64, 38) + "aZ", ""),
    "Twilio": ("TWILIO_AUTH_TOKEN=", lambda r: _with_digit(r, HEX, 32), ""),
    "bearer": ("Authorization: Bearer ", lambda r: _with_digit(r, URL_SAFE, 40), ""),
    "basic": (
        "Authorization: Basic ",
        lambda r: base64.b64encode(b"u:" + r.randbytes(13)).decode(),
        "",
    ),
    "header": ("curl -H 'X-Api-Key: ", lambda r: _with_digit(r, ALNUM, 32), "'"),
    "password": ("DB_PASSWORD=", lambda r: _with_digit(r, ALNUM + "!#%*+=", 12), ""),
    "quoted": ('password: "', lambda r: _with_digit(r, ALNUM + "!#$%*+=", 10), '"'),
    "said": ("my password is ", lambda r: _with_digit(r, ALNUM, 9), ""),
    "URL": (
        "postgres://ada:",
        lambda r: _some(r, ALNUM + "!$%*+=", 12),
        "@db.example.com:5432/app",
    ),
    "storage": (
        "AccountKey=",
        lambda r: _some(r, BASE64, 86) + "==",
        ";EndpointSuffix=core.windows.net",
    ),
    "bus": ("SharedAccessKey=", lambda r: _some(r, BASE64, 43) + "=", ""),
    "Slack hook": (
        "https://hooks.slack.com/services/",
        lambda r: (
            f"T{_some(r, string.digits, 8)}/B{_some(r, string.digits, 8)}/{_some(r, ALNUM, 24)}"
        ),
        "",
    ),
}

MADE: dict[str, st.SearchStrategy[str]] = {
    "email": EMAILS,
    "card": drawn(_card),
    "iban": drawn(_iban),
    "us_ssn": drawn(_ssn),
    "phone": drawn(_phone),
    "ip": drawn(_ip),
    "private_key": drawn(_pem),
    "jwt": drawn(_jwt),
    "api_key": st.one_of([drawn(make) for make in KEYS.values()]),
}
NAMED_SECRETS = st.sampled_from(sorted(NAMED)).flatmap(
    lambda name: drawn(NAMED[name][1]).map(lambda key: (NAMED[name][0], key, NAMED[name][2]))
)

# --- What stands around them ---------------------------------------------------------------------

_BEFORE = [
    "",
    "",
    " ",
    "(",
    '"',
    "'",
    "<",
    "[",
    "=",
    ": ",
    ", ",
    "|",
    "\t",
    "→ ",
    "«",
    "é ",
    "联系",
]
_AFTER = [
    "",
    "",
    " ",
    ".",
    ",",
    ")",
    '"',
    "'",
    ">",
    "]",
    ";",
    "!",
    "?",
    "|",
    " and",
    "。",
    "…",
    " é",
]
_prose = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)
PLACES = st.tuples(
    st.builds(lambda t, b: (t + "\n" if t else "") + b, _prose, st.sampled_from(_BEFORE)),
    st.builds(lambda a, t: a + ("\n" + t if t else ""), st.sampled_from(_AFTER), _prose),
    # How often it was quoted as JSON, and whether in ASCII.
    st.integers(0, 2),
    st.booleans(),
)


def placed(thing: str, place: tuple[str, str, int, bool]) -> tuple[str, int, int]:
    """A text with the thing in it, and where it is."""
    before, after, quotes, ascii_only = place
    if quotes == 0:  # What looks like an escape in a plain text would be read as one.
        before, after = before.replace("\\", "/"), after.replace("\\", "/")
    for _quote in range(quotes):
        before, thing, after = (
            json.dumps(part, ensure_ascii=ascii_only)[1:-1] for part in (before, thing, after)
        )
    return before + thing + after, len(before), len(before) + len(thing)
