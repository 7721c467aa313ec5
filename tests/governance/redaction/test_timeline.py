"""A redaction reaches what going back in time adds: branches, snapshots, stored objects, forks."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import LegalHoldError, RedactionScopeError
from django_agent_sessions.governance.legal_hold import hold, release
from django_agent_sessions.governance.redaction import (
    Block,
    Detect,
    Find,
    Span,
    WholeMessage,
    redact,
)
from django_agent_sessions.models import (
    AuditEvent,
    HeldCopy,
    Session,
    SessionAgent,
    Snapshot,
    StoredObject,
    StoredPart,
    UsageRollup,
)
from django_agent_sessions.queries.search import find_messages, find_sessions
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.usage import roll_up
from django_agent_sessions.values.records import SessionRecord
from tests.sealed import update_content

from .planting import SECRET
from .timelines import (
    PREFIX,
    SCOPES,
    TABLES,
    add_snapshot,
    document,
    form,
    found_in_database,
    plant,
    rows_of,
    said,
    spot,
    user,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def store() -> SessionStore:
    return SessionStore()


def object_of(store: SessionStore, session: SessionRecord, key: str) -> bytes:
    data = SnapshotStorageStore(store).read_object(key, session=session)
    assert data is not None
    return data


# --- everywhere ---------------------------------------------------------------------------------


def test_a_secret_is_in_no_table_and_no_file(upstream_sqlite, store):
    session, agent = plant(store, SECRET)
    assert {column.split(".")[-1] for column in found_in_database(SECRET) if "." in column} >= {
        "message", "messages", "document", "data", "state",
        *([] if codec.hides_text() else ["text"]),
    }  # fmt: skip

    done = redact(session.id, Find(SECRET), reason=f"about {SECRET}")

    assert found_in_database(SECRET) == []
    assert {hit.place.kind for hit in done.hits} == {"message", "agent", "snapshot", "object"}
    assert {change.kind for change in done.kept} == set()
    assert said(store, agent) == ["a", "[REDACTED]", "c", "other [REDACTED]"]
    assert said(store, agent, 1) == ["a", "[REDACTED]", "c", "d [REDACTED]", "e"]
    again = redact(session.id, Find(SECRET), reason="r")
    assert (again.hits, again.states, again.epoch) == ([], 0, done.epoch)


def test_what_is_left_is_what_programs_read(store):
    session, _ = plant(store, SECRET)

    redact(session.id, Find(SECRET), reason="r")

    row = Snapshot.objects.order_by("-id").first()
    assert row is not None
    assert row.messages == [[0, 1], [1, 2], {"message": user("sum [REDACTED]")}]
    assert row.document == {
        "scope": "agent",
        "schema_version": "1.0",
        "created_at": "2026-01-01T00:00:00Z",
        "data": {
            "messages": None,
            "state": {"note": "[REDACTED]", "[REDACTED]": 1},
            "system_prompt": "You serve [REDACTED].",
            "conversation_manager_state": {
                "__name__": "SummarizingConversationManager",
                "removed_message_count": 2,
                "summary_message": user("They said [REDACTED]"),
            },
        },
        "app_data": {"their": ["[REDACTED]"]},
    }
    assert list(row.document["data"]) == list(document("x")["data"])
    assert object_of(store, session, f"{PREFIX}/stash.txt") == b"kept [REDACTED]"
    tree = object_of(store, session, f"{PREFIX}/tree.json")
    assert tree.decode() == '["ä", {"role": "user", "said": "[REDACTED]"}]'
    raw = object_of(store, session, f"{PREFIX}/raw")
    assert raw == b"\xff\x00" + b"*" * len(SECRET) + b"\xfe"
    sizes = dict(StoredObject.objects.values_list("key", "size"))
    assert sizes[f"{PREFIX}/stash.txt"] == len("kept [REDACTED]")


def test_what_is_not_found_is_not_written(store):
    session, agent = plant(store, SECRET)
    other = add_snapshot(agent, document("x"), [[0, 2], form("short", 0)])
    SnapshotStorageStore(store).write_object(f"{PREFIX}/clean", b'{"a":1}', session=session)
    clean = Snapshot.objects.filter(pk=other.pk)
    before = clean.values().get()

    done = redact(session.id, Find(SECRET), reason="r")

    assert clean.values().get() == before
    assert object_of(store, session, f"{PREFIX}/clean") == b'{"a":1}'
    assert StoredObject.objects.get(key=f"{PREFIX}/clean").revision == 0
    assert done.states == Snapshot.objects.exclude(pk=other.pk).count() + 3 + 1


def test_fifty_snapshots_of_one_agent(store):
    session, agent = plant(store, SECRET)
    for _ in range(60):
        add_snapshot(agent, document(SECRET), [[0, 3]])

    redact(session.id, Find(SECRET), reason="r")

    assert found_in_database(SECRET) == []
    assert all(row.document["data"]["state"]["note"] for row in Snapshot.objects.all())


def test_a_large_stored_object_is_redacted_across_its_parts(store, session):
    data = b"x" * (1024 * 1024 - 5) + SECRET.encode() + b"y" * 1024 * 1024
    SnapshotStorageStore(store).write_object(f"{PREFIX}/large", data, session=session)
    assert StoredPart.objects.count() == 3

    redact(session.id, Find(SECRET), reason="r")

    found = object_of(store, session, f"{PREFIX}/large")
    assert found == data.replace(SECRET.encode(), b"[REDACTED]")
    assert found_in_database(SECRET) == []


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": "plantedsecret", "a": "b"}',
        b'{"a": "planted\\u0073ecret", "b": "\\ud800 \xc3\xa4"}',
        b'"plantedsecret"',
        b"[" * 5000 + b"plantedsecret",
        b'{"plantedsecret": NaN}',
        b"",
    ],
)
def test_stored_objects_of_any_form(store, session, data):
    SnapshotStorageStore(store).write_object("k", data, session=session)

    redact(session.id, Find(SECRET), reason="r")

    found = object_of(store, session, "k")
    assert b"planted" not in found
    assert (data == found) == (not data)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ({"rows": [{"code": 47114711, "x": 1}]}, {"rows": [{"code": "[REDACTED]", "x": 1}]}),
        ({"usage": {"meter": 47114711, "kwh": 3}}, {"usage": {"meter": "[REDACTED]", "kwh": 3}}),
        ({"model": "No 47114711"}, {"model": "No [REDACTED]"}),
        ({"status": "of-47114711"}, {"status": "of-[REDACTED]"}),
        ({"signature": "by 47114711"}, {"signature": "by [REDACTED]"}),
        ({"results": {"n47114711": 1}}, {"results": {"n[REDACTED]": 1}}),
    ],
)
def test_a_tools_result_that_was_put_away_is_content_whatever_its_keys_are_called(
    store, session, said, left
):
    SnapshotStorageStore(store).write_object("k", json.dumps(said).encode(), session=session)

    done = redact(session.id, Find("47114711"), reason="r")

    assert json.loads(object_of(store, session, "k")) == left
    assert done.kept == []


def test_names_of_branches_snapshots_and_keys_are_told_and_stay(store):
    session, agent = plant(store, "x")
    store.branches.create(agent, name=SECRET)
    add_snapshot(agent, document("x"), [], snapshot_id=SECRET)
    SnapshotStorageStore(store).write_object(SECRET, b"x", session=session)
    store.append(agent, user(SECRET))

    done = redact(session.id, Find(SECRET), reason="r")

    kept = {(place.kind, place.column) for place in done.kept}
    assert kept == {("branch", "name"), ("snapshot", "snapshot_id"), ("object", "key")}
    assert store.branches.find(agent, SECRET) is not None


def test_what_a_snapshot_is_restored_by_stays(store):
    _, agent = plant(store, "x")
    row = Snapshot.objects.order_by("-id").first()
    assert row is not None

    done = redact(agent.session, Find("2026"), Find("agent"), reason="r")

    row.refresh_from_db()
    assert (row.document["scope"], row.document["created_at"][:4]) == ("agent", "2026")
    assert {("snapshot", "document")} <= {(place.kind, place.column) for place in done.kept}
    assert store.snapshots.restore(agent, row.pk)


def test_detectors_look_there_too(store):
    session, _ = plant(store, "ada@example.org")
    # In what is no text, letters stand by chance.
    SnapshotStorageStore(store).delete_object(f"{PREFIX}/raw", session=session)

    redact(session.id, Detect(("email",)), reason="r")

    assert found_in_database("ada@example") == []


def test_a_dry_run_writes_nothing_and_lists_the_same(store):
    session, _ = plant(store, SECRET)
    fork = store.sessions.fork(session)
    before = rows_of(*TABLES)

    preview = redact(session.id, Find(SECRET), reason="", dry_run=True, descendants=True)

    assert rows_of(*TABLES) == before
    done = redact(session.id, Find(SECRET), reason="r", descendants=True)
    assert done.hits == preview.hits
    assert [(f.session, f.hits, f.states) for f in done.forks] == [
        (f.session, f.hits, f.states) for f in preview.forks
    ]
    assert [f.session for f in done.forks] == [fork.id]


# --- one message ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SCOPES)
@pytest.mark.parametrize("branch", [0, 1, 2])
def test_a_redacted_message_is_redacted_on_every_branch(store, kind, branch):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append_many(agent, [user(text) for text in ("a", SECRET, "c", "d")])
    store.branches.rewind(agent, 2)
    store.branches.create(agent, source=1)
    named = spot(agent, branch, 1)

    done = redact(agent.session, SCOPES[kind](named.pk), reason="r")

    assert done.messages == 3
    assert found_in_database(SECRET) == []
    assert [said(store, agent, number)[::2] for number in (0, 1, 2)] == [["a", "c"]] * 3
    assert AuditEvent.objects.get().target == named.pk


def test_a_copy_that_differs_loses_what_was_taken_out(store):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append_many(agent, [user("a"), user(f"my {SECRET} and"), user("c")])
    side = store.branches.rewind(agent, 1)
    changed = {"role": "user", "content": [{"text": "more"}, {"text": f"again {SECRET}"}]}
    store.messages.update(agent.on_branch(side.number), 1, changed)

    redact(
        agent.session,
        Span(spot(agent, 0, 1).pk, ("content", 0, "text"), 3, 3 + len(SECRET)),
        reason="r",
    )

    assert said(store, agent) == ["a", "my [REDACTED] and"]
    there = store.payloads(agent.on_branch(side.number))[1]
    assert there["content"] == [{"text": "more"}, {"text": "again [REDACTED]"}]


def test_a_place_that_is_not_there_is_an_error_and_redacts_no_copy(store):
    session, agent = plant(store, SECRET)
    before = rows_of(*TABLES)

    with pytest.raises(RedactionScopeError):
        redact(session.id, Block(spot(agent, 0, 1).pk, ("content", 7)), reason="r")

    assert rows_of(*TABLES) == before


def test_another_form_of_a_redacted_message_is_dropped(store):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append_many(agent, [user("a"), user(SECRET), user("c")])
    side = store.branches.create(agent)
    rows = [
        add_snapshot(agent.on_branch(number), document("x"), [[0, 1], form("sh", 1), form("s")])
        for number in (0, side.number)
    ]

    done = redact(agent.session, WholeMessage(spot(agent, 0, 1).pk), reason="r")

    for row in rows:
        row.refresh_from_db()
        assert row.messages == [[0, 1], [1, 2], form("s")]
    assert (done.messages, done.states) == (2, 2)


def test_a_guardrail_redacts_copies_and_other_forms_too(store):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append_many(agent, [user("a"), user(SECRET), user("c")])
    side = store.branches.rewind(agent, 1)
    row = add_snapshot(agent.on_branch(side.number), document("x"), [[0, 1], form(SECRET, 1)])

    store.messages.redact(agent, 1, user("[gone]"))

    assert found_in_database(SECRET) == []
    assert said(store, agent) == ["a", "[gone]"]
    assert said(store, agent, side.number) == ["a", "[gone]", "c"]
    row.refresh_from_db()
    assert row.messages == [[0, 1], [1, 2]]
    assert AuditEvent.objects.get(action="redacted").details == {"messages": 2}


# --- legal hold -----------------------------------------------------------------------------------


def test_a_hold_refuses_what_snapshots_and_objects_hold(store):
    session, _ = plant(store, SECRET)
    update_content(SessionAgent.objects.all(), {"state": {}})
    hold(session.id, reason="court")
    before = rows_of(*TABLES)

    with pytest.raises(LegalHoldError):
        redact(session.id, Find(SECRET), reason="r")

    assert rows_of(*TABLES) == before


def test_another_form_that_a_guardrail_takes_away_under_a_hold_is_kept_until_the_release(store):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append_many(agent, [user("a"), user(SECRET), user("c")])
    row = add_snapshot(agent, document("x"), [[0, 1], form(SECRET, 1)])
    hold(agent.session, reason="court")

    store.messages.redact(agent, 1, user("[gone]"))
    row.refresh_from_db()
    assert row.messages == [[0, 1], [1, 2]]
    assert said(store, agent)[1] == "[gone]"
    kept = HeldCopy.objects.get(kind="snapshot")
    assert kept.content == {"messages": [[0, 1], form(SECRET, 1)]}

    release(agent.session, reason="over")
    assert found_in_database(SECRET) == []


# --- whatever was done before ---------------------------------------------------------------------


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "rewind", "branch", "switch", "moment", "form", "fork", "object"]),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=12,
)


@given(steps=STEPS, everywhere=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_was_done_it_is_nowhere(store, steps, everywhere):
    Session.objects.all().delete()
    session = store.open("s")
    agent = store.agents.open(session, dialect="strands")
    named = store.append(agent, user(f"first {SECRET}")).id
    for step, number, secret in steps:
        text = f"{SECRET} {number}" if secret and everywhere else f"text {number}"
        if step == "say":
            store.append(agent, user(text))
        elif step == "rewind":
            store.branches.rewind(agent, min(number, len(store.payloads(agent)) - 1))
        elif step == "branch":
            store.branches.create(agent, upto=number + 1)
        elif step == "switch":
            branches = store.branches.list(agent)
            if other := branches[number % len(branches)].number:
                store.branches.switch(agent, other)
        elif step == "moment":
            store.snapshots.take(agent)
        elif step == "form":
            shorter = form(f"first {SECRET[:9]} {SECRET}", 0)
            add_snapshot(agent, document(text), [shorter, form(text)])
        elif step == "fork":
            store.sessions.fork(session)
        else:
            SnapshotStorageStore(store).write_object(f"k{number}", text.encode(), session=session)
    before = [len(store.payloads(agent.on_branch(b.number))) for b in store.branches.list(agent)]

    scope = Find(SECRET) if everywhere else WholeMessage(named)
    redact(session.id, scope, reason="r", descendants=True)

    assert found_in_database(SECRET) == []
    after = [len(store.payloads(agent.on_branch(b.number))) for b in store.branches.list(agent)]
    assert after == before


# --- what else reads copies -----------------------------------------------------------------------


def test_a_search_finds_a_message_once_and_on_the_main_branch(store):
    session = store.open("s")
    agent = store.agents.open(session, dialect="strands")
    store.append_many(agent, [user(text) for text in ("needle", "needle two", "needle three")])
    store.branches.rewind(agent, 1)
    main = [spot(agent, 0, position).pk for position in (0, 1)]

    assert find_messages(session.id, "needle") == [*main, spot(agent, 1, 2).pk]
    found = find_sessions("needle", sessions=Session.objects.all(), content=True)
    assert found.messages == {session.id: main[-1]}


def test_copies_are_not_counted_as_usage(store):
    session = store.open("s")
    agent = store.agents.open(session, dialect="strands")
    usage = {"metadata": {"usage": {"inputTokens": 5, "outputTokens": 7, "totalTokens": 12}}}
    store.append_many(agent, [user("a"), {**user("b"), "role": "assistant", **usage}, user("c")])
    store.branches.rewind(agent, 1)
    store.branches.create(agent)
    store.sessions.fork(session)

    counted = roll_up(until=timezone.now() + timedelta(minutes=1))

    assert counted.messages == 3
    day = UsageRollup.objects.get(dimension=UsageRollup.Dimension.DAY)
    assert (day.messages, day.input_tokens, day.output_tokens) == (3, 5, 7)
