from __future__ import annotations

import os
import random
import signal
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.interchange.sources import (
    Skipped,
    SourceAgent,
    SourceMessage,
    SourceMultiAgent,
    SourceSession,
)
from django_agent_sessions.models import Session, SessionAgent, SessionMessage, SessionMultiAgent
from django_agent_sessions.records import AgentState
from django_agent_sessions.store import SessionStore
from tests.interchange.sources import START, Made, said, talk, user
from tests.processes import go, outputs, ready, start
from tests.store.test_lost_connections import commit_lost

pytestmark = pytest.mark.django_db(transaction=True)


def contents(session_id: str = "talk") -> list[str]:
    """What is stored, whose positions are dense."""
    rows = list(
        SessionMessage.objects.filter(session__session_id=session_id).order_by("message_id")
    )
    assert [row.message_id for row in rows] == list(range(len(rows)))
    return [row.message["content"] for row in rows]


def everything() -> str:
    models = (Session, SessionAgent, SessionMessage, SessionMultiAgent)
    return str([list(model._base_manager.order_by("pk").values()) for model in models])


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def reasons(report) -> list[tuple[str, str]]:
    return [(skipped.place, skipped.reason) for skipped in report.skipped]


class StoppedError(Exception):
    """Stands for whatever ends an import half-way."""


def stopping_at(count: int, length: int) -> Made:
    """A source that ends with an error after so many messages."""

    def messages():
        for number, message in enumerate(said(length)):
            if number == count:
                raise StoppedError
            yield message

    return Made([talk(messages())])


def test_a_session_comes_in_with_all_that_belongs_to_it():
    state = AgentState(
        {"b": 1, "a": b"\x00"}, {"removed": 1}, {"n": [None]}, {"kept": [], "tail": 1}
    )
    messages = [
        SourceMessage(user("one"), START, START + timedelta(hours=1), run="run a"),
        SourceMessage(user("two"), START + timedelta(seconds=1), run="run a"),
        SourceMessage(user("elsewhere"), START, branch=3),
    ]
    agent = SourceAgent("a/b", "strands", messages, state, START, START + timedelta(days=1))
    graph = SourceMultiAgent("g", "graph", {"nodes": [b"x"]})

    report = import_sessions(Made([SourceSession("s", [agent], [graph], START)]), namespace="n")

    assert (report.made, report.messages, report.skips) == (1, 3, 0)
    session = Session.objects.get()
    assert (session.session_id, session.namespace, session.created_at) == ("s", "n", START)
    assert session.last_activity_at == START + timedelta(seconds=1)
    assert session.message_count == 3
    assert session.origin is not None
    assert session.origin["import"]["complete"] is True
    stored = SessionAgent.objects.get()
    assert (stored.agent_id, stored.dialect, stored.created_at) == ("a/b", "strands", START)
    assert (
        AgentState(
            stored.state, stored.conversation_manager_state, stored.internal_state, stored.window
        )
        == state
    )
    one, two, elsewhere = SessionMessage.objects.order_by("branch", "message_id")
    assert one.run_id is not None
    assert one.run_id == two.run_id != elsewhere.run_id
    assert (one.created_at, one.updated_at) == (START, START + timedelta(hours=1))
    assert (elsewhere.branch, elsewhere.message_id) == (3, 0)
    assert SessionMultiAgent.objects.get().state == {"nodes": [b"x"]}


def test_keys_are_in_the_order_in_which_things_were_said_and_before_whatever_is_said_now():
    later, earlier = START + timedelta(hours=1), START - timedelta(hours=1)
    ahead = datetime(2999, 1, 1, tzinfo=UTC)
    times = [START, START, later, earlier, None, ahead, later]
    messages = [SourceMessage(user(str(n)), time) for n, time in enumerate(times)]

    import_sessions(Made([talk(messages)]))

    found = list(SessionMessage.objects.order_by("pk").values_list("message_id", "created_at"))
    assert [position for position, _ in found] == list(range(7))
    assert found[3][1] == earlier
    assert found[5][1] == ahead
    store = SessionStore()
    agent = store.open_agent(store.open("talk"))
    assert store.append(agent, user("now")).id > SessionMessage.objects.get(message_id=6).pk
    keys = SessionMessage.objects.order_by("message_id").values_list("pk", flat=True)
    assert all(one.version == 7 and one < other for one, other in pairwise(keys))


