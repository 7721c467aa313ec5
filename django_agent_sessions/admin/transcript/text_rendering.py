"""Texts as HTML, plain or rendered from Markdown, with masks of redactions as chips."""

from __future__ import annotations

import functools
import re
import secrets
from collections.abc import Callable

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from django_agent_sessions.content.dialects import displayable

MAX_SHOWN_CHARACTERS = 20_000
"""The most characters of one text that a page shows."""

MARKDOWN_BUDGET = 200_000
"""The most characters of a page that are rendered as Markdown; the rest is shown as plain text."""

MASK = re.compile(r"\[REDACTED(?::([A-Z0-9_]+)|-[g-v]{12})?\]")
"""The mask of a redaction."""

# One line that Markdown only wraps in a paragraph; many messages are one.
_SENTENCES = re.compile(r"[^\W\d_](?:[^\W_]|[ ,.?!;()-])*")

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


class TextRenderer:
    """Renders the texts of one page."""

    def __init__(self, *, plain: bool = False) -> None:
        self._markdown = None if plain else markdown()
        self._left = MARKDOWN_BUDGET

    def html(self, text: str, note: str | None = None) -> SafeString:
        """Render a text; ``note`` is the tooltip of its masks, None for unredacted texts."""
        text = displayable(text)
        if note is None:
            return self._render(text)
        kinds: list[str] = []
        # A random placeholder: Markdown decodes "&#xE000;", so a message could contain a fixed one.
        # Not ASCII: links percent-encode it, so no chip is inserted into a URL.
        secret = secrets.token_hex(8)

        def hide(mask: re.Match[str]) -> str:
            kinds.append(mask[1] or "")
            return f"\ue000{secret}:{len(kinds) - 1}\ue001"

        def insert_chip(placeholder: re.Match[str]) -> str:
            number = int(placeholder[1])
            return chip(kinds[number], note) if number < len(kinds) else placeholder[0]

        # Chips are inserted after rendering, and only for masks of the source text.
        html = re.sub(
            f"\ue000{secret}:([0-9]{{1,9}})\ue001", insert_chip, self._render(MASK.sub(hide, text))
        )
        return mark_safe(html)  # noqa: S308 - escaped or sanitised text, and chips

    def _render(self, text: str) -> SafeString:
        if self._markdown is None or len(text) > self._left:
            return format_html('<div class="as-plain">{}</div>', text)
        self._left -= len(text)
        return format_html('<div class="as-markdown">{}</div>', self._markdown(text))


def chip(kind: str, note: str) -> SafeString:
    label = kind.replace("_", " ").lower() if kind else _("redacted")
    return format_html(
        '<span class="as-chip" title="{}"><span class="as-visually-hidden">{} </span>{}</span>',
        note,
        _("redacted:") if kind else "",
        label,
    )


def render_chips(text: str, note: str | None) -> SafeString:
    """Escape a short text and render its masks as chips."""
    if note is None:
        return escape(text)
    html, end = SafeString(""), 0
    for mask in MASK.finditer(text):
        html += escape(text[end : mask.start()]) + chip(mask[1] or "", note)
        end = mask.end()
    return html + escape(text[end:])


@functools.cache
def markdown() -> Callable[[str], SafeString] | None:
    """Return the Markdown renderer, or None if its packages are not installed."""
    try:
        import nh3
        from markdown_it import MarkdownIt
    except ImportError:
        return None
    reader = MarkdownIt("commonmark", {"html": False, "breaks": True})
    # Images would be requested from URLs that a model or a tool chose.
    reader.enable(["table", "strikethrough"]).disable("image")
    cleaner = nh3.Cleaner(
        tags=_TAGS,
        # "*" removes titles: a chip inside the attribute would end its quotes.
        attributes={"a": {"href"}, "*": set()},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener nofollow noreferrer",
        strip_comments=True,
    )

    def render(text: str) -> SafeString:
        if _SENTENCES.fullmatch(text):
            return mark_safe(f"<p>{text.rstrip(' ')}</p>\n")  # noqa: S308 - no character of HTML
        try:
            html = reader.render(text)
        except Exception:
            # Untrusted text may crash the renderer; the page must still show it.
            return escape(text)
        return mark_safe(cleaner.clean(html))  # noqa: S308 - sanitised by nh3

    return render
