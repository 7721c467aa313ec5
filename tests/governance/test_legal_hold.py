from __future__ import annotations

import uuid
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import transaction
from django.db.models import ProtectedError
from django.urls import reverse

from django_agent_sessions import audit
from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import (
    LegalHoldError,
    ReasonRequiredError,
    SessionNotFoundError,
)
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import (
    AuditEvent,
    HeldCopy,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY

pytestmark = pytest.mark.django_db

ROWS = (Session, SessionAgent, SessionMessage, SessionMultiAgent)


@pytest.fixture
def held(store, ada):
    """A session of Ada's under legal hold, with a row in every table."""
    session = store.open("held")
    Session.objects.filter(pk=session.id).update(owner=ada)
    agent = store.agents.open(session)
    store.append_many(agent, [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    store.multi_agents.create(session, "graph", {})
    legal_hold.hold(session.id, reason="case 1", actor="counsel")
    return session


def counts() -> list[int]:
    return [model._base_manager.count() for model in ROWS]


def said() -> list[tuple]:
    return list(AuditEvent.objects.order_by("pk").values_list("action", "actor", "reason"))


def test_a_hold_is_set_and_released_with_a_reason_and_recorded_once(session, ada, bob):
    assert legal_hold.hold(session.id, reason="case 1", actor=ada) is True
    assert Session.objects.get().legal_hold is True
    assert legal_hold.hold(session.id, reason="case 1 again", actor=ada) is False
    assert legal_hold.release(session.id, reason="closed", actor=bob) is True
    assert Session.objects.get().legal_hold is False
    assert legal_hold.release(session.id, reason="closed again", actor=bob) is False

    assert said() == [("held", "ada", "case 1"), ("released", "bob", "closed")]
    assert {event.session for event in AuditEvent.objects.all()} == {session.id}


@pytest.mark.parametrize("change", [legal_hold.hold, legal_hold.release])
@pytest.mark.parametrize("reason", ["", " \n\t"])
def test_a_hold_without_a_reason_is_refused(session, change, reason):
    with pytest.raises(ReasonRequiredError, match="reason"):
        change(session.id, reason=reason)

    assert Session.objects.get().legal_hold is False
    assert said() == []


@pytest.mark.parametrize("change", [legal_hold.hold, legal_hold.release])
def test_a_hold_that_changes_nothing_checks_the_reason(session, change):
    change(session.id, reason="case 1")
    events = said()

    with pytest.raises(ReasonRequiredError):
        change(session.id, reason="")

    assert said() == events


@pytest.mark.parametrize("change", [legal_hold.hold, legal_hold.release])
def test_a_session_that_is_not_there_cannot_be_held(db, change):
    with pytest.raises(SessionNotFoundError):
        change(uuid.uuid4(), reason="case 1")

    assert said() == []


WAYS = {
    "store": lambda: SessionStore(owner=EVERYBODY).delete("held"),
    "store of the owner": lambda: SessionStore(
        owner=get_user_model().objects.get(username="ada")
    ).delete("held"),
    "row": lambda: Session.objects.get().delete(),
    "queryset": lambda: Session.objects.all().delete(),
    "base manager": lambda: Session._base_manager.all().delete(),
    "owner": lambda: get_user_model().objects.get(username="ada").delete(),
    "owners": lambda: get_user_model().objects.all().delete(),
    "messages": lambda: SessionMessage.objects.all().delete(),
    "one of the messages": lambda: SessionMessage.objects.filter(message_id=1).delete(),
    "messages of the session": lambda: Session.objects.get().messages.all().delete(),
    "agent": lambda: SessionAgent.objects.get().delete(),
    "agents": lambda: SessionAgent.objects.all().delete(),
    "agents of the session": lambda: Session.objects.get().agents.all().delete(),
    "pop": lambda: SessionStore(owner=EVERYBODY).pop(the_agent()),
    "clear": lambda: SessionStore(owner=EVERYBODY).clear(the_agent()),
}


def the_agent():
    return SessionStore(owner=EVERYBODY).agents.open(SessionStore(owner=EVERYBODY).open("held"))


@pytest.mark.parametrize("way", WAYS)
def test_a_held_session_loses_nothing_whatever_way_it_is_deleted(held, way):
    before, events = counts(), said()

    # Django makes its own error of several, for a user; a LegalHoldError is one of that kind.
    with pytest.raises(ProtectedError), transaction.atomic():
        WAYS[way]()

    assert counts() == before == [1, 1, 2, 1]
    assert said() == events


@pytest.mark.parametrize("way", WAYS)
def test_once_released_a_session_can_be_deleted_again(held, way):
    legal_hold.release(held.id, reason="closed")
    before = counts()

    WAYS[way]()

    assert counts() != before


def test_among_many_sessions_one_that_is_held_keeps_all(store, held):
    store.open("free")

    with pytest.raises(LegalHoldError), transaction.atomic():
        Session.objects.all().delete()

    assert Session.objects.count() == 2
    Session.objects.exclude(pk=held.id).delete()
    assert Session.objects.get().pk == held.id


def test_the_users_page_in_the_admin_shows_a_held_session_as_protected(admin_client, held, ada):
    url = reverse("admin:auth_user_delete", args=[ada.pk])
    before = counts()

    page = admin_client.get(url)
    assert page.status_code == 200
    assert "Cannot delete user" in page.content.decode()
    assert "held" in page.content.decode()
    assert admin_client.post(url, {"post": "yes"}).status_code == 200
    selected = {"action": "delete_selected", "_selected_action": [str(ada.pk)], "post": "yes"}
    assert admin_client.post(reverse("admin:auth_user_changelist"), selected).status_code == 200

    assert counts() == before
    assert get_user_model().objects.filter(pk=ada.pk).exists()


@pytest.mark.parametrize("way", ["store", "row", "queryset", "base manager", "owner", "owners"])
def test_a_deletion_is_recorded_with_who_acted_and_no_content(held, bob, way):
    legal_hold.release(held.id, reason="closed")
    Session.objects.update(title="plantedsecret", message_count=2)

    with audit.acting(bob):
        WAYS[way]()

    assert counts() == [0, 0, 0, 0]
    event = AuditEvent.objects.get(action="deleted")
    assert (event.session, event.actor, event.actor_id) == (held.id, "bob", str(bob.pk))
    assert event.details == {"messages": 2}
    assert "plantedsecret" not in str(list(AuditEvent.objects.values()))


def test_a_deletion_that_is_rolled_back_is_not_recorded(store, session):
    with transaction.atomic():
        store.delete("session-1")
        transaction.set_rollback(True)

    assert Session.objects.exists()
    assert said() == []


def test_an_error_about_a_hold_names_the_session_by_its_id_only(held):
    Session.objects.all().update(title="plantedsecret")
    with pytest.raises(LegalHoldError) as refusal, transaction.atomic():
        Session.objects.get().delete()

    assert "held" in str(refusal.value)
    assert "plantedsecret" not in str(refusal.value)


@pytest.mark.parametrize(
    "delete",
    [
        lambda: Session.objects.get().delete(),
        lambda: Session.objects.all().delete(),
        lambda: SessionMessage.objects.all()[0].delete(),
        lambda: SessionMessage.objects.all().delete(),
        lambda: SessionStore(owner=EVERYBODY).delete("held"),
    ],
)
def test_a_refusal_leaves_the_callers_transaction_usable(held, delete):
    before = counts()

    with pytest.raises(LegalHoldError, match="held"):
        delete()

    assert counts() == before


def test_agents_take_nothing_out_of_a_held_session(held):
    store = SessionStore(owner=EVERYBODY)
    agent = store.agents.list(held)[0]
    payloads = store.payloads(agent)

    for take in (store.pop, store.clear):
        with pytest.raises(LegalHoldError, match="under legal hold"):
            take(agent)
    store.append(agent, {"role": "user", "content": "c"})

    assert store.payloads(agent) == [*payloads, {"role": "user", "content": "c"}]


def copies() -> list[tuple[str, Any]]:
    return list(HeldCopy.objects.order_by("pk").values_list("kind", "content"))


def test_what_was_said_first_is_kept_when_an_agent_changes_a_held_message(held):
    store = SessionStore(owner=EVERYBODY)
    agent = store.agents.list(held)[0]

    store.messages.update(agent, 0, {"role": "user", "content": "changed"})

    assert store.payloads(agent)[0] == {"role": "user", "content": "changed"}
    row = SessionMessage.objects.get(message_id=0)
    assert (row.message["content"], row.redact_message) == ("changed", None)
    assert copies() == [("message", {"message": {"role": "user", "content": "a"}})]
    # Nobody but the hold wanted it.
    legal_hold.release(held.id, reason="closed", actor="counsel")
    assert copies() == []
    assert store.payloads(agent)[0] == {"role": "user", "content": "changed"}


def test_a_guardrail_redacts_a_held_message_and_its_words_are_in_the_copy_only(held):
    store = SessionStore(owner=EVERYBODY)
    agent = store.agents.list(held)[0]

    store.messages.redact(agent, 0, {"role": "user", "content": "[gone]"})

    row = SessionMessage.objects.get(message_id=0)
    assert (row.message["content"], row.text) == ("[gone]", codec.neutral_text("[gone]"))
    assert copies() == [("message", {"message": {"role": "user", "content": "a"}})]


def test_the_title_that_a_guardrail_empties_is_in_the_copy(store, ada):
    session = store.open("titled")
    agent = store.agents.open(session)
    store.append(agent, {"role": "user", "content": "my secret"})
    store.sessions.update(session, title="my secret", title_derived=True)
    legal_hold.hold(session.id, reason="case 1")

    store.messages.redact(agent, 0, {"role": "user", "content": "[gone]"})

    assert Session.objects.get(pk=session.id).title == ""
    assert ("session", {"title": "my secret"}) in copies()


def test_nothing_is_redacted_in_a_held_session(held):
    before = list(SessionMessage.objects.order_by("pk").values()), said()

    with pytest.raises(LegalHoldError, match="redacting: session 'held' is under legal hold"):
        redact(held.id, Find("^a$", pattern=True), reason="asked for")

    assert (list(SessionMessage.objects.order_by("pk").values()), said()) == before
    assert redact(held.id, Find("^a$", pattern=True), reason="", dry_run=True).messages == 1
    assert redact(held.id, Find("not there"), reason="asked for").messages == 0


def test_the_command_tells_what_was_under_hold_already(session):
    told = StringIO()
    for reason in ("case 1", "case 2"):
        call_command("agent_sessions_hold", session.session_id, reason=reason, stderr=told)

    assert told.getvalue() == "1 session already under legal hold: nothing was recorded\n"
    assert len(said()) == 1
