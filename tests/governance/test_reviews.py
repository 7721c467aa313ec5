"""Notes, labels and states: who changes them, what is recorded, and what becomes of them."""

from __future__ import annotations

import pytest

from django_agent_sessions.content import masking
from django_agent_sessions.exceptions import (
    LegalHoldError,
    PayloadError,
    SessionNotFoundError,
    TargetNotFoundError,
)
from django_agent_sessions.governance import legal_hold, reviews
from django_agent_sessions.governance.erasure import erase, verify
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.models import AuditEvent, Label, Note, Review, Session, SessionMessage
from django_agent_sessions.models.deletion import TOMBSTONE_NAMESPACE
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import new_id
from tests.admin.people import staff

pytestmark = pytest.mark.django_db

SECRET = "plantedsecret"
MASK = masking.mask()


@pytest.fixture
def grace(db):
    return staff("grace", "view_session", "read_transcript", "review_session")


@pytest.fixture
def alan(db):
    return staff("alan", "view_session", "read_transcript", "review_session")


@pytest.fixture
def talk(ada):
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.open("talk"))
    store.append_many(agent, [{"role": "user", "content": f"{n} {SECRET}"} for n in range(2)])
    return Session.objects.get()


@pytest.fixture
def message(talk):
    return SessionMessage.objects.get(message_id=0)


def texts() -> list[str]:
    return [str(note.text) for note in Note.objects.order_by("pk")]


def names(message=None) -> list[str]:
    rows = Label.objects.filter(message=message)
    return sorted(rows.values_list("name", flat=True))


def events() -> list[tuple[str, str, dict]]:
    found = AuditEvent.objects.order_by("pk")
    return [(one.action, one.actor, one.details) for one in found]


# --- notes -----------------------------------------------------------------------------------


def test_a_note_is_added_edited_and_deleted_by_its_author(talk, message, grace):
    key = reviews.add_note(talk.pk, " Refund\npromised? ", author=grace, message=message.pk)
    note = Note.objects.get()
    assert (note.pk, note.text, note.message_id) == (key, "Refund\npromised?", message.pk)
    assert (note.author_id, note.author) == (str(grace.pk), "grace")

    reviews.edit_note(talk.pk, key, "No refund.", author=grace)
    assert texts() == ["No refund."]
    assert Note.objects.get().updated_at > note.updated_at

    reviews.delete_note(talk.pk, key, author=grace)
    assert texts() == []
    assert events() == [
        (action, "grace", {"note": str(key)})
        for action in ("note_added", "note_edited", "note_deleted")
    ]
    assert {event.target for event in AuditEvent.objects.all()} == {message.pk}
    assert "refund" not in str(list(AuditEvent.objects.values())).lower()


def test_an_unchanged_note_is_not_recorded(talk, grace):
    key = reviews.add_note(talk.pk, "Same.", author=grace)
    reviews.edit_note(talk.pk, key, "Same.", author=grace)
    assert [action for action, *_ in events()] == ["note_added"]


def test_nobody_changes_the_note_of_another_or_of_another_session(talk, grace, alan, bob):
    key = reviews.add_note(talk.pk, "Hers.", author=grace)
    other = SessionStore(owner=bob).open("other")
    for session, author in ((talk.pk, alan), (talk.pk, None), (other.id, grace)):
        with pytest.raises(TargetNotFoundError):
            reviews.edit_note(session, key, "His.", author=author)
        with pytest.raises(TargetNotFoundError):
            reviews.delete_note(session, key, author=author)
    assert texts() == ["Hers."]


def test_what_is_not_there_is_not_found(talk, message, grace, bob):
    with pytest.raises(SessionNotFoundError):
        reviews.add_note(new_id(), "x", author=grace)
    other = SessionStore(owner=bob).open("other")
    for call in (
        reviews.add_note,
        lambda *given, author, **more: reviews.set_labels(given[0], ["x"], actor=author, **more),
    ):
        with pytest.raises(TargetNotFoundError):
            call(other.id, "x", author=grace, message=message.pk)
    assert (texts(), names()) == ([], [])


