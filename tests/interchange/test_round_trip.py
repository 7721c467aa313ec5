"""From where an SDK kept its sessions, through this database and a file, into another database."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.content.dialects import OPENAI, STRANDS
from django_agent_sessions.interchange import JsonLines, export_sessions, import_sessions
from django_agent_sessions.interchange.openai_advanced import OpenAIAdvancedSQLiteSource
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore
from tests.interchange.sources import START, Made, said, talk
from tests.interchange.test_openai_sqlite import branched
from tests.store.branching import OPERATIONS, Model

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


def trees() -> dict[str, Any]:
    """The branches of each session, and the name that its main branch gets as a side branch."""
    store = SessionStore()
    found = {}
    for row in SessionAgent.objects.select_related("session"):
        agent = store.agents.find(store.get(row.session.session_id), row.agent_id)
        assert agent is not None
        found[row.session.session_id] = (row.main_name, store.branches.list(agent))
    return found


@pytest.mark.parametrize("dialect", [STRANDS, OPENAI])
@given(ops=OPERATIONS)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_tree_of_branches_comes_back_as_it_was(dialect, ops, tmp_path):
    Session.objects.all().delete()
    model = Model(SessionStore(), dialect)
    for count, (kind, which, where) in enumerate(ops):
        model.do(f"m{count}", kind, which, where)
    before = trees()
    lines = tmp_path / "sessions.jsonl"
    lines.write_text("".join(export_sessions(Session.objects.all())))
    Session.objects.all().delete()

    report = import_sessions(JsonLines(lines))

    assert report.skips == 0
    assert trees() == before
