from __future__ import annotations

import io
import sys
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection

from django_agent_sessions.governance.legal_hold import release
from django_agent_sessions.models import AuditEvent, Session, SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState
from tests.processes import start

pytestmark = pytest.mark.django_db

SECRET = "planted secret"
MAIL = "ada@example.org"


def run(*arguments: object) -> str:
    out = io.StringIO()
    call_command("agent_sessions_redact", *map(str, arguments), stdout=out)
    return out.getvalue()


@pytest.fixture
def talk(store):
    session = store.open("talk", title=f"About the {SECRET}")
    agent = store.agents.open(session, data=AgentState(state={"note": SECRET}))
    store.append_many(
        agent,
        [
            {"role": "user", "content": f"My {SECRET} is mine"},
            {"role": "assistant", "content": f"Write to {MAIL} or 192.0.2.17"},
            {"role": "user", "content": "goodbye"},
        ],
    )
    return session


def contents() -> list[str]:
    rows = SessionMessage.objects.order_by("message_id")
    return [row.message["content"] for row in rows]


def everything() -> str:
    return str(
        [
            list(model._base_manager.values())
            for model in (Session, SessionAgent, SessionMessage, AuditEvent)
        ]
    )


def test_a_text_goes_from_everywhere_in_the_session(talk):
    said = run("talk", "--find", SECRET.upper(), "--reason", "as asked")

    assert contents()[0] == "My [REDACTED] is mine"
    assert Session.objects.get().title == "About the [REDACTED]"
    assert SECRET not in everything()
    assert said.endswith("redacted: 3 places in 1 message and 2 other rows\n")
    event = AuditEvent.objects.get()
    assert (event.action, event.session) == (AuditEvent.Action.REDACTED, talk.id)
    assert (event.actor, event.reason) == ("agent_sessions_redact", "as asked")


def test_places_are_printed_and_never_content(talk):
    said = run("talk", "--find", SECRET, "--dry-run")

    message = SessionMessage.objects.get(message_id=0)
    assert f"message 0, message.content ({message.pk}): found\n" in said
    assert f"session, title ({talk.id}): found\n" in said
    assert "agent default, state.…" in said
    assert "secret" not in said


def test_a_dry_run_changes_nothing_and_records_nothing(talk):
    before = everything()

    said = run("talk", "--find", SECRET, "--detector", "all", "--dry-run")

    assert "would be redacted: 5 places in 2 messages and 2 other rows" in said
    assert everything() == before
    assert not AuditEvent.objects.exists()


def test_content_is_printed_only_when_asked_for_and_that_is_recorded(talk, ada):
    said = run("talk", "--find", SECRET, "--dry-run", "--show", "--actor", "ada")

    assert f"  - My {SECRET} is mine\n  + My [REDACTED] is mine\n" in said
    event = AuditEvent.objects.get()
    assert (event.action, event.actor) == (AuditEvent.Action.READ, "ada")
    assert event.actor_id == str(ada.pk)
    assert event.details == {"page": "agent_sessions_redact", "hits": 3}


@pytest.mark.parametrize("by", ["name", "key"])
def test_whoever_acts_is_recorded_as_the_user_they_are(talk, ada, by):
    run("talk", "--find", SECRET, "--reason", "x", "--actor", ada.pk if by == "key" else "ada")

    event = AuditEvent.objects.get()
    assert (event.actor, event.actor_id) == ("ada", str(ada.pk))


def test_a_program_is_recorded_by_its_name_and_as_no_user(talk, ada):
    run("talk", "--find", SECRET, "--reason", "x", "--program", "nightly-cleanup")

    event = AuditEvent.objects.get()
    assert (event.actor, event.actor_id) == ("nightly-cleanup", "")


