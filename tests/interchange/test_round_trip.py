"""From where an SDK kept its sessions, through this database and a file, into another database."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.interchange import JsonLines, export_sessions, import_sessions
from django_agent_sessions.interchange.openai_advanced import OpenAIAdvancedSQLiteSource
from django_agent_sessions.models import Session, SessionMessage
from tests.interchange.sources import START, Made, said, talk
from tests.interchange.test_openai_sqlite import branched

pytestmark = pytest.mark.django_db(transaction=True)


def stored() -> dict[str, list[Any]]:
    """The items of each branch by the name that the SDK gave it."""
    session = Session.objects.get()
    rows = SessionMessage.objects.filter(session=session).order_by("branch", "message_id")
    return {
        name: [row.message for row in rows if row.branch == number]
        for name, number in session.metadata["openai_branches"].items()
    }


def test_every_item_of_every_branch_is_equal_and_in_order_at_the_end(tmp_path):
    expected = asyncio.run(branched(tmp_path / "sdk.db"))
    import_sessions(OpenAIAdvancedSQLiteSource(tmp_path / "sdk.db"))
    assert stored() == expected
    lines = tmp_path / "sessions.jsonl"
    lines.write_text("".join(export_sessions(Session.objects.all())))
    Session.objects.all().delete()

    report = import_sessions(JsonLines(lines))

    assert (report.made, report.skips) == (1, 0)
    assert stored() == expected
    assert asyncio.run(DjangoSession("s").get_items()) == expected["main"]


def test_a_project_without_time_zones_imports_and_exports_too(settings, tmp_path):
    settings.USE_TZ = False
    settings.TIME_ZONE = "Europe/Vienna"
    first = START + timedelta(hours=1)
    import_sessions(Made([talk(said(3, start=first))]))
    assert SessionMessage.objects.get(message_id=0).created_at == datetime(2024, 5, 1, 15)
    lines = tmp_path / "sessions.jsonl"
    lines.write_text("".join(export_sessions(Session.objects.all())))
    Session.objects.all().delete()

    assert import_sessions(JsonLines(lines)).skips == 0

    assert SessionMessage.objects.get(message_id=0).created_at == datetime(2024, 5, 1, 15)