def test_notes_have_bounds(talk, grace, monkeypatch):
    for text in ("", " \n", "x" * 4001):
        with pytest.raises(PayloadError, match="note"):
            reviews.add_note(talk.pk, text, author=grace)
    monkeypatch.setattr(reviews, "MAX_NOTES", 1)
    reviews.add_note(talk.pk, "x" * 4000, author=grace)
    with pytest.raises(PayloadError, match="at most 1 note"):
        reviews.add_note(talk.pk, "y", author=grace)


def test_notes_are_masked_before_they_are_stored(talk, grace, settings):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ["email"]}
    key = reviews.add_note(talk.pk, "Ask ada@example.org.", author=grace)
    assert texts() == ["Ask [REDACTED:EMAIL]."]
    reviews.edit_note(talk.pk, key, "Ask bob@example.org.\x00", author=grace)
    assert "bob" not in texts()[0]


def test_a_note_outlives_its_message_and_ends_with_its_session(talk, message, grace):
    reviews.add_note(talk.pk, "Kept.", author=grace, message=message.pk)
    reviews.set_labels(talk.pk, ["a"], actor=grace)
    reviews.set_state(talk.pk, Review.State.OPEN, actor=grace)
    SessionMessage.objects.filter(pk=message.pk).delete()
    assert texts() == ["Kept."]
    talk.delete()
    assert not any(model.objects.exists() for model in (Note, Label, Review))


def test_a_tombstone_has_none_of_it(talk, grace, monkeypatch):
    from django_agent_sessions.models import deletion

    reviews.add_note(talk.pk, SECRET, author=grace)
    reviews.set_labels(talk.pk, ["a"], actor=grace)
    deletion._make_tombstone(Session.objects.filter(pk=talk.pk), talk)
    assert Session.objects.get().namespace == TOMBSTONE_NAMESPACE
    assert not any(model.objects.exists() for model in (Note, Label, Review))


# --- labels ----------------------------------------------------------------------------------


def test_labels_are_replaced_as_a_set_and_recorded_without_their_names(talk, message, grace):
    reviews.set_labels(talk.pk, ["refund", " two   words ", "refund"], actor=grace)
    reviews.set_labels(talk.pk, ["on message"], actor=grace, message=message.pk)
    assert (names(), names(message.pk)) == (["refund", "two words"], ["on message"])

    reviews.set_labels(talk.pk, ["refund", "urgent"], actor=grace)
    reviews.set_labels(talk.pk, ["urgent", "refund"], actor=grace)

    assert (names(), names(message.pk)) == (["refund", "urgent"], ["on message"])
    assert events() == [
        ("labeled", "grace", {"labels_added": 2}),
        ("labeled", "grace", {"labels_added": 1}),
        ("labeled", "grace", {"labels_added": 1, "labels_removed": 1}),
    ]


def test_labels_have_bounds(talk, grace):
    for wrong in (["x" * 51], [" "], [str(number) for number in range(21)]):
        with pytest.raises(PayloadError, match="label"):
            reviews.set_labels(talk.pk, wrong, actor=grace)
    assert names() == []


# --- state and assignee ----------------------------------------------------------------------


def test_a_review_has_a_state_and_an_assignee(talk, grace, alan):
    reviews.set_state(talk.pk, Review.State.OPEN, actor=grace)
    reviews.assign(talk.pk, alan, actor=grace)
    reviews.set_state(talk.pk, Review.State.DONE, actor=alan)
    reviews.set_state(talk.pk, Review.State.DONE, actor=grace)

    review = Review.objects.get()
    assert (review.state, review.assignee_id, review.assignee) == ("done", str(alan.pk), "alan")
    assert (review.updated_by_id, review.updated_by) == (str(alan.pk), "alan")
    reviews.assign(talk.pk, None, actor=grace)
    assert Review.objects.get().assignee_id == ""
    assert events() == [
        ("reviewed", "grace", {"state": "open"}),
        ("reviewed", "grace", {"assignee": "alan", "user_id": str(alan.pk)}),
        ("reviewed", "alan", {"state": "done"}),
        ("reviewed", "grace", {"assignee": "", "user_id": ""}),
    ]


