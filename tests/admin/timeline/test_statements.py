"""The pages of a session's past take as many statements for much as for little."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import Snapshot
from tests.admin.transcripts import said, shown

from .pages import key, url

pytestmark = pytest.mark.django_db


def test_pages_take_as_many_statements_for_much_as_for_little(client, traveller, store):
    def made(name: str, messages: int, times: int):
        agent = store.agents.open(store.open(name), "planner", dialect=STRANDS)
        store.append_many(agent, [said("user", f"word {n}") for n in range(messages)])
        for _time in range(times):
            store.branches.rewind(agent, messages // 2)
            store.append_many(agent, [said("user", "x")] * (messages - messages // 2 - 1))
            store.snapshots.take(agent)
            store.sessions.fork(store.get(name))
        return agent

    def statements(agent) -> dict[str, int]:
        snapshot = Snapshot.objects.filter(agent=agent.id).latest("id").pk
        found = {}
        for name, address in {
            "change": url(agent, "change"),
            "side": url(agent, "change", agent=agent.id, branch=1),
            "branches": url(agent, "branches"),
            "snapshots": url(agent, "snapshots"),
            "compare": url(agent, "compare", left=0, right=1),
            "fork": url(agent, "fork", key(agent, 1)),
            "rewind": url(agent, "rewind", key(agent, 1)),
            "restore": url(agent, "branch_restore", agent.id, 1),
            "delete": url(agent, "branch_delete", agent.id, 1),
            "snapshot": url(agent, "snapshot_restore", snapshot),
        }.items():
            with CaptureQueriesContext(connection) as captured:
                shown(client, address)
            found[name] = len(captured)
        return found

    few = made("few", 4, 1)
    shown(client, url(few, "change"))
    counted = statements(few)

    assert statements(made("many", 120, 6)) == counted
    assert max(counted.values()) <= 20
