"""The HTML of the turns and messages of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from django.template.defaultfilters import filesizeformat
from django.utils.formats import localize
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_agent_sessions.admin.formatting import (
    MINUTE,
    NOTHING,
    SECOND,
    format_cost,
    format_duration,
    format_input,
    format_tokens,
    html,
    join_html,
)
from django_agent_sessions.conf import get_settings
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.role_labels import OTHER_ROLE, ROLE_LABELS
from django_agent_sessions.queries.message_pages import MessagePreview
from django_agent_sessions.values.prices import cost_of

from .piece_markup import PieceMarkup
from .view_models import FeedbackViewModel, MessageGroup, MessageViewModel, SpeakerTurn
from .viewers import Viewer

_MAX_NOTE = 300


class Markup(PieceMarkup):
    """Writes the HTML of messages for one page."""

    def __init__(self, viewer: Viewer, *, target: UUID | None = None) -> None:
        super().__init__(viewer)
        self._target = target
        self._here = viewer.here
        self._moment, self._prices = viewer.moment, get_settings().PRICES

    def turns(self, turns: Iterable[SpeakerTurn]) -> SafeString:
        return join_html(self._turn(turn) for turn in turns)

    def _turn(self, turn: SpeakerTurn) -> SafeString:
        began, silent = turn.began, turn.silent
        return html(
            '\n<article class="as-turn as-role-{} as-voice-{}{}">\n'
            '  <header class="as-turn-head">\n'
            '    <span class="as-dot" aria-hidden="true"></span>\n'
            '    <span class="as-who">{}</span>\n'
            '    <span class="as-agent-label"><span class="as-visually-hidden">{}</span> {}</span>'
            '\n    <time class="as-time" datetime="{}" title="{}">{}</time>\n'
            "  </header>{}\n</article>\n",
            turn.role or "other",
            localize(turn.voice.colour),
            SafeString(" as-turn-silent") if silent else "",
            self._speaker(turn.role, silent),
            _("agent"),
            turn.voice.name,
            self._moment(began, "c"),
            self._moment(began, SECOND),
            self._moment(began, MINUTE),
            join_html(self._group(group) for group in turn.groups),
        )

    def _speaker(self, role: str, silent: bool) -> str:
        if silent:
            return _("Tool results")
        return _(ROLE_LABELS.get(role, OTHER_ROLE))

    def _group(self, group: MessageGroup) -> SafeString:
        """Return consecutive messages; several with tool calls only are folded."""
        entries = join_html(self._entry(entry) for entry in group.entries)
        if not group.calls:
            return entries
        content = html('    <div class="as-stretch">{}</div>\n  ', entries)
        return html("\n  {}\n", self._folded(group.calls, content))

    def _entry(self, entry: MessageViewModel) -> SafeString:
        row, key = entry.row, SafeString(entry.row.id)
        return html(
            '\n<div class="as-entry{}{}{}" id="m-{}" data-message="{}" data-path="[]" '
            'data-as-entry tabindex="-1">\n  <div class="as-pieces">{}\n  </div>\n'
            '  <div class="as-meta">{}\n  </div>{}\n</div>\n',
            "" if entry.pieces else " as-entry-silent",
            " as-entry-redacted" if row.redacted_at else "",
            " as-entry-target" if row.id == self._target else "",
            key,
            key,
            self.pieces(entry.pieces) if entry.pieces else self._answered(entry.answered),
            self._meta(entry, key),
            self._feedback(entry),
        )

    def _feedback(self, entry: MessageViewModel) -> SafeString:
        if not entry.feedback:
            return NOTHING
        label = _("Feedback")
        items = join_html(map(self._feedback_item, entry.feedback))
        return html('\n  <ul class="as-feedback" aria-label="{}">{}\n  </ul>', label, items)

    def _feedback_item(self, one: FeedbackViewModel) -> SafeString:
        labels = {"good": _("Good"), "bad": _("Bad"), "neutral": _("Comment")}
        comment = NOTHING
        if one.hidden:
            hidden = _("Comment hidden")
            comment = html('\n      <p class="as-feedback-hidden">{}</p>', hidden)
        elif one.comment:
            comment = html('\n      <p class="as-feedback-comment" dir="auto">{}</p>', one.comment)
        return html(
            '\n    <li class="as-feedback-{}">\n      <span class="as-feedback-value">{}</span> '
            '<bdi class="as-feedback-user">{}</bdi> <bdi>{}</bdi> '
            '<time datetime="{}">{}</time>{}\n    </li>',
            one.value,
            labels[one.value],
            one.user,
            one.source,
            self._moment(one.moment, "c"),
            self._moment(one.moment, MINUTE),
            comment,
        )

    def _answered(self, count: int) -> SafeString:
        text = ngettext(
            "%(count)s result, shown with its call",
            "%(count)s results, shown with their calls",
            count,
        )
        return html('\n    <p class="as-answered">{}</p>', text % {"count": localize(count)})

    def _meta(self, entry: MessageViewModel, key: SafeString) -> SafeString:
        row = entry.row
        parts = [
            html(
                '\n    <a class="as-permalink" href="{}at={}#m-{}" title="{}">#{}'
                '<span class="as-visually-hidden"> {}</span></a>',
                self._here,
                key,
                key,
                self._moment(row.created_at, SECOND),
                localize(row.message_id),
                _("link to this message"),
            )
        ]
        if row.branch:
            branch = _("branch %(branch)s") % {"branch": localize(row.branch)}
            parts.append(html("\n    <span>{}</span>", branch))
        if row.author:
            author = _("by user %(user)s") % {"user": displayable(row.author)}
            parts.append(html("\n    <bdi>{}</bdi>", author))
        parts.extend(self._figures(row))
        if row.redacted_at:
            parts.append(self._redacted_mark(entry))
        parts.append(self._extra(entry, key))
        return join_html(parts)

    def _figures(self, row: MessagePreview) -> Iterator[SafeString]:
        """Yield model, tokens, latency and cost; unknown ones only of an assistant's message."""
        by_model, has_tokens = (
            row.role == "assistant",
            (row.input_tokens is not None or row.output_tokens is not None),
        )
        if row.model:
            yield html('\n    <span class="as-model" title="{}">{}</span>', _("Model"), row.model)
        if has_tokens:
            words = _("%(read)s in, %(written)s out")
            counts = {"read": format_input(row), "written": format_tokens(row.output_tokens)}
            yield html('\n    <span title="{}">{}</span>', _("Tokens"), words % counts)
        elif by_model:
            yield html("\n    <span>{}</span>", _("tokens unknown"))
        if row.latency_ms is not None:
            latency = format_duration(row.latency_ms)
            yield html('\n    <span title="{}">{}</span>', _("Model latency"), latency)
        if has_tokens and self._prices:
            cost = cost_of(self._prices, row.model, row, row.created_at)
            words = _("cost %(cost)s") % {"cost": format_cost(cost)}
            yield html('\n    <span title="{}">{}</span>', _("At today’s prices"), words)

    def _redacted_mark(self, entry: MessageViewModel) -> SafeString:
        link = self._viewer.audit_url and html(
            ' <a href="{}&amp;action__exact=redacted">{}</a>',
            self._viewer.audit_url,
            _("All redactions"),
        )
        note = _("redacted") if entry.fully_redacted else Truncator(entry.note).chars(_MAX_NOTE)
        return html('\n    <span class="as-redacted-mark">{}{}</span>', note, link)

    def _extra(self, entry: MessageViewModel, key: SafeString) -> SafeString:
        """Return the actions of a message: redaction, and a menu of the others."""
        row, viewer = entry.row, self._viewer
        size = html(
            '<span title="{}">{}</span>', _("Size of the stored message"), filesizeformat(row.size)
        )
        parts = [size]
        if viewer.can_read:
            parts.append(self._message_link(key, "raw/", _("Raw")))
            parts.append(self._message_link(key, "raw/?download=1", _("Download")))
        if viewer.can_review:
            link = '\n      <a href="{}review/?message={}">{}</a>'
            parts.append(html(link, self._base, key, _("Note…")))
        if viewer.can_fork:
            parts.append(self._message_link(key, "fork/", _("Fork from here…")))
        if viewer.can_change and not row.branch:
            parts.append(self._message_link(key, "rewind/", _("Rewind to here…")))
        redact = self._redacts and html(
            '\n      <a class="as-redact" href="{}redact/?message={}&amp;path=%5B%5D" title="{}">{}'
            '<span class="as-visually-hidden"> #{}</span></a>',
            self._base,
            key,
            _("Redact this message or some of its text"),
            _("Redact message…"),
            localize(row.message_id),
        )
        return html(
            '\n    <span class="as-extra">{}\n      <details class="as-others"><summary>{}'
            '<span class="as-visually-hidden"> #{}</span></summary>{}</details>\n    </span>',
            redact or NOTHING,
            _("More"),
            localize(row.message_id),
            join_html(parts),
        )

    def _message_link(self, message: SafeString, page: str, label: str) -> SafeString:
        return html('\n      <a href="{}messages/{}/{}">{}</a>', self._base, message, page, label)
