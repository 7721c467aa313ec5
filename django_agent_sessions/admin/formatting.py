"""Times, numbers and HTML as the admin writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from html import escape
from typing import LiteralString
from uuid import UUID

from django.utils.formats import date_format, number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_agent_sessions.conf import get_settings
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import Session
from django_agent_sessions.values.local_time import to_local_time
from django_agent_sessions.values.prices import Tokens, amount, amount_text

DAY = "Y-m-d"
MINUTE = "Y-m-d H:i T"
SECOND = "Y-m-d H:i:s T"
"""The formats of times on all pages, as in the templates."""


def format_moment(moment: datetime, name: str = MINUTE) -> str:
    return str(date_format(to_local_time(moment), name)).strip()


def format_compact(value: float) -> str:
    """Format a number with a unit prefix, such as 1.2k."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return _format_rounded(value / size, 100) + letter
    return _format_rounded(value)


def format_duration(milliseconds: float | None) -> str:
    """Format milliseconds; None becomes a dash."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1000:
        return _("%s ms") % number_format(round(milliseconds), 0)
    if milliseconds < 120_000:
        return _("%s s") % _format_rounded(milliseconds / 1000)
    return _("%s min") % _format_rounded(milliseconds / 60_000)


def shown_title(session: Session, *, readable: bool) -> str:
    """Return what pages call a session; its id for viewers who may not read its content."""
    return displayable(session.display_title) if readable else session.session_id


def is_generated(session_id: str) -> bool:
    """Return whether a session id is a UUID, which tells a reader nothing."""
    try:
        return bool(UUID(session_id))
    except ValueError:
        return False


def format_tokens(tokens: int | None) -> str:
    """Format a number of tokens; None, which no SDK reported, becomes a word."""
    return _("unknown") if tokens is None else format_integer(tokens)


def format_input(tokens: Tokens) -> str:
    """Format a number of input tokens, with those of a prompt cache if any were reported."""
    whole = format_tokens(tokens.input_tokens)
    read, written = tokens.cache_read_tokens, tokens.cache_write_tokens
    if read is None and written is None:
        return whole
    words = _("%(tokens)s (%(read)s from cache, %(written)s to cache)")
    return words % {
        "tokens": whole,
        "read": format_integer(read or 0),
        "written": format_integer(written or 0),
    }


def format_cost(cost: int | None) -> str:
    """Format a stored cost with its currency; None becomes a word."""
    value = amount(cost)
    if value is None:
        return _("unknown")
    places = 2 if value >= 1 or not value else 4
    shown = round(value, places)
    if value and not shown:
        return _with_currency(f"< {number_format(Decimal(1).scaleb(-places), places)}")
    return _with_currency(number_format(shown, places, force_grouping=True))


def exact_cost(cost: int | None) -> str:
    """Return a stored cost with all its digits and its currency; None becomes a word."""
    return _("unknown") if cost is None else _with_currency(amount_text(cost))


def has_prices() -> bool:
    """Return whether the admin shows costs: ``PRICES`` has models."""
    return bool(get_settings().PRICES)


def _with_currency(text: str) -> str:
    return f"{text} {get_settings().CURRENCY}".strip()


def format_integer(value: float) -> str:
    return str(number_format(round(value), 0, force_grouping=True))


def _format_rounded(value: float, integers_from: float = 10) -> str:
    digits = 1 if value < integers_from and round(value, 1) != round(value) else 0
    return str(number_format(round(value, digits), digits))


NOTHING = SafeString("")


def html(template: LiteralString, *values: object) -> SafeString:
    """Return a text of the program with values in it, escaped unless they are a ``SafeString``.

    For pages with thousands of pieces: Django's ``format_html`` does the same, but takes several
    times as long, because it also handles lazy templates and objects with ``__html__``.
    """
    return SafeString(
        template.format(
            *[value if isinstance(value, SafeString) else escape(str(value)) for value in values]
        )
    )


def fill_in(sentence: str, words: Mapping[str, object]) -> SafeString:
    """Return a translated sentence with words in it, escaped unless they are a ``SafeString``."""
    return SafeString(escape(sentence) % {name: html("{}", word) for name, word in words.items()})


def moment_tag(moment: datetime) -> SafeString:
    """Return a time for a sentence, which no line breaks."""
    iso = to_local_time(moment).isoformat()
    return html('<time datetime="{}">{}</time>', iso, format_moment(moment))


def join_html(parts: Iterable[object]) -> SafeString:
    """Return the parts one after the other, escaped unless they are a ``SafeString``."""
    return SafeString(
        "".join([part if isinstance(part, SafeString) else escape(str(part)) for part in parts])
    )
