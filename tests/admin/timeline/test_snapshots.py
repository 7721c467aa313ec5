"""Snapshots are taken, listed and restored, and what is kept beside them is listed."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Snapshot, StoredObject
from django_agent_sessions.values.records import AgentState
from tests.admin.transcripts import said, shown

from .pages import Action, confirmed, events, first, url, words

pytestmark = pytest.mark.django_db


def test_a_snapshot_is_taken_listed_and_restored(client, traveller, talker, store):
    answer = client.post(url(talker, "snapshot_take", talker.id), follow=True)
    assert "A snapshot of agent planner was taken." in answer.content.decode()
    snapshot = Snapshot.objects.get()
    store.append(talker, said("user", "word 6"))

    page = shown(client, url(talker, "snapshots"))
    assert str(snapshot.pk) in page
    assert "6 messages" in page

    asked = shown(client, url(talker, "snapshot_restore", snapshot.pk))
    assert "1 message that came later is moved to a side branch" in asked
    page = confirmed(client, url(talker, "snapshot_restore", snapshot.pk))
    assert "The snapshot was restored." in page
    assert words(talker) == list("012345")
    assert words(talker, 1) == list("0123456")
    (event,) = events(Action.RESTORED)
    assert (event.target, event.details) == (snapshot.pk, {"messages": 6})


def test_the_latest_snapshot_is_named_and_not_restored(client, traveller, talker):
    latest = Snapshot.objects.create(session_id=talker.session, agent_id=talker.id, length=6)

    assert "latest" in shown(client, url(talker, "snapshots"))
    assert client.get(url(talker, "snapshot_restore", latest.pk)).status_code == 404


def test_a_snapshot_is_listed_with_the_moment_when_it_was_taken(client, traveller, talker, store):
    store.agents.update(talker, AgentState(state={"word": "planted"}))
    taken = store.snapshots.take(talker)
    Snapshot.objects.update(created_at=datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert redact(talker.session, Find("planted"), reason="a ticket").states == 2

    assert '<time datetime="2026-03-01T' in shown(client, url(talker, "snapshots"))
    assert "2026-03-01 " in shown(client, url(talker, "snapshot_restore", taken.id))


def test_snapshots_are_paged_by_key(client, traveller, talker, store):
    taken = [store.snapshots.take(talker).id for _number in range(53)]

    newest = shown(client, url(talker, "snapshots"))
    assert str(taken[-1]) in newest
    assert str(taken[2]) not in newest
    older = first(r'href="([^"]*before=[^"]*)"', newest)
    second = shown(client, older)
    assert [str(one) in second for one in taken[:4]] == [True, True, True, False]


def test_what_is_kept_as_written_is_listed_with_its_size(client, traveller, talker, store):
    other = store.open("other")
    for session, name in ((talker.session, "notes.bin"), (other.id, "elsewhere.bin")):
        StoredObject.objects.create(
            session_id=session, key=name, digest=str(uuid4()), size=3 * 1024
        )

    page = shown(client, url(talker, "snapshots"))
    assert "notes.bin" in page
    assert "3.0" in page
    assert "in its own format" in page
    assert "elsewhere.bin" not in page
