"""JSON as a folding HTML tree, limited in depth, length and number of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_agent_sessions.admin.formatting import html, join_html
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models.fields import CorruptPayload

from .text_rendering import render_chips

NODES = 1500
"""The most values that a tree shows."""

DEPTH = 40
"""The most levels that a tree shows."""

TEXT = 2000
"""The most characters that a tree shows of one text."""

_OPEN_LEVELS = 2
"""Levels that are open at first."""

_INLINE_LENGTH = 80


def tree(value: Any, *, note: str | None = None, levels: int = _OPEN_LEVELS) -> SafeString:
    """Return a value as a tree with so many levels open at first."""
    return _Tree(note, levels).render(value, 0)


class _Tree:
    """The rendering of one tree; counts its nodes."""

    def __init__(self, note: str | None, levels: int) -> None:
        self._note = note
        self._levels = levels
        self._left = NODES

    def render(self, value: Any, depth: int) -> SafeString:
        self._left -= 1
        if isinstance(value, dict) and value:
            return self._branch(value.items(), len(value), "{}", depth)
        if isinstance(value, list | tuple) and value:
            return self._branch(enumerate(value), len(value), "[]", depth)
        return _leaf(value, self._note)

    def _branch(self, items: Any, count: int, kind: str, depth: int) -> SafeString:
        if depth >= DEPTH:
            return html('<span class="as-json-cut">{}</span>', _("… nested deeper"))
        label = ngettext("%(count)s entry", "%(count)s entries", count) % {"count": count}
        children = join_html(self._children(items, count, depth))
        return html(
            '<details class="as-json"{}><summary><span class="as-json-kind">{}</span> '
            "{}</summary><ul>{}</ul></details>",
            SafeString(" open") if depth < self._levels and count <= 40 else "",
            kind,
            label,
            children,
        )

    def _children(self, items: Any, count: int, depth: int) -> Iterator[SafeString]:
        for number, (key, value) in enumerate(items):
            if self._left <= 0:
                rest = _("… %(count)s more") % {"count": count - number}
                yield html('<li><span class="as-json-cut">{}</span></li>', rest)
                return
            rendered = self.render(value, depth + 1)
            name = render_chips(displayable(str(key))[:TEXT], self._note)
            yield html('<li><span class="as-json-key">{}</span> {}</li>', name, rendered)


def _leaf(value: Any, note: str | None) -> SafeString:
    if isinstance(value, str):
        text = displayable(value[:TEXT])
        if len(value) > TEXT:
            text += _("… (%(count)s characters)") % {"count": len(value)}
        kind = (
            "as-json-text as-json-long"
            if len(text) > _INLINE_LENGTH or "\n" in text
            else "as-json-text"
        )
        return html('<span class="{}">{}</span>', kind, render_chips(text, note))
    if isinstance(value, bytes | BlobRef):
        size = filesizeformat(value.size if isinstance(value, BlobRef) else len(value))
        return html('<span class="as-json-bytes">{} {}</span>', _("binary,"), size)
    if isinstance(value, CorruptPayload):
        return html(
            '<span class="as-corrupt">{}</span><span class="as-json-text as-json-long">{}</span>',
            _("corrupt: cannot be read"),
            displayable(value.text[:TEXT]),
        )
    literals = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return html('<span class="as-json-word">{}</span>', literals[value])
    if isinstance(value, dict | list | tuple):
        return html(
            '<span class="as-json-word">{}</span>', "{}" if isinstance(value, dict) else "[]"
        )
    return html('<span class="as-json-number">{}</span>', str(value)[:TEXT])
