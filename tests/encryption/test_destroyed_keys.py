"""A session whose data key was destroyed, as in a restored backup, stops nothing else."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from django_agent_sessions.exceptions import DestroyedKeyError
from django_agent_sessions.governance import legal_hold, reviews, sharing
from django_agent_sessions.governance.redaction import redact
from django_agent_sessions.interchange.jsonl_import import JsonLines
from django_agent_sessions.interchange.sources import Skipped
from django_agent_sessions.models import (
    AuditEvent,
    DataKey,
    Label,
    Note,
    Participant,
    Review,
    Session,
    SessionMessage,
    ShareLink,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.timeline import Timeline
from django_agent_sessions.values.records import AgentState
from tests.blobs.conftest import blob_folder  # noqa: F401 - a fixture
from tests.encryption.test_broken_places import stored
from tests.encryption.test_files import picture
from tests.integrity.conftest import impatient
from tests.integrity.running import check

__all__ = ["impatient"]

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = ("", "history", "messages", "export", "redact", "branches", "snapshots", "sharing")


@pytest.fixture
def encrypted(encrypt):
    return encrypt(METADATA=True)


@pytest.fixture
def gone(blob_folder, encrypted, ada, bob) -> Session:  # noqa: F811 - a fixture
    """A session of Ada's whose key was destroyed, before one of Bob's."""
    for owner, name in ((ada, "gone"), (bob, "kept")):
        mine = SessionStore(owner=owner)
        session = mine.open(name, title=f"title of {name}", metadata={"note": name})
        agent = mine.agents.open(session, "a", dialect="strands", data=AgentState({"n": name}))
        mine.append_many(agent, [{"role": "user", "content": [{"text": name}]}, picture(200_000)])
        mine.snapshots.take(agent)
        mine.multi_agents.create(session, "g", {"n": name})
        (message, _) = mine.messages.list(agent)
        mine.feedback.save(message.id, 1, comment=name)
        SnapshotStorageStore(mine).write_object(name, b"object")
    DataKey.objects.filter(owner=str(ada.pk)).delete()
    encrypted.forget()
    return Session.objects.only("pk").get(session_id="gone")


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=out)
    return out.getvalue()


@pytest.mark.parametrize("options", [(), ("--fix",), ("--blobs",)])
def test_the_check_names_the_session_and_checks_the_others(gone, options):
    Session.objects.filter(session_id="kept").update(message_count=9)

    found, summary = check(*options)

    destroyed = [each["session"] for each in found if each["code"] == "key-destroyed"]
    assert destroyed == [str(gone.pk)]
    assert not {"corrupt", "corrupt-state", "neutral-columns"} & {each["code"] for each in found}
    (counters,) = (each for each in found if each["code"] == "counters")
    assert counters["session"] != str(gone.pk)
    assert counters["mended"] is ("--fix" in options)
    assert (summary["sessions"], summary["messages"]) == (2, 4)


@pytest.mark.parametrize("action", ["encrypt", "rotate", "decrypt"])
def test_the_command_counts_what_is_lost_and_goes_on(gone, encrypt, action):
    (lost, kept) = stored(SessionMessage, "message")[::2]
    if action == "decrypt":
        encrypt(METADATA=True, DECRYPT_ONLY=True)

    out = run("agent_sessions_encrypt", action)

    assert ("rows left as they are: their data keys were destroyed" in out) is True
    after = stored(SessionMessage, "message")[::2]
    assert after[0] == lost
    assert (after[1] == kept) is (action == "encrypt")
    assert after[1].startswith("{") is (action == "decrypt")
    assert SessionStore(owner=Session.objects.get(session_id="kept").owner).get("kept").title


def test_the_exports_write_the_others_and_name_it(gone, tmp_path):
    for form, place in (("jsonl", tmp_path / "all.jsonl"), ("markdown", tmp_path / "md")):
        out = io.StringIO()
        with pytest.raises(CommandError, match="1 item could not be written"):
            call_command(
                "agent_sessions_export", form, str(place), everybody=True, reason="x", stderr=out
            )
        assert "session 'gone': data key" in out.getvalue()
        assert "1 session exported" in out.getvalue()
    (line,) = Path(tmp_path / "all.jsonl").read_text().splitlines()
    assert json.loads(line)["session"]["session_id"] == "kept"
    assert len(list((tmp_path / "md").iterdir())) == 1


def test_the_export_of_a_person_has_the_rest_and_names_what_is_lost(gone, ada, tmp_path):
    path = tmp_path / "ada.zip"
    with pytest.raises(CommandError):
        run("agent_sessions_export_person", str(path), "--owner", ada.username, "--reason", "x")

    with zipfile.ZipFile(path) as archive:
        problems = archive.read("problems.txt").decode()
        assert f"sessions/{gone.pk}/session.jsonl is incomplete: data key" in problems
        assert json.loads(archive.read("manifest.json"))["counts"]["sessions"] == 1


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_that_the_key_was_destroyed(gone, admin_client, page):
    url = reverse("admin:agent_sessions_session_change", args=[gone.pk])

    answer = admin_client.get(url.replace("change/", f"{page}/") if page else url)

    assert answer.status_code == 410
    assert "its data key was destroyed" in answer.content.decode()


def test_it_is_listed_exported_by_others_and_can_be_deleted(gone, admin_client):
    url = reverse("admin:agent_sessions_session_changelist")
    page = admin_client.get(url).content.decode()
    assert "gone" in page
    assert "title of kept" in page
    action: dict[str, Any] = {"action": "export_jsonl", "_selected_action": [str(gone.pk)]}
    assert admin_client.post(url, action).status_code == 410

    deleted = admin_client.post(
        reverse("admin:agent_sessions_session_delete", args=[gone.pk]), {"post": "yes"}
    )

    assert deleted.status_code == 302
    assert [session.session_id for session in Session.objects.all()] == ["kept"]


def test_an_export_of_several_has_the_others_and_says_what_is_missing(gone, admin_client, tmp_path):
    url = reverse("admin:agent_sessions_session_changelist")
    kept = Session.objects.only("pk").get(session_id="kept")

    def export(form: str) -> bytes:
        chosen = [str(gone.pk), str(kept.pk)]
        data: dict[str, Any] = {"action": f"export_{form}", "_selected_action": chosen}
        answer = admin_client.post(url, data)
        assert answer.status_code == 200
        return b"".join(answer.streaming_content)

    lines = export("jsonl")
    session, problems = map(json.loads, lines.splitlines())
    assert session["session"]["session_id"] == "kept"
    (problem,) = problems["problems"]
    assert (problem["session"], problem["session_id"]) == (str(gone.pk), "gone")
    assert "data key" in problem["problem"]

    with zipfile.ZipFile(io.BytesIO(export("markdown"))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [f"kept_{kept.pk}.md", "problems.txt"]
        assert f"session 'gone' ({gone.pk}): data key" in archive.read("problems.txt").decode()
    events = AuditEvent.objects.filter(action=AuditEvent.Action.EXPORTED)
    assert [event.session for event in events] == [kept.pk, kept.pk]

    path = tmp_path / "all.jsonl"
    path.write_bytes(lines)
    skipped = [found for found in JsonLines(path).sessions() if isinstance(found, Skipped)]
    assert [(each.place, each.error) for each in skipped] == [("line 2", True)]


def test_the_store_deletes_it(gone, ada):
    assert SessionStore(owner=ada).delete("gone") is True

    assert [session.session_id for session in Session.objects.all()] == ["kept"]


def test_a_page_says_that_a_master_key_is_missing(gone, encrypt, admin_client):
    encrypt(KEYS={"two": bytes(range(1, 33))})
    kept = Session.objects.only("pk").get(session_id="kept")

    answer = admin_client.get(reverse("admin:agent_sessions_session_change", args=[kept.pk]))

    assert answer.status_code == 503
    assert "The log has the reason." in answer.content.decode()


@pytest.fixture
def api(ada) -> APIClient:
    client = APIClient()
    client.force_authenticate(ada)
    return client


@pytest.mark.parametrize("path", ["", "messages/", "feedback/", "export/"])
def test_the_api_says_that_the_key_was_destroyed(gone, api, path):
    answer = api.get(f"/api/sessions/{gone.pk}/{path}")

    assert answer.status_code == 410
    assert answer.json()["code"] == "key_destroyed"
    assert "its data key was destroyed" in answer.json()["detail"]
    assert "can still be deleted" in answer.json()["detail"]
    assert "Retry-After" not in answer.headers


def test_the_api_says_that_a_master_key_is_missing_for_now(gone, encrypt, bob):
    encrypt(KEYS={"two": bytes(range(1, 33))})
    kept = Session.objects.only("pk").get(session_id="kept")
    client = APIClient()
    client.force_authenticate(bob)

    answer = client.get(f"/api/sessions/{kept.pk}/")

    assert answer.status_code == 503
    assert answer.json()["code"] == "not_decryptable"


def test_a_change_that_the_api_cannot_show_changes_nothing(gone, api):
    answer = api.patch(f"/api/sessions/{gone.pk}/", {"archived": True}, format="json")

    assert answer.status_code == 410
    assert Session.objects.filter(archived_at=None, pk=gone.pk).exists()


def test_the_api_lists_shares_and_deletes_it(gone, api, bob):
    session = f"/api/sessions/{gone.pk}/"
    assert len(api.get("/api/sessions/").json()["results"]) == 1
    for path in ("agents/", "multi-agents/", "participants/", "links/"):
        assert api.get(session + path).status_code == 200
    added = {"user": str(bob.pk), "role": "reader"}
    assert api.post(f"{session}participants/", added, format="json").status_code == 200

    assert api.delete(session).status_code == 204

    assert not Session.objects.filter(pk=gone.pk).exists()


@pytest.mark.parametrize("named", ["key", "id"])
def test_it_can_be_shared(gone, ada, bob, settings, named):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "SHARE_LINKS": True}
    session: Any = gone.pk if named == "key" else "gone"

    sharing.add_participant(session, bob, "writer", actor=ada)
    sharing.add_participant(session, bob, "reader", actor=ada)
    link, _ = sharing.create_link(session, timedelta(hours=1), actor=ada)

    assert Participant.objects.get(session=gone.pk).role == "reader"
    assert sharing.owner_for(bob, session, write=False) == ada.pk
    assert sharing.revoke_link(session, link.pk, actor=ada) is True
    assert ShareLink.objects.get(pk=link.pk).revoked_at is not None
    assert sharing.remove_participant(session, bob, actor=ada) is True
    assert not Participant.objects.filter(session=gone.pk).exists()


def test_it_can_be_reviewed(gone, encrypted, ada, bob):
    lost = Note.objects.create(session_id=gone.pk, text="lost", author_id=str(bob.pk))
    DataKey.objects.filter(owner=str(ada.pk)).delete()
    encrypted.forget()

    reviews.set_labels(gone.pk, ["lost"], actor=bob)
    reviews.set_state(gone.pk, Review.State.DONE, actor=bob)
    reviews.assign(gone.pk, None, actor=bob)
    note = reviews.add_note(gone.pk, "its key was destroyed", author=bob)
    reviews.edit_note(gone.pk, note, "the key was destroyed", author=bob)
    with pytest.raises(DestroyedKeyError):
        reviews.edit_note(gone.pk, lost.pk, "new", author=bob)
    reviews.delete_note(gone.pk, lost.pk, author=bob)

    assert Label.objects.get(session=gone.pk).name == "lost"
    assert Review.objects.get(session=gone.pk).state == Review.State.DONE
    assert Note.objects.get(session=gone.pk).text == "the key was destroyed"


def test_it_can_be_held_archived_and_given_an_expiry(gone, ada, bob):
    store = SessionStore(owner=ada)
    moment = timezone.now() + timedelta(days=1)

    assert legal_hold.hold(gone.pk, reason="x", actor=bob)
    updated = store.sessions.update("gone", archived=True, expires_at=moment)
    assert legal_hold.release(gone.pk, reason="x", actor=bob)

    assert (updated.session_id, updated.expires_at) == ("gone", moment)
    assert updated.archived_at is not None
    for name in ("title", "metadata"):
        with pytest.raises(DestroyedKeyError):
            getattr(updated, name)
    stored = Session.objects.only("archived_at", "expires_at").get(pk=gone.pk)
    assert (stored.archived_at, stored.expires_at) == (updated.archived_at, moment)


def test_it_can_get_another_title(gone, ada, bob):
    store = SessionStore(owner=ada)

    assert store.sessions.update("gone", title="lost").title == "lost"
    assert Session.objects.only("title").get(pk=gone.pk).title == "lost"

    whole = store.sessions.update("gone", metadata={"is": "lost"}, title="once more")
    assert (whole.title, whole.metadata) == ("once more", {"is": "lost"})
    assert store.get("gone").metadata == {"is": "lost"}


def test_under_legal_hold_a_title_that_nobody_can_read_stays(gone, ada):
    legal_hold.hold(gone.pk, reason="x", actor=ada)

    with pytest.raises(DestroyedKeyError):
        SessionStore(owner=ada).sessions.update("gone", title="new")

    with pytest.raises(DestroyedKeyError):
        Session.objects.get(pk=gone.pk)


def test_it_can_get_another_owner(gone, bob):
    row = Session.objects.defer("title", "metadata").get(pk=gone.pk)
    row.owner = bob
    row.save(update_fields=["owner"])

    assert SessionStore(owner=bob).delete("gone") is True


def test_what_needs_its_content_says_so(gone, ada):
    store, timeline = SessionStore(owner=ada), Timeline(gone.pk, ada, "default")
    steps: list[Callable[[], Any]] = [
        lambda: store.get("gone"),
        lambda: store.sessions.fork("gone"),
        timeline.fork,
        lambda: redact(gone.pk, "words", reason="x", actor=ada),
    ]
    for step in steps:
        with pytest.raises(DestroyedKeyError, match="was destroyed with the data of its owner"):
            step()
