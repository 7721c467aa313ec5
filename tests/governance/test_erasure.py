from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.exceptions import (
    ConfigurationError,
    ErasureReceiptError,
    LegalHoldError,
    ReasonRequiredError,
)
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.erasure import erase, verify
from django_agent_sessions.models import (
    AuditEvent,
    MessageFeedback,
    Participant,
    Session,
    SessionMessage,
    ShareLink,
    StoredObject,
    UsageRollup,
    deletion,
    querysets,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY, NOBODY
from django_agent_sessions.values.records import AgentState

pytestmark = pytest.mark.django_db(transaction=True)

WORD = "zanzibarine"


def user(text: str) -> dict:
    return {"role": "user", "content": text}


@pytest.fixture
def lovelace(django_user_model):
    return django_user_model.objects.create_user("lovelace-1815", email="lovelace@example.org")


@pytest.fixture
def person(lovelace, bob):
    """Lovelace with a conversation, a fork of it that is Bob's, feedback, usage and events."""
    store = SessionStore(owner=lovelace)
    session = store.open("hers", title=f"{WORD} title")
    agent = store.agents.open(session)
    store.append_many(agent, [user(f"{WORD} one"), user(f"{WORD} two")])
    store.branches.create(agent, name="side")
    store.snapshots.take(agent)
    store.agents.update(agent, AgentState({"note": WORD}))
    fork = SessionStore(owner=EVERYBODY).sessions.fork(session)
    Session.objects.filter(pk=fork.id).update(owner=bob)
    bobs = SessionStore(owner=bob)
    theirs = bobs.agents.open(fork.id)
    bobs.append(theirs, user("Bob's own words"))
    Participant.objects.create(session_id=fork.id, user=lovelace, role="writer")
    ShareLink.objects.create(
        session_id=fork.id,
        token_hash="0" * 64,
        expires_at=timezone.now(),
        created_by=str(lovelace.pk),
    )
    message = SessionMessage.objects.get(session=fork.id, message_id=2)
    MessageFeedback.objects.create(
        session_id=fork.id, message=message, user=str(lovelace.pk), value=1, comment=WORD
    )
    UsageRollup.objects.create(dimension="owner", period="2026-01-01", key=str(lovelace.pk))
    audit.record(AuditEvent.Action.READ, session=fork.id, actor=lovelace)
    audit.record(AuditEvent.Action.READ, actor=bob, reason="asked by lovelace-1815")
    StoredObject.objects.create(owner=lovelace, key="notes", digest="d")
    return session, fork


def stored() -> str:
    """Return everything that the tables of this app contain, as text."""
    names = [name for name in connection.introspection.table_names() if "agent_sessions" in name]
    found = []
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"SELECT * FROM {name}")
            found += [str(row) for row in cursor.fetchall()]
    return "\n".join(found)


def test_comments_of_others_on_her_messages_do_not_keep_her_words(person, lovelace, bob):
    session, fork = person
    own = SessionMessage.objects.get(session=session.id, branch=0, message_id=0)
    copied, bobs = (SessionMessage.objects.get(session=fork.id, message_id=n) for n in (0, 2))
    feedback = SessionStore(owner=EVERYBODY).feedback
    feedback.save(own.pk, -1, comment=f"Is {WORD} right?", source="reviewer", user=bob)
    feedback.save(copied.pk, -1, comment=f"I doubt {WORD}.", user=bob)
    feedback.save(bobs.pk, 1, comment="My own.", user=bob)

    erase(lovelace, reason="Request 31", actor="desk")

    assert WORD not in stored()
    rows = MessageFeedback.objects.order_by("pk")
    assert [(row.message_id, row.value, row.comment) for row in rows] == [
        (copied.pk, -1, "[REDACTED]"),
        (bobs.pk, 1, "My own."),
    ]


