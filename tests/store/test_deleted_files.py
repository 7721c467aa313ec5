"""What is deleted is in no byte of SQLite's files, in whatever way it was deleted.

Other databases have files that a test cannot read; there only the rows are looked at.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.governance import legal_hold, session_deletion
from django_agent_sessions.models import AuditEvent, Session, Snapshot, deletion
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.testing import columns_containing, files_containing
from django_agent_sessions.values.records import AgentState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("upstream_sqlite")]

SECRET = "plantedsecret"
TEXT = f"{SECRET} " * 1000
"""Too long for one page: SQLite frees pages, and keeps what is in them."""


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def talk(owner=None):
    """Tell a secret, and something else before and after it."""
    store = SessionStore() if owner is None else SessionStore(owner=owner)
    agent = store.agents.open(store.open("s"))
    store.append_many(agent, [user("before"), user(TEXT)])
    if connection.vendor == "sqlite":
        assert files_containing(SECRET)
    return store, agent


def delete_it(store, agent):
    assert store.delete("s")


def delete_it_for_a_user(store, agent):
    assert session_deletion.delete(agent.session)


def delete_a_queryset(store, agent):
    Session.objects.all().delete()


def delete_a_large_one(store, agent):
    assert session_deletion.delete(agent.session)


def finish_an_interrupted_deletion(store, agent):
    row = Session.objects.get()
    with transaction.atomic():
        deletion._make_tombstone(Session._base_manager.filter(pk=row.pk), row)
    assert deletion.delete_tombstones(Session.objects.all()) == 1


def pop_it(store, agent):
    assert store.pop(agent) == user(TEXT)


def clear_it(store, agent):
    assert store.clear(agent) == 2


def delete_its_branch(store, agent):
    branch = store.branches.rewind(agent, 0)
    assert store.branches.delete(agent, branch.number) == 2


def by_sql_of_the_project(store, agent):
    with connection.cursor() as cursor:
        cursor.execute("delete from agent_sessions_sessionmessage")


WAYS = [
    delete_it,
    delete_it_for_a_user,
    delete_a_queryset,
    delete_a_large_one,
    finish_an_interrupted_deletion,
    pop_it,
    clear_it,
    delete_its_branch,
    by_sql_of_the_project,
]


@pytest.mark.parametrize("delete", WAYS)
def test_what_is_deleted_is_in_no_file(monkeypatch, delete):
    if delete is delete_a_large_one:
        monkeypatch.setattr(deletion, "MAX_MESSAGES", 1)
    store, agent = talk()

    delete(store, agent)

    assert columns_containing(SECRET) == files_containing(SECRET) == []


@pytest.mark.parametrize("delete", WAYS)
def test_what_a_transaction_deletes_is_in_no_file_after_its_commit(delete):
    store, agent = talk()

    with transaction.atomic():
        delete(store, agent)

    assert columns_containing(SECRET) == files_containing(SECRET) == []


def test_what_a_deleted_user_said_is_in_no_file(ada):
    talk(ada)

    ada.delete()

    assert columns_containing(SECRET) == files_containing(SECRET) == []


def test_a_deleted_object_is_in_no_file():
    store = SnapshotStorageStore(SessionStore())
    store.write_object("notes", TEXT.encode())

    assert store.delete_object("notes")

    assert columns_containing(SECRET) == files_containing(SECRET) == []


def test_a_deleted_snapshot_is_in_no_file():
    store = SessionStore()
    agent = store.agents.open(store.open("s"))
    store.agents.update(agent, AgentState({"note": TEXT}, {}, {}))
    snapshot = store.snapshots.take(agent)
    store.agents.update(agent, AgentState({}, {}, {}))
    assert columns_containing(SECRET)

    assert Snapshot.objects.filter(pk=snapshot.id).delete()[0] == 1

    assert columns_containing(SECRET) == files_containing(SECRET) == []


def test_purged_reasons_of_the_audit_trail_are_in_no_file():
    audit.record(AuditEvent.Action.EXPORTED, reason=SECRET)
    assert columns_containing(SECRET)

    assert audit.purge(timezone.now() + timedelta(seconds=1)) == 1

    assert columns_containing(SECRET) == files_containing(SECRET) == []


def test_what_a_legal_hold_kept_is_in_no_file_after_its_release():
    store, agent = talk()
    legal_hold.hold(agent.session, reason="a lawsuit")
    store.messages.update(agent, 1, user("edited"))
    assert columns_containing(SECRET)

    legal_hold.release(agent.session, reason="settled")

    assert columns_containing(SECRET) == files_containing(SECRET) == []


def test_a_deletion_that_is_rolled_back_empties_no_log_and_loses_nothing():
    store, agent = talk()

    with transaction.atomic():
        store.clear(agent)
        transaction.set_rollback(True)

    assert store.payloads(agent) == [user("before"), user(TEXT)]


def test_a_deletion_does_not_wait_for_a_reader_and_says_what_is_left(caplog):
    store, agent = talk()
    reader = connection.copy()
    try:
        with reader.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT COUNT(*) FROM agent_sessions_sessionmessage")
            cursor.fetchone()

            assert store.pop(agent) == user(TEXT)
            assert store.payloads(agent) == [user("before")]

            cursor.execute("ROLLBACK")
    finally:
        reader.close()

    assert ("the write-ahead log of default could not be emptied" in caplog.text) == (
        connection.vendor == "sqlite"
    )
    assert SECRET not in caplog.text
    assert store.pop(agent) == user("before")
    assert files_containing(SECRET) == []
