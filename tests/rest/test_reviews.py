"""Notes, labels and reviews through the API: owners never see them, and staff only in exports."""

from __future__ import annotations

import json

import pytest

from django_agent_sessions import SessionStore
from django_agent_sessions.governance import reviews, sharing
from django_agent_sessions.models import Note, Session, SessionMessage
from django_agent_sessions.models.permissions import REVIEWING
from tests.admin.people import staff

pytestmark = pytest.mark.django_db

SECRET = "plantedsecret"


@pytest.fixture
def grace(db):
    return staff("grace", *REVIEWING, "export")


@pytest.fixture
def talk(ada, grace):
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.open("talk"))
    store.append(agent, {"role": "user", "content": f"It is {SECRET}."})
    session, message = Session.objects.get(), SessionMessage.objects.get()
    reviews.add_note(session.pk, f"plantednote: {SECRET}", author=grace, message=message.pk)
    reviews.set_labels(session.pk, [f"plantedlabel {SECRET}"], actor=grace)
    reviews.assign(session.pk, grace, actor=grace)
    return session


def hidden(text: str) -> bool:
    return not any(word in text for word in ("plantednote", "plantedlabel", "grace", '"notes"'))


def content_of(answer) -> str:
    assert answer.status_code == 200
    return (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()


@pytest.mark.parametrize(
    "path",
    [
        "sessions/",
        "sessions/{key}/",
        "sessions/{key}/messages/",
        "sessions/{key}/feedback/",
        "sessions/{key}/export/",
        "sessions/{key}/export/?as=jsonl",
        "sessions/?search=plantednote",
    ],
)
def test_the_owner_sees_nothing_of_a_review(client, talk, ada, path):
    client.force_login(ada)
    answer = client.get(f"/api/{path.format(key=talk.pk)}")
    if answer.status_code != 400:
        assert hidden(content_of(answer))


def test_an_owner_with_the_permission_does_not_export_what_colleagues_wrote(client, grace):
    session = SessionStore(owner=grace).open("hers")
    reviews.add_note(session.id, "plantednote", author=staff("alan"))
    client.force_login(grace)
    text = content_of(client.get(f"/api/sessions/{session.id}/export/?as=jsonl"))
    assert "plantednote" not in text


def test_a_participant_with_the_permission_does_not_export_them_by_any_scope(client, talk, ada):
    clerk = staff("clerk", *REVIEWING, "export")
    sharing.add_participant(talk.pk, clerk, "reader", actor=ada)
    client.force_login(clerk)
    for scope in ("", "&scope=all", "&scope=shared"):
        answer = client.get(f"/api/sessions/{talk.pk}/export/?as=jsonl{scope}")
        text = (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()
        assert hidden(text), scope


@pytest.mark.parametrize("permission", ["review_session", "redact"])
def test_an_export_by_staff_has_them_with_the_permission_only(client, talk, permission):
    clerk = staff("clerk", "view_session", "read_transcript", "export", permission)
    client.force_login(clerk)
    url = f"/api/sessions/{talk.pk}/export/?as=jsonl&scope=all"
    line = json.loads(content_of(client.get(url)))
    assert ("notes" in line, "labels" in line, "reviews" in line) == (
        (permission == "review_session",) * 3
    )


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_redaction_by_the_owner_reaches_notes_and_does_not_tell(client, talk, ada, dry_run):
    client.force_login(ada)
    answer = client.post(
        f"/api/sessions/{talk.pk}/redact/",
        {"find": SECRET, "reason": "asked", "dry_run": dry_run},
        content_type="application/json",
    )
    body = content_of(answer)
    assert hidden(body)
    found = json.loads(body)
    assert {hit["place"]["kind"] for hit in found["hits"]} == {"message"}
    assert (found["messages"], found["states"], found["more_hits"]) == (1, 0, 0)
    assert found["kept"] == []
    assert (SECRET in str(Note.objects.get().text)) == dry_run


def test_a_preview_by_a_reviewer_shows_the_words_of_notes(client, talk):
    client.force_login(staff("clerk", *REVIEWING, "redact"))
    answer = client.post(
        f"/api/sessions/{talk.pk}/redact/?scope=all",
        {"find": SECRET, "dry_run": True},
        content_type="application/json",
    )
    found = json.loads(content_of(answer))
    assert {hit["place"]["kind"] for hit in found["hits"]} == {"message", "note"}
    assert [place["kind"] for place in found["kept"]] == ["label"]
