"""What cannot be taken is told with its place, in a dry run too, and leaves nothing else out."""

from __future__ import annotations

import pytest

from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.interchange.sources import (
    Skipped,
    SourceAgent,
    SourceBranch,
    SourceMessage,
    SourceMultiAgent,
    SourceSession,
)
from django_agent_sessions.models import Branch
from django_agent_sessions.values.records import AgentState
from tests.interchange.sources import Made, said, talk, user

from .outcomes import contents, everything, numbers, reasons

pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.parametrize("dialect", ["strands", "openai"])
def test_a_branch_whose_name_cannot_be_taken_gets_one_that_no_other_has(dialect):
    names = ["branch-2", "", "idea", "idea", "main"]
    branches = [SourceBranch(number, name) for number, name in enumerate(names, 1)]
    found = SourceSession("s", [SourceAgent("a", dialect, said(2), branches=branches)])

    report = import_sessions(Made([found]))

    assert list(Branch.objects.order_by("number").values_list("number", "name")) == [
        (1, "branch-2"),
        (2, "branch-2-"),
        (3, "idea"),
        (4, "branch-4"),
        (5, "branch-5"),
    ]
    assert [skipped.place for skipped in report.skipped] == [
        f"session 's', agent 'a', name of branch {number}" for number in (2, 4, 5)
    ]


def test_what_cannot_be_taken_is_told_with_its_place_and_never_its_content(settings):
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_BYTES": 60, "MAX_PAYLOAD_DEPTH": 20}
    deep: list = []
    for _ in range(30):
        deep = [deep]
    messages: list[SourceMessage | Skipped] = [
        SourceMessage(user("one")),
        SourceMessage(user("plantedsecret" * 10)),
        SourceMessage(user(object())),
        SourceMessage(user(deep)),
        Skipped("row 17", "it is not JSON"),
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

    report = import_sessions(Made([session, Skipped("line 2", "it is not JSON")]))

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


def test_a_text_that_no_database_takes_leaves_only_its_session_out():
    odd = SourceSession("odd", [SourceAgent("default", "secret \ud800", said(2))])

    report = import_sessions(Made([odd, talk(said(3))]))

    assert reasons(report) == [("session 'odd'", "it cannot be written: UnicodeEncodeError")]
    assert (report.left_out, report.made) == (1, 1)
    assert contents() == numbers(3)
