"""What agents and guardrails have overwritten in a session under legal hold."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _

from django_agent_sessions import audit
from django_agent_sessions.admin.pages import parse_key_or_404
from django_agent_sessions.content import exact_json
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import AuditEvent, HeldCopy
from django_agent_sessions.models.fields import decode_payload
from django_agent_sessions.models.stored_text import StoredText

from .json_tree import tree
from .message_items import HEAD, PRETTY
from .viewers import Viewer

COPIES_SHOWN = 20
"""Copies of a page."""

_OPEN_LEVELS = 5
"""Levels that are open at first: down to the texts of a message."""

MIN_ACCESS_REASON = 3
"""The fewest characters of a reason."""


def held_page(viewer: Viewer) -> HttpResponse:
    """Show the copies, newest first, after asking for a reason.

    A GET never shows them. The viewing and its reason are recorded before they are read.
    """
    rows = HeldCopy.objects.using(viewer.using).filter(session=viewer.session)
    if not rows.exists():
        raise Http404
    title = _("Kept by the legal hold")
    render = partial(viewer.render, "held_copies", title=title, count=rows.count())
    if viewer.request.method != "POST":
        return render()
    reason = viewer.request.POST.get("reason", "").strip()
    if len(reason) < MIN_ACCESS_REASON:
        return render(error=_("Enter a short reason for viewing what was kept."))
    if before := viewer.request.POST.get("before", ""):
        rows = rows.filter(pk__lt=parse_key_or_404(before))
    audit.record_checked(
        AuditEvent.Action.HELD_COPIES_VIEWED,
        session=viewer.session.pk,
        actor=viewer.request.user,
        reason=reason,
        using=viewer.using,
    )
    copies = _copies(rows)
    older = copies[COPIES_SHOWN - 1]["id"] if len(copies) > COPIES_SHOWN else ""
    return render(copies=copies[:COPIES_SHOWN], older=older, reason=reason)


def _copies(rows: QuerySet[HeldCopy]) -> list[dict[str, Any]]:
    size = Length(StoredText("content"))
    columns = ("id", "kind", "row", "created_at", "size")
    found = rows.order_by("-id").annotate(size=size).values(*columns)[: COPIES_SHOWN + 1]
    copies: list[dict[str, Any]] = [{**row} for row in found]
    for copy in copies[:COPIES_SHOWN]:
        copy["content"] = _content(rows, copy["id"], copy["size"])
    return copies


def _content(rows: QuerySet[HeldCopy], key: UUID, size: int) -> str:
    # All copies of a page together are as large as one payload that is shown in full.
    length = None if size <= PRETTY // COPIES_SHOWN else HEAD
    stored = rows.filter(pk=key).values_list(StoredText("content", length=length), flat=True)
    text = stored.first() or ""
    if length is None:
        return tree(decode_payload(text), levels=_OPEN_LEVELS)
    note = _("Shortened from %(count)s characters.") % {"count": size}
    return f"{note} {displayable(exact_json.without_hashes(text))}"
