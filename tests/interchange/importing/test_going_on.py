"""An import that was stopped, killed or not answered goes on, and writes nothing twice."""

from __future__ import annotations

import os
import random
import signal
from contextlib import ExitStack

import pytest
from django.db import connection

from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.interchange.sources import (
    Skipped,
    SourceAgent,
    SourceMessage,
    SourceMultiAgent,
    SourceSession,
)
from django_agent_sessions.models import Session, SessionMessage, SessionMultiAgent
from tests.interchange.sources import START, Made, said, talk, user
from tests.processes import go, outputs, ready, start
from tests.store.cutting import commit_lost

from .outcomes import StoppedError, contents, everything, numbers, reasons, stopping_at

pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.process
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


@pytest.mark.process
def test_two_processes_that_import_the_same_at_once_write_nothing_twice():
    both = [start("tests.interchange.import_process", 400) for _ in range(2)]
    ready(both)
    go(both)
    outputs(both)

    assert import_sessions(Made([talk(said(400))])).errors == 0
    assert contents() == numbers(400)
    assert Session.objects.get().message_count == 400


@pytest.mark.parametrize("count", [0, 15])
def test_an_import_that_another_overtakes_is_told_of_it_and_can_be_run_again(count):
    def messages():
        for number, message in enumerate(said(31)):
            if number == count:
                assert import_sessions(Made([talk(said(31))]), batch=10).errors == 0
            yield message

    report = import_sessions(Made([talk(messages())]), batch=10)

    [(place, reason)] = reasons(report)
    assert (place, report.left_out) == ("session 'talk'", 1)
    assert reason.startswith("another process is importing or changing this session")
    assert "run this import again" in reason
    assert contents() == numbers(31)
    assert import_sessions(Made([talk(said(31))])).errors == 0


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