def test_a_second_run_changes_nothing(ada):
    source = Made([talk(said(25)), talk(said(3), "other")])
    import_sessions(source, owner=ada)
    before = everything()

    report = import_sessions(source, owner=ada)

    assert (report.made, report.unchanged, report.messages, report.skips) == (0, 2, 0, 0)
    assert everything() == before


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 25, 30])
def test_what_was_stopped_goes_on_behind_what_is_there(count):
    with pytest.raises(StoppedError):
        import_sessions(stopping_at(count, 31), batch=10)
    assert contents() == numbers(count // 10 * 10)

    report = import_sessions(Made([talk(said(31))]), batch=10)

    assert (report.made, report.continued, report.errors) == (0, 1, 0)
    assert contents() == numbers(31)
    assert list(SessionMessage.objects.order_by("pk").values_list("message_id", flat=True)) == [
        *range(31)
    ]
    assert Session.objects.get().message_count == 31


def test_orchestrators_and_agents_that_are_there_already_are_not_made_twice():
    graphs = [SourceMultiAgent(name, "graph", {"of": name}) for name in ("g", "h")]
    agents = [SourceAgent(name, "strands", said(3)) for name in ("a", "b")]

    class Stopping(list):
        def __iter__(self):
            yield graphs[0]
            raise StoppedError

    with pytest.raises(StoppedError):
        import_sessions(Made([SourceSession("s", agents, Stopping(), START)]))
    report = import_sessions(Made([SourceSession("s", agents, graphs, START)]))

    assert (report.continued, report.messages, report.skips) == (1, 0, 0)
    assert SessionMessage.objects.count() == 6
    found = SessionMultiAgent.objects.order_by("pk").values_list("multi_agent_id", flat=True)
    assert list(found) == ["g", "h"]
    assert Session.objects.get().message_count == 6


def test_what_is_skipped_counts_as_read_when_an_import_goes_on(settings):
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 60}
    messages = said(30)
    messages[4] = Skipped("row 4", "it is odd")
    messages[12] = SourceMessage(user("x" * 60))

    def until(count):
        yield from messages[:count]
        raise StoppedError

    for count in (5, 13, 14, 25):
        with pytest.raises(StoppedError):
            import_sessions(Made([talk(until(count))]), batch=5)
    # A limit that is another one by now moves nothing.
    settings.AGENT_SESSIONS = {}
    import_sessions(Made([talk(messages)]), batch=5)

    assert contents() == [n for n in numbers(30) if n not in ("4", "12")]


def test_a_process_that_is_killed_again_and_again_loses_and_repeats_nothing():
    chance = random.Random(5)
    length, reached = 1500, 0
    for _ in range(3):
        process = start("tests.interchange.import_process", length)
        ready([process])
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout is not None
        for _ in range(chance.randint(1, 12)):
            line = process.stdout.readline()
            assert line, process.communicate()[1]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        # What it told of is there.
        assert len(contents()) >= reached + int(line)
        reached = len(contents())
    assert 0 < reached < length

    report = import_sessions(Made([talk(said(length))]))

    assert (report.continued, report.messages) == (1, length - reached)
    assert contents() == numbers(length)


def test_two_processes_that_import_the_same_at_once_write_nothing_twice():
    both = [start("tests.interchange.import_process", 400) for _ in range(2)]
    ready(both)
    go(both)
    outputs(both)

    assert import_sessions(Made([talk(said(400))])).errors == 0
    assert contents() == numbers(400)
    assert Session.objects.get().message_count == 400


def test_what_the_app_said_in_a_complete_session_stays():
    source = Made([talk(said(5))])
    import_sessions(source)
    store = SessionStore()
    store.append(store.open_agent(store.open("talk")), user("more"))

    report = import_sessions(source)

    assert (report.unchanged, report.skips) == (1, 0)
    assert contents() == [*numbers(5), "more"]


def test_a_session_that_the_app_continued_before_its_import_was_complete_is_left_alone():
    with pytest.raises(StoppedError):
        import_sessions(stopping_at(25, 31), batch=10)
    store = SessionStore()
    store.append(store.open_agent(store.open("talk")), user("more"))

    report = import_sessions(Made([talk(said(31))]), batch=10)

    assert (report.left_out, report.errors) == (1, 1)
    assert "changed here since its import was interrupted" in report.skipped[0].reason
    assert contents() == [*numbers(20), "more"]


def test_a_session_that_was_redacted_before_its_import_was_complete_is_left_alone():
    with pytest.raises(StoppedError):
        import_sessions(stopping_at(25, 31), batch=10)
    store = SessionStore()
    store.redact_message(store.open_agent(store.open("talk")), 3, user("[gone]"))

    report = import_sessions(Made([talk(said(31))]), batch=10)

    assert (report.left_out, report.errors) == (1, 1)
    assert len(contents()) == 20


