"""The HTML of the pieces of messages: texts, media, calls and results.

It is written in Python, because templates take ten times as long: a page has hundreds of pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from django.template.defaultfilters import filesizeformat
from django.utils.formats import localize
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_agent_sessions.admin.formatting import NOTHING, html, join_html

from .view_models import PartViewModel
from .viewers import Viewer

OPEN = SafeString(" open")
_ICON = SafeString('<span class="as-tool-icon" aria-hidden="true"></span>')
_KINDS_WITH_HTML = ("text", "output")


class PieceMarkup:
    """Writes the HTML of pieces for one page."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer, self._base = viewer, viewer.base_url
        self._redacts = viewer.can_redact

    def pieces(self, pieces: Iterable[PartViewModel]) -> SafeString:
        return join_html(self._piece(piece) for piece in pieces)

    def _piece(self, piece: PartViewModel) -> SafeString:
        if piece.kind == "call":
            return self._call(piece)
        if piece.kind == "group":
            calls = join_html(self._call(call) for call in piece.contents)
            return html("\n{}\n", self._folded(piece.contents, html("  {}\n", calls)))
        if piece.kind == "result":
            return self._lone_result(piece)
        return html(
            '\n<div class="as-piece as-piece-{}" data-message="{}" data-path="{}">\n'
            "  {}\n  {}\n  {}{}\n</div>\n",
            piece.kind,
            piece.message,
            piece.address,
            self._text(piece),
            self._content(piece),
            self._shortened(piece) if piece.cut else "",
            html('\n  <p class="as-piece-tools">{}\n</p>', self._redact_part(piece))
            if self._redacts and piece.path
            else "",
        )

    def _text(self, piece: PartViewModel) -> SafeString | str:
        if piece.scrolls:
            return html(
                '<div class="as-tall" tabindex="0" role="region" aria-label="{}">{}</div>',
                _("Long text"),
                piece.html,
            )
        return piece.html if piece.kind in _KINDS_WITH_HTML else ""

    def _content(self, piece: PartViewModel) -> SafeString | str:
        """Return what a piece shows in addition to its text."""
        match piece.kind:
            case "text":
                return self._citations(piece.citations) if piece.citations else ""
            case "output":
                return ""
            case "reasoning":
                return self._reasoning(piece)
            case "image":
                return join_html((self._image(piece), "\n    ", piece.html, piece.tree))
            case "file":
                return join_html((self._file(piece), "\n    ", piece.html, piece.tree))
            case "large":
                return self._large(piece)
            case "corrupt":
                return html(
                    '<p class="as-notice as-notice-bad">{}</p><pre class="as-plain">{}</pre>',
                    _("Corrupt: the stored data is not a message."),
                    piece.html,
                )
            case "hidden":
                return html('<p class="as-hidden">{}</p>', _("[hidden]"))
            case "gone":
                return html(
                    '<p class="as-tombstone"><span class="as-tombstone-icon" aria-hidden="true">'
                    "</span>{}</p>",
                    piece.html,
                )
            case "empty":
                return html('<p class="as-hint">{}</p>', _("(empty)"))
        return piece.tree

    def _citations(self, citations: Iterable[tuple[str, str]]) -> SafeString:
        sources = [
            html('<li><a href="{}" rel="noopener nofollow noreferrer">{}</a></li>', url, title)
            if url
            else html("<li>{}</li>", title)
            for title, url in citations
        ]
        label = _("Sources")
        return html('<ul class="as-citations" aria-label="{}">{}</ul>', label, join_html(sources))

    def _reasoning(self, piece: PartViewModel) -> SafeString:
        if piece.html:
            return html(
                '<details class="as-reasoning"><summary>{}</summary>{}</details>',
                _("Reasoning"),
                piece.html,
            )
        size = f" ({filesizeformat(piece.size)})" if piece.size else ""
        return html(
            '<p class="as-hint as-reasoning-none">{}{}</p>', _("Reasoning, not readable"), size
        )

    def _image(self, piece: PartViewModel) -> SafeString:
        size = filesizeformat(piece.size or 0)
        url = self._content_url(piece, "media/?path=")
        label = _("Image, %(size)s") % {"size": size}
        return html(
            '<a class="as-image" data-as-lost="{}" href="{}"><img loading="lazy" decoding="async" '
            'src="{}" alt="{}{}"></a>',
            _("The file is missing, or its storage is unavailable."),
            url,
            url,
            label,
            f": {piece.name}" if piece.name else "",
        )

    def _file(self, piece: PartViewModel) -> SafeString:
        if piece.host:
            external = _("external, at %(host)s") % {"host": piece.host}
            where = html(' <span class="as-hint">{}</span>', external)
            name = (
                html(
                    '<a href="{}" rel="noopener nofollow noreferrer">{}</a>',
                    piece.url,
                    piece.name or piece.host,
                )
                if piece.url
                else piece.name
            )
        else:
            where, name = NOTHING, piece.name or _("File")
            if piece.size is not None:
                url = self._content_url(piece, "media/?download=1&path=")
                name = html('<a href="{}">{}</a>', url, name)
        return html(
            '<p class="as-file"><span class="as-file-icon" aria-hidden="true"></span>{}{} '
            '<span class="as-hint">{}{}</span></p>',
            name,
            where,
            piece.media_type,
            "" if piece.size is None else f" · {filesizeformat(piece.size)}",
        )

    def _large(self, piece: PartViewModel) -> SafeString:
        text = _("This message is %(size)s; the page shows only its beginning.")
        url = f"{self._base}messages/{piece.message}/raw/"
        return html(
            '{}\n    <p class="as-notice">{} <a href="{}">{}</a> · <a href="{}">{}</a></p>',
            piece.html,
            text % {"size": filesizeformat(piece.size or 0)},
            url,
            _("Open"),
            f"{url}?download=1",
            _("Download"),
        )

    def _shortened(self, piece: PartViewModel) -> SafeString:
        return html(
            '\n  <p class="as-notice">{} <a href="{}">{}</a></p>',
            _("Shortened from %(count)s characters.") % {"count": localize(piece.cut)},
            self._content_url(piece, "text/?path="),
            _("Show all"),
        )

    def _content_url(self, piece: PartViewModel, page: str) -> str:
        return f"{self._base}messages/{piece.message}/{page}{quote(piece.address, safe='')}"

    # --- calls and results -------------------------------------------------------------------

    def _folded(self, calls: Sequence[PartViewModel], content: SafeString) -> SafeString:
        """Return calls under their number and their tools, most used first."""
        names = Counter(call.name for call in calls).most_common()
        tools = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in names)
        errors = sum(call.status == "error" for call in calls)
        words = ngettext("%(count)s tool call", "%(count)s tool calls", len(calls))
        failed = ngettext("%(count)s failed", "%(count)s failed", errors)
        status = html(
            ' <span class="as-status as-status-error">{}</span>',
            failed % {"count": localize(errors)},
        )
        return html(
            '<details class="as-group"{}>\n  <summary>{}{} <span class="as-hint">{}</span>{}'
            "</summary>\n{}</details>",
            OPEN if errors else "",
            _ICON,
            words % {"count": localize(len(calls))},
            tools,
            status if errors else "",
            content,
        )

    def _call(self, call: PartViewModel) -> SafeString:
        failed = call.status == "error"
        return html(
            '\n<details class="as-call{}" data-as-call="{}"{}>\n'
            '  <summary>{}<span class="as-tool-name">{}</span>\n'
            '    <span class="as-status{}">{}</span>{}\n  </summary>\n'
            '  <div class="as-half" data-message="{}" data-path="{}">\n'
            '    <p class="as-half-label">{}{}</p>\n    {}\n  </div>\n  {}\n</details>\n',
            " as-call-error" if failed else "",
            call.call_id,
            OPEN if failed else "",
            _ICON,
            call.name or _("tool"),
            *self._call_status(call),
            ""
            if call.duration is None
            else html('\n    <span class="as-duration">{}</span>', call.seconds),
            call.message,
            call.address,
            _("Arguments"),
            self._redact_link(call),
            call.tree or html('<p class="as-hint">{}</p>', _("none")),
            self._result(call.result) if call.result else "",
        )

    def _call_status(self, call: PartViewModel) -> tuple[str, str]:
        """Return the class and the words for how a call ended."""
        if call.status == "error":
            return " as-status-error", _("error")
        if call.result or call.status == "success":
            return " as-status-success", _("ok")
        if call.counterpart_outside:
            return "", _("result in later messages")
        return " as-status-none", _("no result")

    def _lone_result(self, piece: PartViewModel) -> SafeString:
        """Return a result whose call is not on the page."""
        failed = piece.status == "error"
        status = piece.status and html(
            ' <span class="as-status as-status-{}">{}</span>',
            piece.status,
            _("error") if failed else _("ok"),
        )
        return html(
            '\n<details class="as-call{}" open data-as-result="{}">\n'
            '  <summary>{}<span class="as-tool-name">{}</span> <span class="as-hint">{}</span>{}'
            "</summary>\n  {}\n</details>\n",
            " as-call-error" if failed else "",
            piece.call_id,
            _ICON,
            piece.name or _("Tool result"),
            _("its call is in earlier messages")
            if piece.counterpart_outside
            else _("a result without a call"),
            status,
            self._result(piece),
        )

    def _result(self, result: PartViewModel) -> SafeString:
        empty = not result.contents and not result.tree
        return html(
            '\n<div class="as-half as-half-result" data-message="{}" data-path="{}">\n'
            '  <p class="as-half-label">{}{}</p>\n  {}\n  {}\n  {}\n</div>\n',
            result.message,
            result.address,
            _("Result"),
            self._redact_link(result),
            self.pieces(result.contents),
            result.tree,
            html('<p class="as-hint">{}</p>', _("(empty)")) if empty else "",
        )

    def _redact_link(self, piece: PartViewModel) -> SafeString:
        """Return the link after a label, for users who may redact."""
        if not (self._redacts and piece.path):
            return NOTHING
        return html(" {}", self._redact_part(piece))

    def _redact_part(self, piece: PartViewModel) -> SafeString:
        return html(
            '<a class="as-redact" href="{}redact/?message={}&amp;path={}" title="{}">{}</a>\n',
            self._base,
            piece.message,
            quote(piece.address, safe=""),
            _("Redact this part of the message or some of its text"),
            _("Redact part…"),
        )
