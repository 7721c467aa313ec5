"""Whose keys they are, how many statements they take, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from strands.types.exceptions import StorageError

from django_agent_sessions.adapters.strands import DjangoSessionManager, DjangoStorage
from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.models import (
    Session,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.models.content_field import update_one
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentState
from tests.adapters.strands.agents import build as build_with_log

from .making import LATEST, blob, build, immutable, message, run, saved, snapshot

pytestmark = pytest.mark.django_db

STASH = "context/s/scopes/agent/default/call_0"


def test_strangers_read_nothing_and_cannot_write(ada, bob):
    mine, theirs = DjangoStorage(owner=ada), DjangoStorage(owner=bob.pk)
    for key in (LATEST, STASH, "memory/facts"):
        run(mine.write(key, saved(message("a"))))

    for key in (LATEST, STASH, "memory/facts"):
        assert run(theirs.read(key)) is None
        run(theirs.delete(key))
        assert run(mine.read(key)) is not None
    assert run(theirs.list()) == []
    assert run(theirs.search("user")) == []
    for key in (LATEST, STASH):
        with pytest.raises(StorageError, match="session 's' does not exist"):
            run(theirs.write(key, saved(message("b"))))
    run(theirs.write("memory/facts", b"theirs"))
    assert run(theirs.read("memory/facts")) == b"theirs"
    assert Session.objects.get().owner == ada


def test_everybody_reaches_every_session_and_nobodys_objects(ada):
    mine, anybody = DjangoStorage(owner=ada), DjangoStorage(owner=EVERYBODY)
    data = saved(message("a"))
    for key in (LATEST, STASH, "memory/facts"):
        run(mine.write(key, data))

    assert run(anybody.read(LATEST)) == data
    assert run(anybody.read(STASH)) == data
    assert run(anybody.read("memory/facts")) is None
    assert run(anybody.list()) == sorted([LATEST, STASH])
    run(anybody.write(LATEST, b"no snapshot"))
    assert run(mine.read(LATEST)) == b"no snapshot"


def test_everybody_makes_neither_a_session_nor_an_object_unless_told_to():
    kept = saved(message("a"))
    for key in (LATEST, STASH, "memory/facts"):
        with pytest.raises(StorageError, match="create=True"):
            run(DjangoStorage(owner=EVERYBODY).write(key, kept))
    assert not Session.objects.exists()
    assert not StoredObject.objects.exists()

    for key in (LATEST, STASH, "memory/facts"):
        run(DjangoStorage(owner=EVERYBODY, create=True).write(key, kept))
        assert run(DjangoStorage().read(key)) == kept
        # What is there is written to.
        run(DjangoStorage(owner=EVERYBODY).write(key, kept))


def test_with_the_owner_left_out_nothing_of_a_user_is_reached(ada):
    mine, nobodys = DjangoStorage(owner=ada), DjangoStorage()
    for key in (LATEST, STASH, "memory/facts"):
        run(mine.write(key, saved(message("a"))))

    for key in (LATEST, STASH, "memory/facts"):
        assert run(nobodys.read(key)) is None
        run(nobodys.delete(key))
        assert run(mine.read(key)) is not None
    assert run(nobodys.list()) == []
    for key in (LATEST, STASH):
        with pytest.raises(StorageError, match="owner=user, or owner=EVERYBODY"):
            run(nobodys.write(key, saved(message("b"))))


def test_a_prefix_is_a_namespace():
    storage = DjangoStorage(namespace="bots")
    run(storage.write(LATEST, saved(message("a"))))
    run(storage.namespace("tenant/7").write(LATEST.removeprefix("session/"), saved(message("b"))))

    names = Session.objects.order_by("namespace").values_list("namespace", "session_id")
    assert list(names) == [("bots", "s"), ("bots/tenant/7", "s")]
    assert run(storage.list("tenant/7/s/")) == ["tenant/7/" + LATEST.removeprefix("session/")]


def counted(work: Any) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        run(work)
    return [query["sql"] for query in queries]


@pytest.mark.parametrize("column", ["document", "messages"])
def test_a_snapshot_that_became_corrupt_is_named_and_neither_read_nor_overwritten(column):
    storage = DjangoStorage()
    run(storage.write(LATEST, saved(message("a"))))
    corrupt = CorruptPayload('{"plantedsecret')
    Snapshot.objects.update(**{column: corrupt})

    for use in (
        lambda: storage.write(LATEST, saved(message("b"))),
        lambda: DjangoStorage().write(LATEST, saved(message("b"))),
        lambda: storage.read(LATEST),
    ):
        with pytest.raises(StorageError, match=rf"agent 'default' .*\({column}\)") as error:
            run(use())
        assert "plantedsecret" not in str(error.value)
    assert getattr(Snapshot.objects.get(), column) == corrupt


def test_a_snapshot_with_references_of_another_form_is_named_and_not_read():
    storage = DjangoStorage()
    run(storage.write(LATEST, saved(message("a"))))

    for references in ("all", [[3, 1]], [5], [{"position": 0}]):
        update_one(Snapshot.objects.all(), {"messages": references})
        with pytest.raises(StorageError, match=r"agent 'default' .*\(messages\): restore"):
            run(storage.read(LATEST))


def test_an_orchestrator_that_became_corrupt_is_named_and_neither_read_nor_overwritten():
    storage = DjangoStorage()
    key = "session/s/scopes/multiAgent/graph/snapshots/snapshot_latest.json"
    data = {"orchestrator_id": "graph", "state": {"type": "graph"}}
    document = {**snapshot([]), "scope": "multiAgent", "data": data}
    run(storage.write(key, blob(document)))
    corrupt = CorruptPayload('{"plantedsecret')

    for rows, column in ((SessionMultiAgent.objects, "state"), (Snapshot.objects, "document")):
        before = getattr(rows.get(), column)
        rows.update(**{column: corrupt})
        for use in (lambda: storage.write(key, blob(document)), lambda: storage.read(key)):
            with pytest.raises(StorageError, match=rf"orchestrator 'graph' .*\({column}\)"):
                run(use())
        assert getattr(rows.get(), column) == corrupt
        update_one(rows.all(), {column: before})
    run(storage.write(key, blob(document)))


def test_a_save_takes_as_many_statements_after_a_thousand_messages_as_after_ten():
    messages = [message(f"message {number}") for number in range(1002)]
    counts, rows, sizes = [], [], []
    for length in (10, 1000):
        storage = DjangoStorage(namespace=f"n{length}")
        run(storage.write(LATEST, saved(*messages[:length])))
        before = SessionMessage.objects.count()
        statements = counted(storage.write(LATEST, saved(*messages[: length + 1])))
        counts.append(len(statements))
        rows.append(SessionMessage.objects.count() - before)
        sizes.append(sum(map(len, statements)))
        reading = counted(DjangoStorage(namespace=f"n{length}").read(LATEST))
        assert len(reading) <= 6

    assert counts[0] == counts[1] <= 18
    assert rows == [1, 1]
    assert abs(sizes[0] - sizes[1]) < 100


def test_a_sliding_window_takes_no_more():
    messages = [message(f"message {number}") for number in range(300)]
    storage = DjangoStorage()
    run(storage.write(LATEST, saved(*messages[:200])))

    slid = counted(storage.write(LATEST, saved(*messages[100:201])))
    again = counted(storage.write(LATEST, saved(*messages[101:202])))

    assert not any("redact_message" in sql and "SELECT" in sql[:7] for sql in slid + again)
    assert Snapshot.objects.get().messages == [[101, 202]]


def test_ten_thousand_keys_are_listed_in_order():
    storage = DjangoStorage()
    run(storage.write(LATEST, saved(message("a"))))
    row = Snapshot.objects.get()
    Snapshot.objects.bulk_create(
        Snapshot(
            session=row.session,
            agent=row.agent,
            snapshot_id=immutable(number)[-41:-5],
            messages=row.messages,
            length=1,
            document=row.document,
        )
        for number in range(10_000)
    )
    prefix = LATEST.removesuffix("snapshot_latest.json") + "immutable_history/"

    with CaptureQueriesContext(connection) as queries:
        found = run(storage.list(prefix))

    assert found == [immutable(number) for number in range(10_000)]
    assert len(queries) <= 2
    assert run(storage.read(immutable(9_999))) == run(storage.read(LATEST))


def test_ten_thousand_objects_are_listed_in_order():
    storage = DjangoStorage()
    run(storage.write("memory/b", b"1"))
    StoredObject.objects.bulk_create(
        StoredObject(key=f"memory/a/{number:05}", digest=str(number)) for number in range(10_000)
    )

    assert run(storage.list("memory/a")) == [f"memory/a/{number:05}" for number in range(10_000)]
    assert run(storage.list("memory/b")) == ["memory/b"]


def test_a_held_session_loses_nothing():
    storage = DjangoStorage()
    run(storage.write(LATEST, saved(message("a"))))
    run(storage.write(STASH, b"large"))
    hold(Session.objects.get().pk, reason="court")

    for key in (LATEST, STASH):
        with pytest.raises(StorageError, match="legal hold") as caught:
            run(storage.delete(key))
        assert isinstance(caught.value.__cause__, LegalHoldError)
        assert run(storage.read(key)) is not None


def test_a_session_that_a_message_log_wrote_too_stays_when_its_snapshots_go():
    build_with_log("a", session_manager=DjangoSessionManager("s"))("1")
    storage = DjangoStorage()
    run(storage.write(LATEST, saved(message("b"))))

    run(storage.delete(LATEST))

    assert Session.objects.get().session_id == "s"
    assert run(storage.list()) == []


def test_an_agent_of_another_sdk_is_refused(store):
    store.agents.open(store.open("s"), "default")

    with pytest.raises(StorageError, match="in the format 'openai', not 'strands'"):
        run(DjangoStorage().write(LATEST, saved(message("a"))))


@pytest.mark.django_db(transaction=True)
def test_it_joins_the_transaction_of_whoever_waits():
    agent = build("a", "b", "c")
    agent("1")

    def fail() -> None:
        with transaction.atomic():
            agent("2")
            assert SessionMessage.objects.count() == 4
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert SessionMessage.objects.count() == 2
    agent("3")

    data = run(DjangoStorage().read(LATEST)) or b""
    assert json.loads(data)["data"]["messages"] == agent.messages
    assert SessionMessage.objects.count() == 6


def test_a_corrupt_snapshot_says_so_and_what_the_store_made_is_read(store):
    storage = DjangoStorage()
    run(storage.write(LATEST, saved(message("a"))))
    agent = store.agents.open(store.open("s"), "default")
    store.snapshots.take(agent)
    (key,) = (key for key in run(storage.list()) if key != LATEST)
    Snapshot.objects.filter(snapshot_id="").delete()
    store.agents.update(agent, AgentState(state={"image": b"\x00"}))
    made = store.snapshots.take(agent)

    found = json.loads(run(storage.read(key.replace(key[-41:-5], made.snapshot_id))) or b"")
    assert found["data"]["state"] == {"image": {"__bytes_encoded__": True, "data": "AA=="}}
    assert len(found["data"]["messages"]) == 1
    with connection.cursor() as cursor:
        table = Snapshot._meta.db_table
        cursor.execute(f"UPDATE {table} SET document = '{{no json plantedsecret'")
    with pytest.raises(StorageError, match="corrupt") as caught:
        run(storage.read(key))
    assert "plantedsecret" not in repr(caught.value)


def test_errors_hold_no_content():
    with pytest.raises(StorageError) as caught:
        run(DjangoStorage().write("k" * 701, b"plantedsecret"))

    assert "plantedsecret" not in repr(caught.value) + repr(caught.value.__cause__)
