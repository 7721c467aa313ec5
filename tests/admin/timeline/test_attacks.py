"""What is of others, no branch, or sent from elsewhere changes nothing; names are only text."""

from __future__ import annotations

import pytest
from django.test import Client

from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import AuditEvent, Session, SessionMessage, Snapshot, StoredObject
from tests.admin.transcripts import said, shown

from .pages import Action, confirmed, key, url, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def strangers(store):
    """Another session's agent, with a branch, and a snapshot."""
    agent = store.agents.open(store.open("other"), "planner", dialect=STRANDS)
    store.append_many(agent, [said("user", "word a"), said("user", "word b")])
    store.branches.rewind(agent, 0)
    return agent


def test_what_is_of_another_session_is_not_found(client, traveller, talker, strangers):
    snapshot = Snapshot.objects.get().pk
    foreign = [
        url(talker, "fork", key(strangers, 0)),
        url(talker, "rewind", key(strangers, 0)),
        url(talker, "branch_restore", strangers.id, 1),
        url(talker, "branch_delete", strangers.id, 1),
        url(talker, "snapshot_take", strangers.id),
        url(talker, "snapshot_restore", snapshot),
        url(talker, "branches", agent=strangers.id),
        url(talker, "snapshots", agent=strangers.id),
        url(talker, "compare", agent=strangers.id, left=0, right=1),
        url(talker, "change", agent=strangers.id, branch=1),
    ]
    for address in foreign:
        assert client.get(address).status_code == 404, address
        for seen in ("0", "0 1", "1 2", "branch-1 2 1"):
            assert client.post(address, {"seen": seen}).status_code in (403, 404), address
    assert words(strangers) == ["a"]
    assert words(strangers, 1) == ["a", "b"]
    assert words(talker) == list("012345")
    assert Session.objects.count() == 2


@pytest.mark.parametrize(
    "number", ["-1", "9", "99999999999", "2147483648", "\uff11", " 1", "x", "0x1", "1e0", "\x00"]
)
def test_a_branch_that_is_none_is_not_found(client, traveller, talker, store, number):
    store.branches.rewind(talker, 2)

    for address in (
        url(talker, "change", agent=talker.id, branch=number),
        url(talker, "compare", agent=talker.id, left=0, right=number),
        url(talker, "change", branch="1"),
    ):
        assert client.get(address).status_code == 404
    assert client.get(url(talker, "branches", before="x")).status_code == 404
    assert client.get(url(talker, "snapshots", before="x")).status_code == 404
    assert client.get(url(talker, "snapshots", after="\x00")).status_code == 200


def test_the_main_branch_is_not_deleted_nor_restored_nor_a_side_branch_rewound(
    client, traveller, talker, store
):
    later = key(talker, 4)
    store.branches.rewind(talker, 2)

    for address in (
        url(talker, "branch_delete", talker.id, 0),
        url(talker, "branch_restore", talker.id, 0),
        url(talker, "branch_delete", talker.id, 2**40),
        url(talker, "rewind", later),
    ):
        assert client.get(address).status_code == 404
        assert client.post(address, {"seen": "main 3 0"}).status_code == 404
    assert words(talker) == list("012")


def test_a_get_changes_nothing_and_a_post_from_elsewhere_neither(traveller, talker, store):
    side = store.branches.rewind(talker, 3)
    snapshot = store.snapshots.take(talker)
    client = Client(enforce_csrf_checks=True)
    client.force_login(traveller)
    before = list(SessionMessage.objects.order_by("pk").values())
    addresses = {
        url(talker, "fork", key(talker, 1)): "1",
        url(talker, "rewind", key(talker, 1)): "1 4",
        url(talker, "branch_restore", talker.id, side.number): "4 6",
        url(talker, "branch_delete", talker.id, side.number): "branch-1 6 1",
        url(talker, "snapshot_restore", snapshot.id): "0 4 4 4",
        url(talker, "snapshot_take", talker.id): "",
    }
    for address, seen in addresses.items():
        assert client.get(address, {"seen": seen}).status_code in (200, 405)
        assert client.post(address, {"seen": seen}).status_code == 403
        assert client.put(address).status_code in (403, 405)
    assert list(SessionMessage.objects.order_by("pk").values()) == before
    assert Session.objects.count() == 1
    assert Snapshot.objects.count() == 2
    changed = (Action.FORKED, Action.REWOUND, Action.RESTORED, Action.BRANCH_DELETED)
    assert not AuditEvent.objects.filter(action__in=changed).exists()


def test_names_are_only_text(client, traveller, store):
    hostile = "<script>alert(1)</script>&\"'"
    agent = store.agents.open(store.open(hostile), hostile, dialect=STRANDS)
    store.append_many(agent, [said("user", "a"), said("user", "b")])
    store.branches.rewind(agent, 0, name=hostile)
    store.snapshots.take(agent)
    StoredObject.objects.create(session_id=agent.session, key=hostile, digest="d", size=1)

    for address in (
        url(agent, "branches"),
        url(agent, "snapshots"),
        url(agent, "compare", left=0, right=1),
        url(agent, "change", agent=agent.id, branch=1),
        url(agent, "branch_delete", agent.id, 1),
        url(agent, "branch_restore", agent.id, 1),
    ):
        assert "<script>alert" not in shown(client, address)
    page = confirmed(client, url(agent, "branch_delete", agent.id, 1))
    assert "<script>alert" not in page
