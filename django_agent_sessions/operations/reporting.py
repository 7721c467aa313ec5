"""The progress and the report of an operation, for a page."""

from __future__ import annotations

import csv
from typing import Any, NamedTuple
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models import Operation, Session
from django_agent_sessions.models.access import reach_of
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.values.csv_cells import csv_cell

_HOW: dict[str, Any] = {"skipped": _("skipped"), "failed": _("failed")}
_WHY: dict[str, Any] = {
    "held": _("under legal hold"),
    "gone": _("deleted in the meantime"),
    "changed": _("changed in the meantime, and no longer matches"),
    "WorkLimitError": _("too large: redact it alone"),
}


class ReportLine(NamedTuple):
    """A session that was skipped or failed; the name is empty unless the user may see it."""

    key: str
    name: str
    outcome: str
    code: str

    @property
    def how(self) -> Any:
        return _HOW.get(self.outcome, self.outcome)

    @property
    def why(self) -> Any:
        return _WHY.get(self.code, self.code)


def report_lines(operation: Operation, viewer: Any) -> list[ReportLine]:
    """Return the sessions that were skipped or failed, as a user may see them."""
    keys = [key for key, _outcome, _code in operation.report]
    rows = Session.objects.using(operation._state.db).filter(pk__in=keys)
    seen = reach_of(viewer, SessionPermission.VIEW).filter(rows)
    names = dict(seen.values_list("pk", "session_id"))
    return [
        ReportLine(key, names.get(UUID(key), ""), outcome, code)
        for key, outcome, code in operation.report
    ]


def write_csv(lines: list[ReportLine], file: Any) -> None:
    """Write the report as CSV."""
    writer = csv.writer(file)
    writer.writerow(["session", "session_id", "outcome", "code"])
    for line in lines:
        writer.writerow([line.key, csv_cell(line.name), line.outcome, line.code])


def progress_of(operation: Operation) -> dict[str, Any]:
    """Return the state and the figures."""
    state = operation.status_at(timezone.now())
    names = ("matched", "handled", "done", "unchanged", "skipped", "failed", "is_over")
    figures = {name: getattr(operation, name) for name in names}
    return {"state": state.value, "state_label": str(state.label), **figures}