def test_reviewers_are_staff_with_the_permission(grace, alan, ada, django_user_model):
    staff("clerk", "view_session", "read_transcript")
    django_user_model.objects.create_superuser("root")
    django_user_model.objects.filter(pk=alan.pk).update(is_active=False)
    assert reviews.reviewer_names() == ["grace", "root"]


# --- redaction, hold, erasure ----------------------------------------------------------------


def test_a_redaction_of_the_session_reaches_notes_and_names_labels(talk, grace):
    reviews.add_note(talk.pk, f"It said {SECRET}!", author=grace)
    reviews.set_labels(talk.pk, [f"about {SECRET}"], actor=grace)
    done = redact(talk.pk, Find(SECRET), reason="asked")
    assert texts() == [f"It said {MASK}!"]
    assert [(place.kind, place.name) for place in done.kept] == [("label", "")]


def test_a_note_on_a_redacted_message_is_redacted_with_it(talk, message, grace):
    other = SessionMessage.objects.get(message_id=1)
    reviews.add_note(talk.pk, "About this.", author=grace, message=message.pk)
    reviews.add_note(talk.pk, "About that.", author=grace, message=other.pk)
    reviews.add_note(talk.pk, f"{SECRET} in general.", author=grace)
    redact(talk.pk, WholeMessage(message.pk), reason="asked")
    assert texts() == [MASK, "About that.", f"{SECRET} in general."]
    redact(talk.pk, Find(SECRET, message=other.pk), reason="asked")
    assert texts() == [MASK, "About that.", f"{SECRET} in general."]


def test_a_legal_hold_keeps_notes_and_labels_and_forbids_no_new_ones(talk, grace):
    key = reviews.add_note(talk.pk, f"Old {SECRET}.", author=grace)
    reviews.set_labels(talk.pk, ["old"], actor=grace)
    legal_hold.hold(talk.pk, reason="case 1")
    for call in (
        lambda: reviews.edit_note(talk.pk, key, "New.", author=grace),
        lambda: reviews.delete_note(talk.pk, key, author=grace),
        lambda: reviews.set_labels(talk.pk, [], actor=grace),
        lambda: redact(talk.pk, Find(SECRET), reason="asked"),
    ):
        with pytest.raises(LegalHoldError):
            call()
    reviews.add_note(talk.pk, "Another.", author=grace)
    reviews.set_labels(talk.pk, ["old", "new"], actor=grace)
    reviews.set_state(talk.pk, Review.State.DONE, actor=grace)
    assert texts() == [f"Old {SECRET}.", "Another."]
    assert names() == ["new", "old"]


def test_a_fork_has_no_notes(talk, grace):
    reviews.add_note(talk.pk, "Only here.", author=grace)
    reviews.set_labels(talk.pk, ["here"], actor=grace)
    store = SessionStore(owner=talk.owner)
    fork = store.sessions.fork(store.get("talk"))
    for model in (Note, Label, Review):
        assert not model.objects.filter(session=fork.id).exists()


@pytest.mark.django_db(transaction=True)
def test_an_erasure_removes_notes_on_the_person_and_the_name_of_an_author(ada, bob, grace):
    hers = SessionStore(owner=ada).open("hers")
    reviews.add_note(hers.id, SECRET, author=grace)
    theirs = SessionStore(owner=bob).open("theirs")
    reviews.add_note(theirs.id, "Stays.", author=grace)
    reviews.assign(theirs.id, grace, actor=grace)
    erase(ada, reason="Request 31")
    assert texts() == ["Stays."]

    receipt = erase(grace, reason="Request 32")

    note, review = Note.objects.get(), Review.objects.get()
    assert (note.text, note.author_id, note.author) == ("Stays.", receipt.person, receipt.person)
    assert {review.assignee_id, review.updated_by_id} == {receipt.person}
    assert {review.assignee, review.updated_by} == {receipt.person}
    assert "grace" not in str(list(AuditEvent.objects.values()))
    assert receipt.counts["notes"] == 1
    assert verify(receipt.to_json()) == []
    Note.objects.update(author_id=str(grace.pk))
    assert verify(receipt.to_json()) == ["notes of the person are in the database"]