def test_no_word_and_no_name_of_the_person_is_stored_and_the_receipt_verifies(person, lovelace):
    _session, fork = person
    assert WORD in stored()
    assert "lovelace-1815" in stored()

    receipt = erase(lovelace, reason="Request 31 of lovelace-1815", actor="desk")

    assert WORD not in stored()
    assert "lovelace-1815" not in stored()
    texts = SessionMessage.objects.filter(session=fork.id).order_by("message_id")
    assert texts[2].message["content"] == "Bob's own words"
    assert [*Session.objects.values_list("pk", flat=True)] == [fork.id]
    assert not MessageFeedback.objects.exists()
    assert not Participant.objects.exists()
    assert ShareLink.objects.get().created_by == ""
    assert not StoredObject.objects.exists()
    assert not UsageRollup.objects.exists()
    assert AuditEvent.objects.filter(actor_id=receipt.person, action="read").count() == 1
    event = AuditEvent.objects.get(action="erased")
    assert (event.actor, str(event.pk)) == ("desk", receipt.event)
    assert {**receipt.counts, "audit_events": 0} == {
        "sessions": 1,
        "messages": 4,
        "written_messages": 0,
        "feedback": 1,
        "notes": 0,
        "objects": 1,
        "files": 0,
        "participations": 1,
        "usage": 1,
        "audit_events": 0,
        "fork_sessions": 1,
        "fork_messages": 2,
        "keys": receipt.counts["keys"],
    }
    text = receipt.to_json()
    assert verify(text) == []
    assert WORD not in text
    assert "lovelace" not in text
    assert str(fork.id) not in text


