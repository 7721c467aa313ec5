"""Positions are closed up with all that refers to them; and figures, on each database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import (
    AuditEvent,
    RunLease,
    Session,
    SessionAgent,
    Snapshot,
    StoredObject,
    UsageRollup,
)
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from tests.sealed import update_content

from .healthy import said, talk, travelled
from .running import check, codes
from .steps import closed, rows, take

pytestmark = pytest.mark.django_db


def test_closing_up_takes_all_along_that_refers_to_positions(store):
    agent = talk(store)
    snapshot = store.snapshots.take(agent)
    window = {"kept": [[0, 1], [2, 3]], "tail": 3}
    update_content(SessionAgent.objects.filter(pk=agent.id), {"window": window})
    references = [[0, 1], {"message": said("short"), "position": 3}, [4, 5]]
    update_content(Snapshot.objects.filter(pk=snapshot.id), {"messages": references})
    epoch = store.get("talk").redaction_epoch
    take(agent, 1, 2)

    check("--fix")

    assert closed(agent) == [(0, "one"), (1, "four"), (2, "five")]
    assert SessionAgent.objects.get(pk=agent.id).window == {"kept": [[0, 1]], "tail": 1}
    kept = Snapshot.objects.get(pk=snapshot.id)
    assert kept.messages == [[0, 1], {"message": said("short"), "position": 1}, [2, 3]]
    assert (kept.length, kept.tail) == (3, rows(agent, 2).get().pk)
    assert store.get("talk").redaction_epoch == epoch + 1
    event = AuditEvent.objects.get(action="repaired")
    assert (event.session, event.target) == (agent.session, agent.id)
    assert store.append(agent, said("six")).message_id == 3
    store.snapshots.restore(agent, snapshot.id)


def test_branches_are_closed_up_together_so_that_copies_stay_side_by_side(store):
    agent = talk(store)
    side = agent.on_branch(store.branches.create(agent, name="side").number)
    store.append(side, said("more"))
    for branch in (agent, side):
        take(branch, 1, 3)

    check("--fix")

    assert closed(agent) == [(0, "one"), (1, "three"), (2, "five")]
    assert closed(side) == [(0, "one"), (1, "three"), (2, "five"), (3, "more")]
    assert store.branches.common_length(agent, 0, side.branch) == 3
    store.messages.redact(agent, 1, said("[REDACTED]"))
    assert closed(side)[1] == (1, "[REDACTED]")
    assert codes() == []


def test_a_gap_on_one_of_several_branches_is_left(store):
    agent = talk(store)
    store.branches.create(agent, name="side")
    take(agent, 1)
    before = closed(agent)

    found, summary = check("--fix")

    assert [(finding["code"], finding["mended"]) for finding in found] == [("gap", False)]
    assert "different positions are missing" in found[0]["left"]
    assert closed(agent) == before
    assert summary["left"] == 1


@pytest.mark.parametrize("window", ["all", {"tail": 1}, {"kept": [[0]], "tail": 1}], ids=str)
def test_a_gap_beside_a_window_of_another_form_is_left(store, window):
    agent = talk(store)
    update_content(SessionAgent.objects.filter(pk=agent.id), {"window": window})
    take(agent, 1)

    found, _ = check("--fix")

    assert {finding["code"] for finding in found} == {"gap", "window"}
    assert "a window or snapshot of the agent is corrupt" in [each.get("left") for each in found]


def test_a_damaged_row_is_told_once_and_where_it_is_after_closing_up(store):
    agent = talk(store)
    rows(agent, 3).update(message=CorruptPayload("{x"))
    damaged = rows(agent, 3).get().pk
    take(agent, 1)

    found, summary = check("--fix")

    assert [(finding["code"], finding["mended"]) for finding in found] == [
        ("corrupt", False),
        ("gap", True),
    ]
    assert (found[0]["row"], found[0]["position"]) == (str(damaged), 2)
    assert summary["found"] == {"gap": 1, "corrupt": 1}
    assert summary["left"] == 1
    assert codes("--fix") == codes() == ["corrupt"]


def test_nothing_is_mended_under_legal_hold(store):
    agent = talk(store)
    take(agent, 1)
    legal_hold.hold(agent.session, reason="a case")
    before = closed(agent)

    found, _ = check("--fix")

    assert [finding["left"] for finding in found] == ["the session is under legal hold"]
    assert closed(agent) == before


def test_figures_are_compared_alike_on_each_database(store):
    agent = travelled(store)
    SnapshotStorageStore(SessionStore()).write_object("key", bytes(range(256)))
    usage.roll_up(until=timezone.now() + timedelta(minutes=1))
    ago = timezone.now() - timedelta(days=2)
    RunLease.objects.create(session_id=agent.session, expires_at=timezone.now())
    assert [code for code in codes() if code != "snapshot-cut"] == []

    RunLease.objects.update(expires_at=ago)
    StoredObject.objects.update(size=255)
    UsageRollup.objects.filter(dimension="owner").update(messages=2)
    Session.objects.filter(pk=agent.session).update(message_count=-1, input_tokens=0)

    found = [code for code in codes() if code != "snapshot-cut"]
    assert found == ["counters", "lease", "stored-object", "usage"]
