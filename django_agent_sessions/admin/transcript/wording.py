"""What was said, as HTML: plain or as Markdown, with the masks of redactions as chips."""

from __future__ import annotations

import functools
import re
import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.utils import formats
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from django_agent_sessions.admin.moments import local
from django_agent_sessions.models import AuditEvent
from django_agent_sessions.transcripts import displayable

SHOWN = 20_000
"""Characters of one text that a page shows."""

MARKDOWN_BUDGET = 200_000
"""Characters of one page that are read as Markdown; what is beyond is shown plain."""

MASK = re.compile(r"\[REDACTED(?::([A-Z0-9_]+))?\]")
"""What a redaction leaves behind."""

_TAGS = {
    *(
        "p",
        "br",
        "hr",
        "em",
        "strong",
        "s",
        "del",
        "code",
        "pre",
        "blockquote",
        "ul",
        "ol",
        "li",
        "a",
    ),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}


class Wording:
    """Turns the texts of one page into HTML."""

    def __init__(self, *, plain: bool = False) -> None:
        self._markdown = None if plain else markdown()
        self._left = MARKDOWN_BUDGET

    def html(self, text: str, note: str | None = None) -> SafeString:
        """Renders a text."""
        text = displayable(text)
        if note is None:
            return self._render(text)
        kinds: list[str] = []
        # Markdown reads "&#xE000;", so that any fixed sign could be written by whoever speaks.
        # Not ASCII, because that would stay as it is within the address of a link.
        secret = secrets.token_hex(8)

        def hide(mask: re.Match[str]) -> str:
            kinds.append(mask[1] or "")
            return f"\ue000{secret}:{len(kinds) - 1}\ue001"

        def draw(place: re.Match[str]) -> str:
            number = int(place[1])
            return chip(kinds[number], note) if number < len(kinds) else place[0]

        # Chips are put in after rendering, and only for what stood here before it.
        html = re.sub(
            f"\ue000{secret}:([0-9]{{1,9}})\ue001", draw, self._render(MASK.sub(hide, text))
        )
        return mark_safe(html)  # noqa: S308 - of what was escaped or sanitised, and chips

    def _render(self, text: str) -> SafeString:
        if self._markdown is None or len(text) > self._left:
            return format_html('<div class="as-plain">{}</div>', text)
        self._left -= len(text)
        return format_html('<div class="as-markdown">{}</div>', self._markdown(text))


def chip(kind: str, note: str) -> SafeString:
    """Draws what a redaction left."""
    label = kind.replace("_", " ").lower() if kind else _("redacted")
    return format_html(
        '<span class="as-chip" title="{}"><span class="as-visually-hidden">{} </span>{}</span>',
        note,
        _("redacted:") if kind else "",
        label,
    )


def chipped(text: str, note: str | None) -> SafeString:
    """Escapes a short text, with its masks as chips."""
    if note is None:
        return escape(text)
    drawn, end = SafeString(""), 0
    for mask in MASK.finditer(text):
        drawn += escape(text[end : mask.start()]) + chip(mask[1] or "", note)
        end = mask.end()
    return drawn + escape(text[end:])


def redaction_note(
    when: datetime, event: AuditEvent | None, *, reason: bool = True, last: bool = False
) -> str:
    """Says when something was redacted, by whom and why."""
    # An original is kept from the first time on, and that is the time beside it.
    moment = formats.date_format(local(event.created_at if event else when), "DATETIME_FORMAT")
    if event is None:
        return _("Redacted on %(when)s.") % {"when": moment}
    words = {"when": moment, "who": event.actor or _("a program"), "why": event.reason}
    if reason and event.reason:
        if last:
            return _("Last redacted on %(when)s by %(who)s: %(why)s") % words
        return _("Redacted on %(when)s by %(who)s: %(why)s") % words
    if last:
        return _("Last redacted on %(when)s by %(who)s.") % words
    return _("Redacted on %(when)s by %(who)s.") % words


@functools.cache
def markdown() -> Callable[[str], SafeString] | None:
    """Gives the renderer of Markdown."""
    try:
        import nh3
        from markdown_it import MarkdownIt
    except ImportError:
        return None
    reader = MarkdownIt("commonmark", {"html": False, "breaks": True})
    # An image would be fetched from wherever a model or its tools say.
    reader.enable(["table", "strikethrough"]).disable("image")
    clean: dict[str, Any] = {
        "tags": _TAGS,
        # Without "*" a title may stay, in which a chip would break out of its quotes.
        "attributes": {"a": {"href"}, "*": set()},
        "url_schemes": {"http", "https", "mailto"},
        "link_rel": "noopener nofollow noreferrer",
        "strip_comments": True,
    }

    def render(text: str) -> SafeString:
        try:
            drawn = reader.render(text)
        except Exception:
            # It is a stranger's text; whatever it does to the renderer, a page must show it.
            return escape(text)
        return mark_safe(nh3.clean(drawn, **clean))  # noqa: S308 - that is what nh3 is for

    return render
