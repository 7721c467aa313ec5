"""What was redacted does not come back by an import, also after the session was deleted."""

from __future__ import annotations

from typing import Any

import pytest

from django_agent_sessions.content import masking
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.interchange import JsonLines, import_sessions
from django_agent_sessions.models import HeldCopy, RedactedOriginal, Session, SessionMessage
from tests.interchange.jsonl_reading.files import export

pytestmark = pytest.mark.django_db

SECRET = "plantedsecret"


@pytest.fixture
def file(tmp_path, store) -> Any:
    """An export that was made before the redaction."""
    session = store.open("s")
    agent = store.agents.open(session)
    texts = ("Where shall we go?", f"My password is {SECRET}.", "Thanks, that is all.")
    store.append_many(agent, [{"role": "user", "content": text} for text in texts])
    path = tmp_path / "sessions.jsonl"
    export(path)
    return path


def text() -> str:
    return str(list(SessionMessage.objects.values("message", "text")))


@pytest.mark.parametrize("namespace", ["", "another"])
def test_a_session_that_was_redacted_and_deleted_is_imported_as_redacted(file, namespace):
    session = Session.objects.get()
    redact(session.pk, Find(SECRET), reason="r")
    session.delete()

    report = import_sessions(JsonLines(file), namespace=namespace)

    assert SECRET not in text()
    assert "Where shall we go?" in text()
    assert report.messages == 3
    assert "redacted before" in report.skipped[0].reason
    # It is told, and is no failure of the command.
    assert (report.skips, report.errors) == (1, 0)
    row = SessionMessage.objects.get(message_id=1)
    assert row.redacted_at is not None
    assert row.message == masking.redact_message("openai", {"role": "user", "content": "x"})


def test_a_digest_holds_no_content_and_is_found_after_a_change_of_the_secret_key(file, settings):
    session = Session.objects.get()
    redact(session.pk, Find(SECRET), reason="r")
    assert SECRET not in str(list(RedactedOriginal.objects.values()))
    session.delete()
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "a new key" * 10

    import_sessions(JsonLines(file))

    assert SECRET not in text()


def test_what_was_never_redacted_is_imported_as_it_is(file):
    Session.objects.get().delete()

    report = import_sessions(JsonLines(file))

    assert SECRET in text()
    assert report.skips == 0


@pytest.mark.parametrize("derived", [True, False])
def test_a_title_that_was_made_from_messages_is_emptied(tmp_path, store, derived):
    session = store.open("s")
    agent = store.agents.open(session)
    store.append(agent, {"role": "user", "content": f"My password is {SECRET}."})
    store.sessions.update(session, title="About a password", title_derived=derived)
    export(tmp_path / "sessions.jsonl")
    redact(session.id, Find(SECRET), reason="r")
    Session.objects.get().delete()

    import_sessions(JsonLines(tmp_path / "sessions.jsonl"))

    row = Session.objects.get()
    assert (row.title, row.title_derived) == ("" if derived else "About a password", False)


def test_under_legal_hold_the_title_is_in_the_copy(tmp_path, store, monkeypatch):
    session = store.open("s")
    agent = store.agents.open(session)
    texts = ("Where shall we go?", f"My password is {SECRET}.")
    store.append_many(agent, [{"role": "user", "content": text} for text in texts])
    store.sessions.update(session, title="About a password", title_derived=True)
    export(tmp_path / "sessions.jsonl")
    redact(session.id, Find(SECRET), reason="r")
    Session.objects.get().delete()

    def hold(report: Any) -> None:
        if report.messages == 1:
            legal_hold.hold(Session.objects.get().pk, reason="Case 7")

    import_sessions(JsonLines(tmp_path / "sessions.jsonl"), batch=1, progress=hold)

    assert Session.objects.get().title == ""
    assert HeldCopy.objects.get().content == {"title": "About a password"}
    assert SECRET not in text()
