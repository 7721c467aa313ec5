"""The audit trail as a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control

from django_agent_sessions import audit
from django_agent_sessions.db import bridge
from django_agent_sessions.models import AuditEvent

from .audit_descriptions import describe_details

MAX_EVENTS = 100_000
"""The most events of a file, the newest."""

_BATCH = 1_000
_COLUMNS = ("when", "action", "actor", "actor_id", "session", "target", "reason", "details")


class _Line:
    def write(self, line: str) -> str:
        return line


def csv_response(request: HttpRequest, events: QuerySet[AuditEvent]) -> HttpResponseBase:
    """Return events as a CSV file, newest first."""
    audit.record(
        AuditEvent.Action.EXPORTED,
        actor=request.user,
        details={"format": "csv", "what": "audit events"},
        using=bridge.database(),
    )
    writer = csv.writer(_Line())
    lines = (writer.writerow(row) for row in _rows(events))
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="audit-events.csv"'
    patch_cache_control(response, no_store=True)
    return response


def _rows(events: QuerySet[AuditEvent]) -> Iterator[Any]:
    yield _COLUMNS
    ordered, sent = events.order_by("-pk"), 0
    page = list(ordered[:_BATCH])
    while page and sent < MAX_EVENTS:
        yield from map(_row, page)
        sent += len(page)
        page = list(ordered.filter(pk__lt=page[-1].pk)[:_BATCH])


def _row(event: AuditEvent) -> list[str]:
    values = (
        event.created_at.isoformat(),
        event.get_action_display(),
        event.actor,
        event.actor_id,
        event.session or "",
        event.target or "",
        event.reason,
        describe_details(event.details, within=event.session is not None),
    )
    return [_as_text(str(value)) for value in values]


def _as_text(value: str) -> str:
    """Return a value that a spreadsheet does not take for a formula."""
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
