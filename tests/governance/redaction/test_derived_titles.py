"""Titles that were made from messages: every redaction in their session empties them."""

from __future__ import annotations

import json

import pytest

from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.interchange import JsonLines, export_sessions, import_sessions
from django_agent_sessions.models import HeldCopy, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing, files_containing
from django_agent_sessions.values.owners import EVERYBODY

pytestmark = pytest.mark.django_db(transaction=True)

WORDS = "Jane Doe is ill"


@pytest.fixture
def ada(django_user_model):
    return django_user_model.objects.create_user("ada")


@pytest.fixture
def talk(ada):
    store = SessionStore(owner=ada)
    session = store.open("s")
    store.append(store.agents.open(session, dialect="openai"), {"role": "user", "content": WORDS})
    store.sessions.update(session, title="An illness", title_derived=True)
    return session


def title(session) -> str:
    return str(Session.objects.get(pk=session.id).title)


def message(session):
    return SessionMessage.objects.get(session=session.id)


def test_any_redaction_of_a_message_empties_it(talk):
    redact(talk.id, Find("Jane"), reason="asked")
    assert title(talk) == ""


def test_the_redaction_of_a_guardrail_empties_it(talk, ada):
    store = SessionStore(owner=ada)
    agent = store.agents.open(talk, dialect="openai")
    store.messages.redact(agent, 0, {"role": "user", "content": "[gone]"}, reason="guardrail")
    assert title(talk) == ""


def test_a_title_that_replaces_it_stays(talk, ada):
    SessionStore(owner=ada).sessions.update(talk, title="Tuesday")
    redact(talk.id, WholeMessage(message(talk).pk), reason="asked")
    assert title(talk) == "Tuesday"


@pytest.mark.parametrize("given", [None, "Tuesday"])
def test_a_fork_has_it_with_its_mark(talk, ada, given):
    fork = SessionStore(owner=ada).sessions.fork(talk, title=given)
    assert title(fork) == (given or "An illness")

    redact(talk.id, WholeMessage(message(talk).pk), reason="asked", descendants=True)
    assert (title(talk), title(fork)) == ("", given or "")


def test_an_export_and_an_import_keep_the_mark(talk, tmp_path):
    file = tmp_path / "all.jsonl"
    file.write_text("".join(export_sessions(Session.objects.filter(pk=talk.id))))
    assert json.loads(file.read_text())["session"]["title_derived"] is True
    Session.objects.filter(pk=talk.id).delete()

    import_sessions(JsonLines(file))
    imported = Session.objects.get()
    redact(imported.pk, WholeMessage(message(imported).pk), reason="asked")
    assert Session.objects.get().title == ""


def test_a_legal_hold_refuses_a_redaction_that_would_empty_it(talk):
    legal_hold.hold(talk.id, reason="case")
    with pytest.raises(LegalHoldError):
        redact(talk.id, WholeMessage(message(talk).pk), reason="asked")
    assert (title(talk), message(talk).text) == ("An illness", WORDS)


def test_a_title_that_a_guardrail_empties_under_legal_hold_goes_when_it_is_released(talk):
    store = SessionStore(owner=EVERYBODY)
    legal_hold.hold(talk.id, reason="case")
    agent = store.agents.open(talk, dialect="openai")
    store.messages.redact(agent, 0, {"role": "user", "content": "[gone]"}, reason="guardrail")
    assert title(talk) == ""
    assert "An illness" in str(list(HeldCopy.objects.values_list("content", flat=True)))

    legal_hold.release(talk.id, reason="closed")
    assert files_containing("An illness") == columns_containing("An illness") == []