@pytest.mark.parametrize(
    ("who", "complaint"),
    [
        (["--actor", "nobodyuser"], "'nobodyuser' matches no user.*--program"),
        (["--actor", ""], "matches no user"),
        (["--actor", "99999999"], "matches no user"),
        (["--program", "ada"], "'ada' is a user: use --actor"),
        (["--program", " "], "requires a name"),
        (["--actor", "ada", "--program", "x"], "not allowed with"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--dry-run", "--show"]])
def test_nobody_acts_in_a_name_that_is_not_theirs(talk, ada, who, complaint, more):
    before = everything()

    with pytest.raises(CommandError, match=complaint) as caught:
        run("talk", "--find", SECRET, "--reason", "x", *who, *more)

    assert SECRET not in str(caught.value)
    assert everything() == before
    assert not AuditEvent.objects.exists()


def test_a_name_that_is_the_key_of_another_is_refused(talk, ada):
    get_user_model().objects.create_user(str(ada.pk))

    with pytest.raises(CommandError, match="or several"):
        run("talk", "--find", SECRET, "--reason", "x", "--actor", ada.pk)

    assert not AuditEvent.objects.exists()


def test_what_would_move_a_terminals_cursor_is_printed_as_text(store):
    agent = store.agents.open(store.open("s"))
    store.append(agent, {"role": "user", "content": "\x1b[2J \u202e word"})

    said = run("s", "--find", "word", "--dry-run", "--show")

    assert "\\x1b[2J \\u202e word" in said
    assert "\x1b" not in said
    assert "\u202e" not in said


@pytest.mark.parametrize("way", ["stdin", "file"])
def test_the_text_need_not_be_on_the_command_line(talk, monkeypatch, tmp_path, way):
    data = f"{SECRET}\n".encode()
    if way == "stdin":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        run("talk", "--find-stdin", "--reason", "as asked")
    else:
        file = tmp_path / "secret.txt"
        file.write_bytes(b"\xef\xbb\xbf" + data)
        run("talk", "--find-file", file, "--reason", "as asked")

    assert SECRET not in everything()


def test_patterns_and_detectors_find_what_they_know(talk):
    run("talk", "--pattern", r"192\.\d+\.\d+\.\d+", "--detector", "email", "--reason", "as asked")

    assert contents()[1] == "Write to [REDACTED:EMAIL] or [REDACTED]"
    assert contents()[0] == f"My {SECRET} is mine"


def test_all_detectors_can_be_asked_at_once(talk):
    run("talk", "--detector", "all", "--reason", "as asked")

    assert MAIL not in everything()
    assert "192.0.2.17" not in everything()
    assert SECRET in everything()


def test_a_whole_message_goes_by_its_primary_key(talk):
    row = SessionMessage.objects.get(message_id=2)

    run("talk", "--message", row.pk, "--reason", "as asked")

    assert contents()[2] == "[REDACTED]"
    assert contents()[0] == f"My {SECRET} is mine"


def test_nothing_found_is_said_and_changes_nothing(talk):
    before = everything()
    assert run("talk", "--find", "no such thing", "--reason", "x") == (
        "no matches; nothing changed\n"
    )
    assert everything() == before


def test_an_id_that_holds_the_text_is_named_and_kept(store):
    store.append(store.agents.open(store.open("planted")), {"role": "user", "content": "planted"})

    said = run("planted", "--find", "planted", "--reason", "as asked")

    assert "session, session_id" in said
    assert "kept, because programs use this id" in said
    assert Session.objects.get().session_id == "planted"
    assert contents() == ["[REDACTED]"]


def test_a_session_is_found_in_its_namespace_or_by_its_primary_key(store, talk):
    other = store.__class__(namespace="team").open("talk")
    agent = store.__class__(namespace="team").agents.open(other)
    store.append(agent, {"role": "user", "content": SECRET})

    assert "1 place in 1 message" in run(
        "talk", "--namespace", "team", "--find", SECRET, "--dry-run"
    )
    assert "1 place in 1 message" in run(other.id, "--find", SECRET, "--dry-run")
    assert "3 places" in run("talk", "--find", SECRET, "--dry-run")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nobody", "--find", SECRET, "--reason", "x"], "session 'nobody' does not exist"),
        (["talk", "--namespace", "n", "--find", SECRET, "--reason", "x"], "in namespace 'n'"),
        (["talk", "--reason", "x"], "nothing to redact"),
        (["talk", "--find", SECRET], "requires a --reason"),
        (["talk", "--find", SECRET, "--reason", "  "], "requires a --reason"),
        (["talk", "--find", "  ", "--reason", "x"], "to find is empty"),
        (["talk", "--find", "", "--reason", "x"], "to find is empty"),
        (["talk", "--pattern", "", "--reason", "x"], "to find is empty"),
        (["talk", "--pattern", "  ", "--dry-run"], "to find is empty"),
        (["talk", "--pattern", f"({SECRET}", "--reason", "x"], "not a valid regular expression"),
        (["talk", "--detector", "nose", "--reason", "x"], "unknown detector"),
        (["talk", "--message", "nose", "--reason", "x"], "a UUID"),
        (["talk", "--message", str(uuid4()), "--reason", "x"], "has no message"),
        (["talk", "--find-file", "/nowhere/at/all", "--reason", "x"], "cannot be read"),
    ],
)
def test_mistakes_are_said_without_content_and_change_nothing(talk, arguments, complaint):
    before = everything()

    with pytest.raises(CommandError, match=complaint) as caught:
        run(*arguments)

    assert SECRET not in str(caught.value)
    assert everything() == before


def test_a_file_that_is_no_text_is_refused_without_a_quotation(talk, tmp_path):
    file = tmp_path / "secret"
    file.write_bytes(SECRET.encode() + b"\xff")

    with pytest.raises(CommandError, match="is not UTF-8") as caught:
        run("talk", "--find-file", file, "--reason", "x")

    assert "secret\\x" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_held_session_keeps_its_state_and_says_why(talk):
    Session.objects.update(legal_hold=True)
    before = everything()

    with pytest.raises(CommandError, match="under legal hold"):
        run("talk", "--find", SECRET, "--reason", "x")

    assert everything() == before


@pytest.fixture
def three(store, talk, ada):
    """Three sessions with the secret: two of Ada's, of which one is held, and nobody's."""
    hers = SessionStore(owner=ada)
    for name, held in (("hers", False), ("held", True)):
        session = hers.open(name, title=f"{name}: {SECRET}")
        Session.objects.filter(pk=session.id).update(legal_hold=held)
    hers.open("harmless")


def titles() -> dict[str, str]:
    return dict(Session.objects.values_list("session_id", "title"))


def test_a_text_goes_from_all_sessions_of_a_user_and_from_nobody_elses(three):
    release(Session.objects.get(session_id="held").pk, reason="closed")

    said = run("--owner", "ada", "--find", SECRET, "--reason", "she asked us to")

    assert titles() == {
        "talk": f"About the {SECRET}",
        "hers": "hers: [REDACTED]",
        "held": "held: [REDACTED]",
        "harmless": "",
    }
    hers = Session.objects.get(session_id="hers")
    assert (
        f"session hers ({hers.pk}):\nsession, title ({hers.pk}): found\nredacted: 1 place" in said
    )
    assert "harmless" not in said
    assert said.endswith("\n3 sessions searched, matches in 2\n")
    assert AuditEvent.objects.filter(action="redacted").count() == 2


def test_what_one_session_refuses_keeps_no_other_from_being_redacted(three):
    errors = io.StringIO()

    with pytest.raises(CommandError, match="1 session could not be redacted: see above"):
        call_command(
            "agent_sessions_redact",
            "--everybody",
            "--find",
            SECRET,
            "--reason",
            "a leaked key",
            stderr=errors,
            stdout=io.StringIO(),
        )

    assert errors.getvalue().startswith("session held: ")
    assert "under legal hold" in errors.getvalue()
    assert SECRET not in errors.getvalue()
    assert [title for title in titles().values() if SECRET in title] == [f"held: {SECRET}"]


def test_several_sessions_are_named_and_no_other_is_touched(three):
    said = run("talk", "hers", "--find", SECRET, "--dry-run")

    assert said.count("would be redacted: ") == 2
    assert said.endswith("\n2 sessions searched, matches in 2\n")
    assert SECRET not in said


def test_only_those_of_a_namespace_are_gone_through(three):
    SessionStore(namespace="other").open("away", title=SECRET)

    run("--everybody", "--namespace", "other", "--find", SECRET, "--reason", "x")

    assert titles()["away"] == "[REDACTED]"
    assert SECRET in titles()["hers"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--find", SECRET], "specify either SESSION_ID"),
        (["talk", "--everybody", "--find", SECRET], "specify either SESSION_ID"),
        (["--owner", "ada", "--everybody", "--find", SECRET], "specify either SESSION_ID"),
        (["talk", "--owner", "ada", "--find", SECRET], "specify either SESSION_ID"),
        (["talk", "nobodys", "--find", SECRET], "session 'nobodys' does not exist"),
        (["--owner", "nope", "--find", SECRET], "user 'nope' does not exist"),
        # As a script gives it whose variable is empty.
        (["--owner", "", "--find", SECRET], "user '' does not exist"),
        (["--everybody", "--pattern", "("], "not a valid regular expression"),
        (["--everybody", "--message", str(uuid4())], "--message requires exactly one SESSION_ID"),
    ],
)
def test_sessions_that_are_not_clear_are_left_alone(three, arguments, complaint):
    before = everything()

    with pytest.raises(CommandError, match=complaint):
        run(*arguments, "--reason", "x")

    assert everything() == before


def test_nothing_is_logged(talk, caplog):
    run("talk", "--find", SECRET, "--reason", f"it held {SECRET}")

    assert SECRET not in caplog.text
    assert AuditEvent.objects.get().reason == "it held [REDACTED]"


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_from_a_shell_the_secret_goes_in_by_the_standard_input_and_errors_end_with_1(talk):
    # The process has a connection of its own.
    process = start("django", "agent_sessions_redact", "talk", "--find-stdin", "--reason", "asked")
    said, complaints = process.communicate(f"{SECRET}\n", timeout=100)

    assert (process.returncode, complaints) == (0, "")
    assert said.endswith("redacted: 3 places in 1 message and 2 other rows\n")
    assert SECRET not in said
    connection.close()
    assert SECRET not in everything()

    process = start("django", "agent_sessions_redact", "nobody", "--detector", "all", "--dry-run")
    said, complaints = process.communicate(timeout=100)
    assert (process.returncode, said) == (1, "")
    refusal = "session 'nobody' does not exist; use --namespace, --scope or its primary key"
    assert complaints == f"CommandError: {refusal}\n"
