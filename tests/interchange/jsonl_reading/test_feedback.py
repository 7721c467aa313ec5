"""Feedback, models and costs in a file: whose they are afterwards, and what is invalid."""

from __future__ import annotations

import pytest

from django_agent_sessions import SessionStore
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.interchange import JsonLines, export_sessions, import_sessions
from django_agent_sessions.models import MessageFeedback, Session, SessionMessage

from .files import changed, export, forget, lines, reasons, rows, write

pytestmark = pytest.mark.django_db

FEEDBACK = "agents.0.messages.0.feedback"


@pytest.fixture
def rated(ada, bob):
    """A message of Ada's with feedback of Ada, Bob, a third reviewer and a program."""
    store = SessionStore(owner=ada)
    said = {"role": "assistant", "content": "It is Lisbon."}
    store.append(store.agents.open(store.open("s")), said)
    message = SessionMessage.objects.get()
    store.feedback.save(message.pk, 1, comment="Thanks.")
    store.feedback.save(message.pk, -1, comment="Porto.", source="reviewer", user=bob)
    store.feedback.save(message.pk, 0, comment="Well.", source="reviewer", user="77")
    store.feedback.save(message.pk, 1, source="judge:v2", user="")
    return message


def given() -> list[tuple[str, str, int, str]]:
    found = MessageFeedback.objects.order_by("pk")
    return [(one.user, one.source, one.value, str(one.comment)) for one in found]


def test_feedback_of_the_owner_becomes_that_of_the_new_owner_and_others_have_no_user(
    rated, file, bob
):
    export(file)
    forget()

    assert import_sessions(JsonLines(file), owner=bob).skips == 0

    assert given() == [
        (str(bob.pk), "user", 1, "Thanks."),
        ("", "reviewer", -1, "Porto."),
        ("", "reviewer.2", 0, "Well."),
        ("", "judge:v2", 1, ""),
    ]


def test_without_an_owner_no_feedback_has_a_user(rated, file):
    export(file)
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    assert {user for user, *_ in given()} == {""}
    assert len(given()) == 4


def test_a_copy_beside_its_original_gets_keys_of_its_own(rated, file, ada):
    export(file)
    before = given()

    assert import_sessions(JsonLines(file), namespace="copy", owner=ada).skips == 0

    copies = MessageFeedback.objects.filter(session__namespace="copy")
    assert [one.message.session_id for one in copies] == [one.session_id for one in copies]
    assert (copies.count(), len(given())) == (4, 2 * len(before))


def test_an_interrupted_import_writes_feedback_once(rated, file, ada):
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.open("s"))
    store.append_many(agent, [{"role": "user", "content": str(n)} for n in range(3)])
    export(file)
    before = rows()
    forget()

    class StoppedError(Exception):
        pass

    def stop(report):
        if report.messages >= 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        import_sessions(JsonLines(file), owner=ada, batch=1, progress=stop)
    assert import_sessions(JsonLines(file), owner=ada, batch=1).continued == 1

    assert len(given()) == 4
    assert len(rows()["SessionMessage"]) == len(before["SessionMessage"])


def test_one_user_can_be_exported_without_the_others(rated, ada):
    [line] = lines("".join(export_sessions(Session.objects.all(), feedback_by=str(ada.pk))))

    [one] = line["agents"][0]["messages"][0]["feedback"]
    assert (one["user"], one["comment"]) == (str(ada.pk), "Thanks.")


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        (FEEDBACK, {"value": 1}, "its feedback is not a list"),
        (f"{FEEDBACK}.0", 1, "it is not an object"),
        (f"{FEEDBACK}.0.value", 2, "its value is not 1, 0 or -1"),
        (f"{FEEDBACK}.0.value", True, "its value is not 1, 0 or -1"),
        (f"{FEEDBACK}.0.comment", ["x"], "its comment is not a text"),
        (f"{FEEDBACK}.0.comment", "x" * 4001, "its comment is not a text"),
        (f"{FEEDBACK}.0.source", "plantedsecret 1", "the source of feedback must have"),
        (f"{FEEDBACK}.0.user", 7, "its user is not a string"),
        (f"{FEEDBACK}.0.id", "x", "its id is not a UUID"),
        (f"{FEEDBACK}.0.created_at", "then", "its created_at is not a time"),
        (f"{FEEDBACK}.1.source", "user", "the same user and source"),
    ],
)
def test_invalid_feedback_is_reported_and_its_message_imported(rated, file, where, value, says):
    [line] = lines(export(file))
    line["agents"][0]["messages"][0]["feedback"][1]["user"] = line["session"]["owner"]["id"]
    forget()

    report = import_sessions(write(file, changed(line, where, value)))

    [(place, reason)] = reasons(report)
    assert says in reason
    assert "plantedsecret" not in place + reason
    assert SessionMessage.objects.count() == 1
    assert len(given()) < 4


def test_comments_are_masked_as_on_any_write(rated, file, settings):
    [line] = lines(export(file))
    forget()
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ["card"]}

    import_sessions(write(file, changed(line, f"{FEEDBACK}.0.comment", "4111 1111 1111 1111")))

    assert "4111" not in str(given())


def test_comments_on_a_message_that_was_redacted_here_are_left_out(rated, file, ada):
    export(file)
    redact(rated.session_id, Find("Lisbon"), reason="asked")

    import_sessions(JsonLines(file), namespace="again", owner=ada)

    [message] = SessionMessage.objects.filter(session__namespace="again")
    assert message.redacted_at is not None
    copies = MessageFeedback.objects.filter(message=message)
    left = sorted((one.value, one.comment) for one in copies)
    assert left == [(-1, ""), (0, ""), (1, ""), (1, "")]


@pytest.mark.parametrize("cost", [-1, 2**60, True, "1", 1.5, None])
def test_an_implausible_cost_is_unknown(rated, file, cost):
    [line] = lines(export(file))
    forget()
    import_sessions(write(file, changed(line, "session.cost", cost)))
    assert Session.objects.get().cost is None
