"""An import leaves alone what the app said, redacted or made, before and meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.store import SessionStore
from tests.interchange.sources import START, Made, said, talk, user

from .outcomes import StoppedError, contents, numbers, reasons, stopping_at

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_the_app_said_in_a_complete_session_stays():
    source = Made([talk(said(5))])
    import_sessions(source)
    store = SessionStore()
    store.append(store.agents.open(store.open("talk")), user("more"))

    report = import_sessions(source)

    assert (report.unchanged, report.skips) == (1, 0)
    assert contents() == [*numbers(5), "more"]


def test_a_session_that_the_app_continued_before_its_import_was_complete_is_left_alone():
    with pytest.raises(StoppedError):
        import_sessions(stopping_at(25, 31), batch=10)
    store = SessionStore()
    store.append(store.agents.open(store.open("talk")), user("more"))

    report = import_sessions(Made([talk(said(31))]), batch=10)

    assert (report.left_out, report.errors) == (1, 1)
    assert "changed since its import was interrupted" in report.skipped[0].reason
    assert contents() == [*numbers(20), "more"]


def test_a_session_that_was_redacted_before_its_import_was_complete_is_left_alone():
    with pytest.raises(StoppedError):
        import_sessions(stopping_at(25, 31), batch=10)
    store = SessionStore()
    store.messages.redact(store.agents.open(store.open("talk")), 3, user("[gone]"))

    report = import_sessions(Made([talk(said(31))]), batch=10)

    assert (report.left_out, report.errors) == (1, 1)
    assert len(contents()) == 20


def test_a_session_that_no_import_made_is_never_mixed(store):
    store.append(store.agents.open(store.open("talk")), user("mine"))

    report = import_sessions(Made([talk(said(3))]))

    assert (report.left_out, report.messages) == (1, 0)
    assert reasons(report) == [
        (
            "session 'talk'",
            "a session with this id already exists and was not created by an import: choose "
            "another --namespace",
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
    assert "imported from another source (made)" in report.skipped[0].reason
    assert contents() == numbers(5)
    # In a namespace of its own there is room for it.
    assert import_sessions(other, namespace="other").made == 1


def test_a_redaction_while_an_import_runs_ends_it_for_that_session():
    def messages():
        for number, message in enumerate(said(30)):
            if number == 15:
                store = SessionStore()
                store.messages.redact(store.agents.open(store.open("talk")), 3, user("[gone]"))
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
                store.append(store.agents.open(store.open("talk")), user("more"))
            yield message

    report = import_sessions(Made([talk(messages())]), batch=10)

    assert report.left_out == 1
    assert contents() == [*numbers(10), "more"]