@pytest.mark.parametrize("how", ["redact", "delete"])
def test_forks_are_erased_in_batches(person, lovelace, bob, how, monkeypatch):
    session, fork = person
    store = SessionStore(owner=EVERYBODY)
    forks = [fork.id, *(store.sessions.fork(session).id for _ in range(5))]
    Session.objects.filter(pk__in=forks).update(owner=bob)
    monkeypatch.setattr(querysets, "_MAX_KEYS", 2)
    named: list[int] = []

    def count_keys(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        given = {str(value).replace("-", "") for value in params or ()}
        if sql.startswith("SELECT"):
            named.append(len(given & {key.hex for key in forks}))
        return execute(sql, params, many, context)

    legal_hold.hold(forks[-1], reason="court")
    legal_hold.hold(forks[0], reason="court")
    with pytest.raises(LegalHoldError) as refused:
        erase(lovelace, reason="Request 31", forks=how)
    assert {row.pk for row in refused.value.protected_objects} == {forks[0], forks[-1]}
    assert set(erase(lovelace, reason="", dry_run=True).held_sessions) == {forks[0], forks[-1]}
    legal_hold.release(forks[-1], reason="over")
    legal_hold.release(forks[0], reason="over")
    with connection.execute_wrapper(count_keys):
        receipt = erase(lovelace, reason="Request 31", forks=how)

    assert WORD not in stored()
    assert Session.objects.count() == (0 if how == "delete" else len(forks))
    assert (receipt.counts["fork_sessions"], verify(receipt.to_json())) == (len(forks), [])
    assert max(named) == 2


def test_a_fork_is_deleted_by_choice(person, lovelace):
    receipt = erase(lovelace, reason="Request 31", forks="delete")

    assert not Session.objects.exists()
    assert not SessionMessage.objects.exists()
    assert verify(receipt.to_json()) == []


@pytest.mark.parametrize("row", ["session", "fork's message", "usage", "event", "role"])
def test_a_receipt_stops_verifying_when_a_row_is_put_back(person, lovelace, row):
    session, fork = person
    text = erase(lovelace, reason="Request 31").to_json()
    assert verify(text) == []

    if row == "session":
        Session.objects.create(pk=session.id, session_id="another name")
    elif row == "usage":
        UsageRollup.objects.create(dimension="owner", period="2026-01-01", key=str(lovelace.pk))
    elif row == "event":
        audit.record(AuditEvent.Action.READ, actor=lovelace)
    elif row == "role":
        Participant.objects.create(session_id=fork.id, user=lovelace, role="reader")
    else:
        message = SessionMessage.objects.filter(session=fork.id, message_id=0)
        message.update(redacted_at=None)

    assert len(verify(text)) == 1


def test_a_changed_receipt_is_refused(person, lovelace):
    document = json.loads(erase(lovelace, reason="Request 31").to_json())
    document["receipt"]["counts"]["sessions"] = 2

    for text in (json.dumps(document), "{}", "no JSON"):
        with pytest.raises(ErasureReceiptError):
            verify(text)


def test_a_receipt_holds_after_the_secret_key_was_replaced(person, lovelace, settings):
    session, _fork = person
    text = erase(lovelace, reason="Request 31").to_json()

    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "new" * 20

    assert verify(text) == []
    Session.objects.create(pk=session.id, session_id="another name")
    assert len(verify(text)) == 1


@pytest.mark.parametrize("held", [0, 1])
def test_a_legal_hold_refuses_the_erasure_with_the_sessions(person, lovelace, held):
    legal_hold.hold(person[held].id, reason="Case 7")
    before = stored()

    with pytest.raises(LegalHoldError) as caught:
        erase(lovelace, reason="Request 31")

    assert {row.pk for row in caught.value.protected_objects} == {person[held].id}
    assert stored() == before
    assert erase(lovelace, reason="", dry_run=True).held_sessions == (person[held].id,)


def test_a_dry_run_counts_and_changes_nothing(person, lovelace):
    before = stored()

    receipt = erase(lovelace, reason="", dry_run=True)

    assert stored() == before
    assert (receipt.counts["sessions"], receipt.counts["fork_messages"]) == (1, 2)
    with pytest.raises(ErasureReceiptError):
        verify(receipt.to_json())


@pytest.mark.parametrize("step", ["delete_sessions", "delete_tombstones"])
def test_an_interrupted_erasure_is_completed_by_the_next_one(person, lovelace, monkeypatch, step):
    with monkeypatch.context() as patch:
        patch.setattr(deletion, step, lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            erase(lovelace, reason="Request 31")

    receipt = erase(lovelace.pk, reason="Request 31")

    assert WORD not in stored()
    assert len(receipt.sessions) == 1
    assert verify(receipt.to_json()) == []


def test_a_run_after_an_interruption_changes_no_fork_again(person, lovelace, monkeypatch):
    def fork() -> Any:
        counters = ("redactions", "redaction_epoch", "change", "updated_at")
        found = Session.objects.filter(pk=person[1].id).values(*counters)
        return list(found), SessionMessage.objects.filter(session=person[1].id).order_by("pk")[
            0
        ].text

    receipts = []
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(deletion, "delete_sessions", lambda *args: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                erase(lovelace, reason="Request 31")
        receipts.append(fork())
    complete = erase(lovelace, reason="Request 31")
    receipts.append(fork())
    again = erase(lovelace.pk, reason="Request 31")
    receipts.append(fork())

    assert receipts[0][0][0]["redactions"] > 0
    assert receipts[1:] == receipts[:1] * 3
    assert verify(complete.to_json()) == verify(again.to_json()) == []
    assert not any(again.counts.values())
    assert WORD not in stored()


def test_a_person_who_erases_is_not_named(person, lovelace):
    receipt = erase(lovelace, reason="My own request", actor=lovelace)

    assert "lovelace-1815" not in stored()
    assert receipt.by == receipt.person


@pytest.mark.parametrize("owner", [NOBODY, EVERYBODY, None])
def test_only_a_user_can_be_erased(db, owner):
    with pytest.raises(ConfigurationError):
        erase(owner, reason="Request 31")


def test_a_transaction_that_could_be_rolled_back_is_refused(person, lovelace):
    with transaction.atomic(), pytest.raises(ConfigurationError, match="outside of atomic"):
        erase(lovelace, reason="letter")

    assert Session.objects.filter(owner=lovelace).exists()


def test_a_reason_is_required(lovelace):
    with pytest.raises(ReasonRequiredError):
        erase(lovelace, reason=" ")


def test_the_command_writes_a_receipt_and_a_page_and_verifies(person, lovelace, tmp_path):
    paths = {"receipt": tmp_path / "receipt.json", "html": tmp_path / "receipt.html"}

    call_command("agent_sessions_erase", owner="lovelace-1815", reason="Request 31", **paths)

    out = StringIO()
    call_command("agent_sessions_erase", verify=paths["receipt"], stdout=out)
    assert "holds" in out.getvalue()
    receipt = json.loads(paths["receipt"].read_text())["receipt"]
    assert receipt["sessions"][0] in paths["html"].read_text()
    Session.objects.create(session_id="new", owner=lovelace)
    with pytest.raises(CommandError, match="does not hold"):
        call_command("agent_sessions_erase", verify=paths["receipt"])


def test_the_command_tells_that_it_found_nothing(person, db):
    told = StringIO()

    call_command("agent_sessions_erase", owner="98765", reason="Request 31", stderr=told)

    assert "nothing of '98765' was found" in told.getvalue()


def test_the_command_lists_the_sessions_under_legal_hold(person, lovelace):
    legal_hold.hold(person[0].id, reason="Case 7")

    with pytest.raises(CommandError, match=str(person[0].id)):
        call_command("agent_sessions_erase", owner="lovelace-1815", reason="Request 31")
