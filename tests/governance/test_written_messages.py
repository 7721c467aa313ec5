"""Messages that a person wrote in the sessions of others: exported and erased with the person."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
from django.contrib.auth import get_user_model

from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.erasure import erase, verify
from django_agent_sessions.interchange.person_export import export_person
from django_agent_sessions.models import Operation, Session, SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing
from django_agent_sessions.values.records import AgentState, NewMessage

pytestmark = pytest.mark.django_db(transaction=True)

WORD, KEY = "zanzibarine", 770_070_071


@pytest.fixture
def writer(db):
    return get_user_model().objects.create_user("lovelace-1815", pk=KEY)


@pytest.fixture
def talk(ada, writer):
    """A session of Ada in which another user wrote, and a fork of it that has a copy."""
    store = SessionStore(owner=ada)
    session = store.open("hers", title="A trip")
    agent = store.agents.open(session)
    said = {"role": "user", "content": f"my word is {WORD}"}
    store.append(agent, {"role": "user", "content": "Where to?"})
    store.append(agent, NewMessage(said, author=str(writer.pk)))
    store.append(agent, {"role": "assistant", "content": "To Lisbon."})
    store.sessions.fork(session)
    store.snapshots.take(agent)
    return session


def exported(user) -> dict[str, str]:
    file = zipfile.ZipFile(io.BytesIO(b"".join(export_person(user, reason="Request 32"))))
    return {name: file.read(name).decode() for name in file.namelist()}


def test_they_are_in_the_export_of_their_author(talk, writer):
    files = exported(writer)
    rows = [json.loads(line) for line in files["written.jsonl"].splitlines()]
    assert len(rows) == 2
    assert {row["session_id"] for row in rows} == {str(s.pk) for s in Session.objects.all()}
    assert all(WORD in str(row["content"]) for row in rows)
    assert json.loads(files["manifest.json"])["counts"]["written"] == 2
    assert "Lisbon" not in str(files)


def test_they_are_erased_with_their_author_and_the_rest_stays(talk, writer):
    assert columns_containing(WORD)

    preview = erase(writer, reason="Request 31", dry_run=True)
    receipt = erase(writer, reason="Request 31", actor="desk")

    assert preview.counts["written_messages"] == receipt.counts["written_messages"] == 2
    assert columns_containing(WORD) == []
    assert columns_containing(str(KEY)) == []
    assert SessionMessage.objects.filter(author=receipt.person).count() == 2
    texts = SessionMessage.objects.filter(session=talk.id).values_list("text", flat=True)
    assert [*texts.order_by("message_id")][::2] == ["Where to?", "To Lisbon."]
    assert verify(receipt.to_json()) == []
    # Once more does nothing.
    assert erase(writer, reason="Request 31").counts["written_messages"] == 0


def test_the_receipt_does_not_verify_if_a_message_is_back(talk, writer):
    row = SessionMessage.objects.filter(author=str(KEY), session=talk.id).values().get()
    text = erase(writer, reason="Request 31").to_json()
    SessionMessage.objects.filter(pk=row["id"]).update(redacted_at=None)
    assert verify(text) == [
        "a redacted message of the person in another user's session is there again"
    ]
    SessionMessage.objects.filter(pk=row["id"]).update(author=row["author"])
    assert "messages of the person are in the database" in verify(text)


def test_a_legal_hold_on_the_session_refuses_the_erasure(talk, writer):
    legal_hold.hold(talk.id, reason="A lawsuit")
    with pytest.raises(LegalHoldError):
        erase(writer, reason="Request 31")
    assert columns_containing(WORD)


@pytest.mark.parametrize("what", ["title", "metadata", "state", "operation", "starter"])
def test_a_receipt_tells_what_of_a_fork_or_an_operation_is_back(ada, bob, what):
    store = SessionStore(owner=ada)
    session = store.open("hers", title=WORD, metadata={"team": WORD})
    agent = store.agents.open(session)
    store.append(agent, {"role": "user", "content": WORD})
    store.agents.update(agent, AgentState(state={"k": WORD}))
    fork = store.sessions.fork(session, title=WORD)
    Session.objects.filter(pk=fork.id).update(owner=bob)
    state = SessionAgent.objects.get(session=fork.id).state
    text = erase(ada, reason="Request 31").to_json()
    assert verify(text) == []
    Session.objects.filter(pk=fork.id).update(title="Bob's own", metadata={"team": "his"})
    assert verify(text) == []

    if what == "title":
        Session.objects.filter(pk=fork.id).update(title=WORD)
    elif what == "metadata":
        Session.objects.filter(pk=fork.id).update(metadata={"team": WORD})
    elif what == "state":
        SessionAgent.objects.filter(session=fork.id).update(state=state)
    elif what == "operation":
        criteria = {"filters": {"owner": [str(ada.pk)]}}
        Operation.objects.create(kind="hold", criteria=criteria)
    else:
        Operation.objects.create(kind="hold", criteria={}, started_by=str(ada.pk))

    assert len(verify(text)) == 1
