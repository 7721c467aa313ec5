"""What was in the database before there was a storage moves there, and nobody notices."""

from __future__ import annotations

import io
import os

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F

from django_agent_sessions import blobs
from django_agent_sessions.content.exact_json import dumps
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.store import _offload

pytestmark = pytest.mark.django_db(transaction=True)


def offload(*options: str) -> str:
    out = io.StringIO()
    call_command("agent_sessions_offload", *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def conversation(session, store):
    """Two pictures, one of them twice, that were said when there was no storage."""
    agent = store.agents.open(session, "main", dialect="strands")
    one, two = (b"\x89PNG\r\n\x1a\n" + os.urandom(10_000) for _ in range(2))
    store.append_many(
        agent,
        [
            {"role": "user", "content": [{"image": {"source": {"bytes": data}}}, {"text": "word"}]}
            for data in (one, two, one)
        ],
    )
    return agent


def rows() -> list[tuple]:
    return list(
        SessionMessage.objects.order_by("pk").values_list(
            "pk", "revision", "updated_at", "redacted_at", "text"
        )
    )


def test_they_move_and_the_messages_are_what_they_were(conversation, store, stored):
    before, said = rows(), store.payloads(conversation)
    assert offload("--dry-run") == "3 binaries (29.3 KB) of 3 messages would be moved\n"
    assert stored() == []
    assert offload() == "3 binaries (29.3 KB) of 3 messages moved\n"
    assert len(stored()) == 2
    assert (rows(), store.payloads(conversation)) == (before, said)
    assert all(len(dumps(row.message)) < 500 for row in SessionMessage.objects.all())
    assert offload() == "0 binaries (0 bytes) of 0 messages moved\n"


def test_those_of_redacted_messages_move_too(conversation, store, stored, settings, session):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_MIN_BYTES": 10**9}
    redact(session.id, Find("word"), reason="test")
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_MIN_BYTES": 1000}
    said = store.payloads(conversation)
    offload()
    assert len(stored()) == 2
    assert store.payloads(conversation) == said
    row = SessionMessage.objects.first()
    assert row is not None
    assert max(len(dumps(row.message)), len(dumps(row.redact_message))) < 500


def test_without_a_storage_it_says_what_is_missing(conversation):
    with pytest.raises(CommandError, match="BLOB_STORAGE"):
        offload()


def test_a_storage_that_refuses_loses_nothing(
    conversation, store, blob_folder, capsys, monkeypatch
):
    said = store.payloads(conversation)
    blob_folder.write_text("a file where the folder should be")
    with pytest.raises(
        CommandError, match="of 3 messages could not be moved: run the command again"
    ):
        offload()
    assert "could not be stored" in capsys.readouterr().err
    assert store.payloads(conversation) == said
    # It is the storage, and not a message.
    monkeypatch.setattr(_offload, "_MAX_STORAGE_ERRORS", 2)
    with pytest.raises(CommandError, match=r"of 2 messages .* were not tried"):
        offload()


def test_what_is_over_the_limits_of_today_moves_too(conversation, store, stored, settings):
    said = store.payloads(conversation)
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "MAX_BLOB_BYTES": 9_000}
    offload()
    assert store.payloads(conversation) == said
    assert len(stored()) == 2


def test_a_message_that_somebody_changes_all_the_time_stops_no_other(
    conversation, store, stored, settings, monkeypatch, capsys
):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "WRITE_RETRIES": 2}
    said = store.payloads(conversation)
    busy = SessionMessage.objects.get(message_id=1)
    prepare = blobs.Uploads.prepare

    def change(self) -> None:
        SessionMessage.objects.filter(pk=busy.pk).update(revision=F("revision") + 1)
        prepare(self)

    monkeypatch.setattr(blobs.Uploads, "prepare", change)
    with pytest.raises(CommandError, match="binaries of 1 messages could not be moved"):
        offload()
    assert f"message {busy.pk} was not changed" in capsys.readouterr().err
    assert store.payloads(conversation) == said
    # The first and the third are the same picture, and nothing of the second is left over.
    assert len(stored()) == 1
