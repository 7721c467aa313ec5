"""The pages of a million sessions of two messages, beside one session of 10,000.

Each page of the admin and each list of the API is asked twice; the second answer is reported.
"""

from __future__ import annotations

import os
import sys

from benchmarks.tables import table, verdict

from .process import Process

EACH = 2
"""Messages of a session."""

MOST = 1.0
"""Seconds that a page may take, without waiting for a processor."""

_LIST = "/admin/agent_sessions/session/"
_LONG = f"{_LIST}{{long}}/"
_AUDIT = "/admin/agent_sessions/auditevent/"
_API = "/api/sessions/"
_FILTERS = {
    "last day": "activity=1d",
    "until a date long ago": "activity_until=2020-01-01",
    "framework": "framework=strands",
    "framework that none has": "framework=openai-agents",
    "namespace": "namespace=sales",
    "owner": "owner={person}",
    "without an owner": "owned=no",
    "bad feedback": "feedback=bad",
    "no feedback": "feedback=none",
    "review": "review=open",
    "label": "label=refund",
    "running": "running=yes",
    "held": "held=yes",
    "redacted": "redacted=yes",
    "expired": "expired=yes",
    "archived": "archived=yes",
    "cost": "cost_from=1",
    "cost that none has": "cost_from=100000000",
    "metadata": "metadata_channel=phone",
    "metadata that none has": "metadata_channel=fax",
}
PAGES: dict[str, str] = {
    "list": _LIST,
    "list, oldest first": f"{_LIST}?oldest=1",
    **{f"list: {name}": f"{_LIST}?{query}" for name, query in _FILTERS.items()},
    "list: held, with a rare word": f"{_LIST}?held=yes&q=xylophone",
    "search: rare word": f"{_LIST}?q=xylophone",
    "search: common word": f"{_LIST}?q=invoice",
    "search: session id": f"{_LIST}?q=session-77",
    "act on all": f"{_LIST}all/",
    "act on all: held": f"{_LIST}all/?held=yes",
    "transcript, 2 messages": f"{_LIST}{{usual}}/change/",
    "transcript, 10,000 messages": f"{_LONG}change/",
    "transcript, in the middle": f"{_LONG}change/?at={{message}}",
    "export": f"{_LONG}export/",
    "redact": f"{_LONG}redact/",
    "branches": f"{_LONG}branches/",
    "compare branches": f"{_LONG}branches/compare/?agent={{agent}}&left=0&right=1",
    "snapshots": f"{_LONG}snapshots/",
    "compare sessions": f"{_LONG}compare/?with=session-77",
    "fork": f"{_LONG}messages/{{message}}/fork/",
    "rewind": f"{_LONG}messages/{{message}}/rewind/",
    "review": f"{_LONG}review/",
    "history": f"{_LONG}history/",
    "delete": f"{_LONG}delete/",
    "person": f"{_LIST}person/{{person}}/",
    "erase a person": f"{_LIST}person/{{person}}/erase/",
    "operations": "/admin/agent_sessions/operation/",
    "operation": "/admin/agent_sessions/operation/{operation}/change/",
    "usage": "/admin/agent_sessions/usagerollup/?days=90",
    "audit": _AUDIT,
    "audit: of a session": f"{_AUDIT}?session={{long}}",
    "audit: last week": f"{_AUDIT}?when=7d",
    "audit: action that none has": f"{_AUDIT}?action__exact=erased",
    "audit: actor": f"{_AUDIT}?q=staff",
    "API: all sessions": f"{_API}?scope=all",
    "API: archived": f"{_API}?scope=all&archived=true",
    "API: of an agent": f"{_API}?scope=all&agent=assistant-1",
    "API: active long ago": f"{_API}?scope=all&active_before=2020-01-01T00:00:00Z",
    "API: search, common word": f"{_API}?scope=all&q=invoice",
    "API: session": f"{_API}{{long}}/?scope=all",
    "API: messages": f"{_API}{{long}}/messages/?scope=all",
    "API: agents": f"{_API}{{long}}/agents/?scope=all",
    "API: feedback": f"{_API}{{long}}/feedback/?scope=all",
    "API: usage": f"{_API}{{long}}/usage/?scope=all",
    "API: branches": "/api/agents/{agent}/branches/?scope=all",
    "API: snapshots": "/api/agents/{agent}/snapshots/?scope=all",
}


def measure(sessions: int, only: str, keep: bool, kept: str) -> int:
    """Load the sessions, ask for each page, drop them; return 0 if every page kept its bound."""
    name = kept or f"agent_sessions_pages_{os.getpid()}"
    load = [] if kept else ["--load"]
    site = Process(name, sessions * EACH, "--pages", "--each", str(EACH), *load)
    rows = []
    try:
        site.answer()
        keys = site.ask(keys=True)
        for page, address in PAGES.items():
            if only in page:
                rows.append([page, *_measured(site, address.format(**keys))])
                print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    finally:
        site.close(keep=keep or bool(kept))
    print(
        table(["page", "statements", "in Python", "in the database", "slowest statement", ""], rows)
    )
    if keep:
        print(f"\nKept: --kept {name}")
    return int(any(row[-1] == verdict(False) for row in rows))


def _measured(site: Process, url: str) -> list[str]:
    site.ask(url=url)
    found = site.ask(url=url)
    slowest = max(found["queries"], key=lambda query: float(query["time"]), default=None)
    kept = found["processor"] + found["database"] <= MOST
    if slowest and not kept:
        print(slowest["sql"], file=sys.stderr, flush=True)
    return [
        str(found["statements"]),
        *(f"{found[part] * 1000:.0f} ms" for part in ("processor", "database")),
        f"{float(slowest['time']) * 1000:.0f} ms" if slowest else "",
        verdict(kept),
    ]