def test_a_session_that_no_import_made_is_never_mixed(store):
    store.append(store.open_agent(store.open("talk")), user("mine"))

    report = import_sessions(Made([talk(said(3))]))

    assert (report.left_out, report.messages) == (1, 0)
    assert reasons(report) == [
        (
            "session 'talk'",
            "there is a session of this id, and no import made it: choose another --namespace",
        )
    ]
    assert contents() == ["mine"]


@pytest.mark.parametrize(
    "other",
    [
        Made([talk(said(3))], kind="another-kind"),
        Made([talk(said(3), created_at=START + timedelta(seconds=1))]),
        Made([talk(said(3), columns={"id": "another key"})]),
    ],
)
def test_sessions_of_one_name_from_two_places_are_never_mixed(other):
    import_sessions(Made([talk(said(5))]))

    report = import_sessions(other)

    assert (report.left_out, report.errors) == (1, 1)
    assert "came from elsewhere (made)" in report.skipped[0].reason
    assert contents() == numbers(5)
    # In a namespace of its own there is room for it.
    assert import_sessions(other, namespace="other").made == 1


def test_a_dry_run_checks_all_and_writes_nothing(settings, store):
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 60}
    store.open("mine")
    found = [
        talk([*said(5), SourceMessage(user("x" * 60))]),
        talk(said(1), "mine"),
        talk(said(1), "\n"),
    ]
    before = everything()

    report = import_sessions(Made(found), dry_run=True)

    assert (report.made, report.left_out, report.messages, report.errors) == (1, 2, 5, 3)
    assert everything() == before
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 60}
    real = import_sessions(Made(found))
    assert real == report


def test_what_cannot_be_taken_is_told_with_its_place_and_never_its_content(settings):
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 60, "MAX_PAYLOAD_DEPTH": 20}
    deep: list = []
    for _ in range(30):
        deep = [deep]
    messages: list[SourceMessage | Skipped] = [
        SourceMessage(user("one")),
        SourceMessage(user("plantedsecret" * 10)),
        SourceMessage(user(float("nan"))),
        SourceMessage(user(deep)),
        Skipped("row 17", "it is no JSON"),
        SourceMessage(user("two")),
    ]
    session = SourceSession(
        "s",
        [
            SourceAgent("a", "openai", messages, AgentState(state={"x": "plantedsecret" * 10})),
            SourceAgent("a", "openai", said(1)),
            SourceAgent("", "openai", said(1)),
        ],
        [SourceMultiAgent("g", "graph", object()), SourceMultiAgent("\x00", "graph", {})],
        skipped=[Skipped("file x", "stray")],
        columns={"metadata": {"nul": "\x00"}},
    )

    report = import_sessions(Made([session, Skipped("line 2", "it is no JSON")]))

    places = [skipped.place for skipped in report.skipped]
    assert places == [
        "session 's', metadata",
        "file x",
        "session 's', agent 'a', state",
        "session 's', agent 'a', message 1",
        "session 's', agent 'a', message 2",
        "session 's', agent 'a', message 3",
        "row 17",
        "session 's', agent 'a'",
        "session 's', agent ''",
        "session 's', orchestrator 'g'",
        "session 's', orchestrator '\\x00'",
        "line 2",
    ]
    assert "MAX_PAYLOAD_BYTES" in report.skipped[3].reason
    assert "plantedsecret" not in str(report)
    assert report.errors == report.skips == 12
    assert (report.made, report.messages) == (1, 2)
    assert contents("s") == ["one", "two"]


def test_what_is_written_goes_past_the_detectors(settings):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ["email"]}
    messages = [
        SourceMessage(user("ada@example.org")),
        SourceMessage(user("x"), redact_message=user("bob@example.org")),
    ]

    import_sessions(Made([talk(messages, columns={"title": "To ada@example.org"})]))

    assert "example.org" not in everything()
    assert "EMAIL" in contents()[0]


@pytest.mark.parametrize("keep", [False, True])
def test_of_what_was_redacted_only_the_redacted_version_comes_in(settings, keep):
    settings.AGENT_SESSIONS = {"REDACTION_KEEP_ORIGINAL": keep}
    message = SourceMessage(user("plantedsecret"), START, redact_message=user("[gone]"))

    import_sessions(Made([talk([message])]))

    row = SessionMessage.objects.get()
    assert (row.redact_message, row.text, row.redacted_at) == (user("[gone]"), "[gone]", START)
    # An original is kept where originals are, and nowhere else.
    assert ("plantedsecret" in everything()) == keep


