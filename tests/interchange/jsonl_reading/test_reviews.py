"""Notes, labels and states of reviews in a file: what comes back, and what is invalid."""

from __future__ import annotations

import pytest

from django_agent_sessions import SessionStore
from django_agent_sessions.content import masking
from django_agent_sessions.governance import reviews
from django_agent_sessions.governance.redaction import WholeMessage, redact
from django_agent_sessions.interchange import JsonLines, export_sessions, import_sessions
from django_agent_sessions.models import Label, Note, Review, Session, SessionMessage
from django_agent_sessions.models.permissions import REVIEWING
from tests.admin.people import staff

from .files import changed, export, forget, lines, reasons, write

pytestmark = pytest.mark.django_db

MODELS = (Note, Label, Review)


@pytest.fixture
def reviewed(ada):
    """A session with a note, a label and a state, and a message with a note and a label."""
    store, grace = SessionStore(owner=ada), staff("grace", *REVIEWING)
    said = {"role": "assistant", "content": "It is Lisbon."}
    store.append(store.agents.open(store.open("s")), said)
    message = SessionMessage.objects.get()
    for place in (None, message.pk):
        reviews.add_note(message.session_id, f"About {place}.", author=grace, message=place)
        reviews.set_labels(message.session_id, [f"of {place}"], actor=grace, message=place)
    reviews.assign(message.session_id, grace, actor=grace)
    reviews.set_state(message.session_id, Review.State.IN_REVIEW, actor=grace)
    return message


def stored() -> list[dict]:
    """All rows without the keys of users, who may be others where a file is imported."""
    found: list[dict] = [
        dict(row) for model in MODELS for row in model._base_manager.order_by("pk").values()
    ]
    for row in found:
        for name in ("author_id", "assignee_id", "updated_by_id"):
            row.pop(name, None)
    return found


def test_all_comes_back_but_the_keys_of_users(reviewed, file, ada):
    before = stored()
    export(file)
    forget()
    assert stored() == []

    assert import_sessions(JsonLines(file), owner=ada).skips == 0

    assert stored() == before
    assert {note.author_id for note in Note.objects.all()} == {""}
    # A second import changes nothing.
    assert import_sessions(JsonLines(file), owner=ada).unchanged == 1
    assert stored() == before


def test_a_copy_beside_its_original_has_notes_on_its_own_messages(reviewed, file):
    export(file)

    assert import_sessions(JsonLines(file), namespace="copy").skips == 0

    copy = SessionMessage.objects.get(session__namespace="copy")
    for model in (Note, Label):
        places = model.objects.filter(session=copy.session_id).values_list("message", flat=True)
        assert set(places) == {None, copy.pk}


def test_an_export_without_reviews_has_none(reviewed):
    text = "".join(export_sessions(Session.objects.all(), reviews=False))
    assert not {"reviews", "notes", "labels"} & set(lines(text)[0])
    assert "grace" not in text


def test_a_note_on_a_message_that_was_redacted_here_does_not_come_back(reviewed, file):
    export(file)
    redact(reviewed.session_id, WholeMessage(reviewed.pk), reason="asked")
    forget()

    import_sessions(JsonLines(file))

    on_message = Note.objects.exclude(message=None).get()
    assert on_message.text == masking.mask()


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        ("notes", {"text": "x"}, "its notes is not a list"),
        ("notes.0", 1, "it is not an object"),
        ("notes.0.text", 7, "its text does not have 1 to 4000 characters"),
        ("notes.0.text", " ", "its text does not have 1 to 4000 characters"),
        ("notes.0.text", "x" * 4001, "its text does not have 1 to 4000 characters"),
        ("notes.0.author", ["x"], "its author is not a name"),
        ("notes.0.message", "0190f1f0-0000-7000-8000-000000000000", "its message is not in the"),
        ("notes.0.id", "x", "its id is not a UUID"),
        ("notes.0.created_at", "then", "its created_at is not a time"),
        ("labels.0.name", "x" * 51, "a label must be a text of 1 to 50 characters"),
        ("labels.0.name", None, "its name is not a string"),
        ("reviews.0.state", "closed", "its state is unknown"),
        ("reviews.0.assignee", "x" * 256, "its assignee is not a name"),
    ],
)
def test_what_is_invalid_is_reported_and_the_session_imported(reviewed, file, where, value, says):
    line = lines(export(file))[0]
    forget()

    report = import_sessions(write(file, changed(line, where, value)))

    assert [says in reason for _, reason in reasons(report)] == [True]
    assert Session.objects.count() == 1
