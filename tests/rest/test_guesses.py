"""A redaction tests no guess about what its user may not see, and masks no word of it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from django_agent_sessions import audit
from django_agent_sessions.events.reading import current_cursor
from django_agent_sessions.governance import legal_hold, reviews
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import (
    AuditEvent,
    MessageFeedback,
    Note,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.operations import run, start
from django_agent_sessions.store.contents import walk
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.records import AgentState
from tests.admin.people import staff
from tests.operations.making import officer

from .conftest import Talk, client_of

pytestmark = pytest.mark.django_db

GUESS, WRONG = "Quartzowl", "Hushfield"


class Planted(Talk):
    """A conversation with a word in all that its owner does not see."""

    def __init__(self, owner: Any) -> None:
        super().__init__(owner, "Where to?", "To Lisbon.")
        self.message = SessionMessage.objects.get(message_id=1)
        self.store.agents.update(self.agent, AgentState(state={"name": GUESS}))
        self.store.multi_agents.create(self.session, "graph", {"name": GUESS}, kind="graph")
        self.store.snapshots.take(self.agent)
        objects = SnapshotStorageStore(self.store)
        objects.write_object("notes", f"about {GUESS}".encode(), session=self.session)
        reviewer = staff("reviewer", "view_session", "read_transcript", "review_session")
        row = Session.objects.get()
        reviews.add_note(row.pk, f"This is {GUESS}.", author=reviewer)
        reviews.add_note(row.pk, f"And {GUESS}.", author=reviewer, message=self.message.pk)
        reviews.set_labels(row.pk, [GUESS], actor=reviewer)
        self.store.feedback.save(
            self.message.pk, -1, comment=f"Rude to {GUESS}", source="review", user=reviewer
        )
        audit.record(AuditEvent.Action.READ, session=row.pk, reason=f"asked by {GUESS}")


@pytest.fixture
def planted(ada) -> Planted:
    return Planted(ada)


def hidden_rows() -> list[Any]:
    """Return all content except that of messages, and the reasons of events."""
    copies = walk("default", Session.objects.get())
    contents = [
        (copy.columns.kind, copy.values)
        for copy in copies
        if not isinstance(copy.row, Session | SessionMessage)
    ]
    reasons = list(AuditEvent.objects.filter(action="read").values_list("reason", flat=True))
    return [*contents, reasons]


def without_states() -> None:
    """Leave the notes: the admin shows states and comments to all who may read."""
    for model in (Snapshot, StoredObject, SessionMultiAgent):
        model._default_manager.all().delete()
    SessionAgent.objects.update(state={})
    MessageFeedback.objects.update(comment="")


def seen_by_the_owner(client: Any, url: str) -> Any:
    session = client.get(url).json()
    return {**session, "cursor": str(current_cursor(Session.objects.get()))}


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("in_message", [False, True])
def test_a_right_guess_is_answered_as_a_wrong_one(ada, planted, is_held, dry_run, in_message):
    if is_held:
        legal_hold.hold(planted.session.id, reason="A lawsuit")
    client, before = client_of(ada), hidden_rows()
    url = f"/api/messages/{planted.message.pk}/" if in_message else planted.url
    answers = []
    for word in (WRONG, GUESS):
        shown = seen_by_the_owner(client, planted.url)
        asked = {"find": word, "reason": "asked", "dry_run": dry_run}
        answer = client.post(f"{url}redact/", asked, format="json")
        answers.append((answer.status_code, answer.json()))
        assert seen_by_the_owner(client, planted.url) == shown

    assert answers[0] == answers[1]
    assert answers[0][0] == 200
    assert answers[0][1]["hidden"] == ["state", "note", "comment"]
    assert hidden_rows() == before


def test_what_the_owner_redacts_in_the_conversation_also_goes_from_what_is_hidden(ada, planted):
    client = client_of(ada)
    planted.say({"role": "user", "content": [{"text": f"I am {GUESS}, and {WRONG}"}]})
    asked = {"reason": "asked"}

    wrong = client.post(f"{planted.url}redact/", {"find": WRONG, **asked}, format="json").json()
    right = client.post(f"{planted.url}redact/", {"find": GUESS, **asked}, format="json").json()

    assert (right.pop("redactions"), wrong.pop("redactions")) == (2, 1)
    # The same places, though one of the words is in hidden ones, too.
    assert [right.pop("hits")[0]["place"]] == [wrong.pop("hits")[0]["place"]]
    assert right == wrong
    assert GUESS not in str(hidden_rows())
    assert "[REDACTED]" in str(Note.objects.first().text)  # type: ignore[union-attr] # there are


def test_a_whole_message_leaves_what_others_say_about_it_unless_they_repeat_it(ada, planted):
    MessageFeedback.objects.update(comment=f"Rude to {GUESS}. To Lisbon.")
    url = f"/api/messages/{planted.message.pk}/"

    client_of(ada).post(f"{url}redact/", {"reason": "asked"}, format="json")

    assert MessageFeedback.objects.get().comment == f"Rude to {GUESS}. [REDACTED]"
    assert GUESS in str(list(Note.objects.values_list("text", flat=True)))


def test_under_a_legal_hold_a_refusal_tells_nothing_of_what_is_hidden(ada, planted):
    client, before = client_of(ada), hidden_rows()
    legal_hold.hold(planted.session.id, reason="A lawsuit")

    for word in (WRONG, GUESS):
        asked = {"find": word, "reason": "asked"}
        answer = client.post(f"{planted.url}redact/", asked, format="json")
        assert (answer.status_code, answer.json()["messages"]) == (200, 0)
    planted.say({"role": "user", "content": [{"text": f"I am {GUESS}"}]})
    asked = {"find": GUESS, "reason": "asked"}
    assert client.post(f"{planted.url}redact/", asked, format="json").status_code == 409
    assert hidden_rows()[:-1] == before[:-1]


@pytest.mark.parametrize("word", [WRONG, GUESS])
def test_staff_who_may_not_review_learn_nothing_of_notes(client: Client, planted, word):
    client.force_login(staff("clerk", "view_session", "read_transcript", "redact"))
    without_states()
    url = reverse("admin:agent_sessions_session_redact", args=[planted.session.id])

    found = client.post(url, {"what": "text", "text": word, "where": "session"}).context

    assert (found["preview"]["total"], found["preview"]["kept"]) == (0, [])


def test_an_operation_of_staff_who_may_not_review_leaves_notes(planted):
    clerk = officer("clerk", "view_session", "read_transcript", "redact")
    without_states()
    operation = start(
        "redact",
        user=clerk,
        criteria={"site": "admin", "filters": {}},
        reason="asked",
        scope=Find(GUESS),
    )
    done = run(operation.pk)

    assert done is not None
    assert (done.done, done.unchanged) == (0, 1)
    assert GUESS in str(list(Note.objects.values_list("text", flat=True)))


def test_a_review_is_in_no_event_id(ada, planted):
    client, row = client_of(ada), Session.objects.get()
    reviewer = staff("other", "view_session", "read_transcript", "review_session")
    shown = seen_by_the_owner(client, planted.url)

    note = reviews.add_note(row.pk, "Strange", author=reviewer)
    reviews.edit_note(row.pk, note, "Very strange", author=reviewer)
    reviews.set_labels(row.pk, ["strange"], actor=reviewer)
    reviews.assign(row.pk, reviewer, actor=reviewer)
    redact(row.pk, Find("strange"), reason="asked", actor=reviewer)
    reviews.delete_note(row.pk, note, author=reviewer)

    assert seen_by_the_owner(client, planted.url) == shown