def test_owners_are_one_user_or_whoever_a_function_says(ada, bob):
    sessions = [talk(said(1), name) for name in ("a", "b", "c", "d")]
    by_name = {"a": ada.pk, "b": bob, "d": 10**9}

    import_sessions(Made(sessions), namespace="one", owner=ada)
    report = import_sessions(
        Made(sessions), namespace="each", owner=lambda found: by_name.get(found.session_id)
    )

    assert {row.owner for row in Session.objects.filter(namespace="one")} == {ada}
    owners = Session.objects.filter(namespace="each").values_list("session_id", "owner")
    assert dict(owners) == {"a": ada.pk, "b": bob.pk, "c": None}
    assert reasons(report) == [("session 'd'", "there is no user with the key 1000000000")]


def test_what_a_function_of_the_project_raises_is_not_taken_for_an_odd_session():
    with pytest.raises(ValueError, match="invalid literal"):
        import_sessions(Made([talk([])]), owner=lambda found: int("x"))


def test_a_text_that_no_database_takes_leaves_only_its_session_out():
    odd = SourceSession("odd", [SourceAgent("default", "secret \ud800", said(2))])

    report = import_sessions(Made([odd, talk(said(3))]))

    assert reasons(report) == [("session 'odd'", "it cannot be written: UnicodeEncodeError")]
    assert (report.left_out, report.made) == (1, 1)
    assert contents() == numbers(3)


def test_a_redaction_while_an_import_runs_ends_it_for_that_session():
    def messages():
        for number, message in enumerate(said(30)):
            if number == 15:
                store = SessionStore()
                store.redact_message(store.open_agent(store.open("talk")), 3, user("[gone]"))
            yield message

    report = import_sessions(Made([talk(messages()), talk(said(3), "next")]), batch=10)

    assert (report.made, report.left_out) == (1, 1)
    assert "was deleted or redacted meanwhile" in report.skipped[0].reason
    assert contents("next") == numbers(3)


def test_somebody_who_writes_where_an_import_would_ends_it_for_that_session():
    def messages():
        for number, message in enumerate(said(30)):
            if number == 15:
                store = SessionStore()
                store.append(store.open_agent(store.open("talk")), user("more"))
            yield message

    report = import_sessions(Made([talk(messages())]), batch=10)

    assert report.left_out == 1
    assert contents() == [*numbers(10), "more"]


def test_a_batch_takes_two_statements_and_a_session_a_fixed_number():
    def count(length: int) -> int:
        name = f"s-{length}"
        with CaptureQueriesContext(connection) as captured:
            import_sessions(Made([talk(said(length), name)]))
        return sum(not q["sql"].startswith(("BEGIN", "COMMIT")) for q in captured)

    empty = count(0)

    assert count(1) == count(200) == empty + 2
    assert count(1000) == empty + 10


def test_a_batch_of_large_messages_is_smaller():
    large = [SourceMessage(user("x" * 900_000)) for _ in range(4)]
    reached = []

    import_sessions(Made([talk(large)]), progress=lambda report: reached.append(report.messages))

    assert reached == [2, 4, 4]


def test_a_message_that_a_server_takes_just_so_is_written_alone():
    """MariaDB's packets have 16 MB."""
    sizes = [1_900_000, 15_800_000, 10]

    report = import_sessions(Made([talk([SourceMessage(user("x" * size)) for size in sizes])]))

    assert (report.messages, report.skips) == (3, 0)


def test_an_import_in_a_transaction_goes_with_it():
    from django.db import transaction

    with transaction.atomic():
        assert import_sessions(Made([talk(said(250))])).messages == 250
        transaction.set_rollback(True)

    assert not Session.objects.exists()


@pytest.mark.parametrize("count", [0, 5, 25])
def test_a_commit_whose_answer_was_lost_is_not_done_twice(count):
    def messages():
        for number, message in enumerate(said(31)):
            if number == count:
                # What is committed next: the agent or a batch.
                lost.enter_context(commit_lost())
            yield message

    with ExitStack() as lost:
        report = import_sessions(Made([talk(messages())]), batch=10)
    connection.close()

    assert (report.made, report.messages, report.skips) == (1, 31, 0)
    assert contents() == numbers(31)


def test_a_session_whose_making_was_not_answered_is_made_once():
    with commit_lost():
        report = import_sessions(Made([talk(said(3))]))
    connection.close()

    assert (report.made, report.skips) == (1, 0)
    assert contents() == numbers(3)
