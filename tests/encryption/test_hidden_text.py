"""What comes from the column ``text`` is read from the payload, if encryption has emptied it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from rest_framework.test import APIClient

from django_agent_sessions.content import codec
from django_agent_sessions.governance.redaction import WholeMessage, redact
from django_agent_sessions.models import DataKey, RedactedOriginal, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState
from tests.encryption.test_encryption import stored

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_the_api_shows_the_first_and_the_last_text_of_a_session(encrypted, ada):
    store = SessionStore(owner=ada)
    session = store.open("s")
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    long = user("too long " * 20_000)
    store.append_many(store.agents.open(session), [call, user("Where to?"), user("Bye."), long])
    client = APIClient()
    client.force_authenticate(ada)

    found = client.get(f"/api/sessions/{session.id}/").json()

    assert found["first_text"]["text"] == "Where to?"
    assert found["last_text"]["text"] == "Bye."


def test_the_list_shows_first_words_also_beside_a_session_whose_key_was_destroyed(
    encrypted, root, ada, bob
):
    for person in (ada, bob):
        store = SessionStore(owner=person)
        store.append(store.agents.open(store.open(f"of-{person}")), user(f"Words of {person}"))

    page = root.get("/admin/agent_sessions/session/").content.decode()
    assert "Words of ada" in page

    DataKey.objects.filter(owner=str(ada.pk)).delete()
    encrypted.forget()
    page = root.get("/admin/agent_sessions/session/").content.decode()
    assert "Words of ada" not in page
    assert "Words of bob" in page


def test_a_plain_copy_of_an_encrypted_message_has_its_text(encrypt, store):
    encrypt()
    session = store.open("s")
    store.append(store.agents.open(session), user("A word that is searched"))
    encrypt(DECRYPT_ONLY=True)

    fork = store.sessions.fork(session)

    assert SessionMessage.objects.get(session=fork.id).text == "A word that is searched"


def test_an_encrypted_message_is_recognized_after_its_redaction(encrypt, store):
    encrypt()
    agent = store.agents.open(store.open("s"))
    record = store.append(agent, user("My password is hunter2, and I like it."))
    encrypt(DECRYPT_ONLY=True)

    redact(agent.session, WholeMessage(record.id), reason="a test", actor="test")

    assert RedactedOriginal.objects.count() == 1


def test_a_fixture_is_encrypted_when_it_is_loaded(encrypt, store, tmp_path, settings):
    agent = store.agents.open(store.open("s"), data=AgentState({"plan": "secret"}))
    store.append_many(agent, [user("a secret that is shared with its column"), user("b secret")])
    store.snapshots.take(agent)
    before = store.payloads(agent)
    fixture = str(tmp_path / "sessions.json")
    call_command(
        "dumpdata", "agent_sessions", exclude=["agent_sessions.auditevent"], output=fixture
    )
    Session.objects.all().delete()
    DataKey.objects.all().delete()
    encrypt()

    call_command("loaddata", fixture, verbosity=0)

    texts = stored(SessionMessage, "message")
    assert len(texts) == 2
    assert all(codec.ENVELOPE.match(text) for text in texts)
    assert set(stored(SessionMessage, "text")) == {""}
    assert store.payloads(store.agents.open(store.open("s"))) == before
