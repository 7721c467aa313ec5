"""An original is shown for a reason alone, to who may, as long as it is kept."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from django_agent_sessions.models import AuditEvent, SessionMessage
from tests.admin.people import staff
from tests.admin.transcripts import page_url, said, shown
from tests.sealed import update_content

from .parts import KEPT, PNG, endpoint, image, media, redact

pytestmark = pytest.mark.django_db


def test_the_redacted_version_is_what_every_endpoint_gives(client, reader, talker, store, settings):
    settings.AGENT_SESSIONS = KEPT
    store.append(talker, said("user", "the secret", image(PNG)))
    redacted = said("user", "[REDACTED]", "[REDACTED]")
    redaction = {"redact_message": redacted}
    update_content(SessionMessage.objects.all(), redaction, redacted_at=timezone.now(), text="")

    assert media(client, "content", 1).status_code == 404
    assert client.get(endpoint("text"), {"path": '["content",0]'}).content == b"[REDACTED]"
    for query in ({}, {"download": 1}):
        raw = client.get(endpoint("raw"), query).content.decode()
        assert json.loads(raw) == redacted
    assert "the secret" not in shown(client, page_url("session-1"))


def test_an_original_is_shown_to_a_reason_and_recorded_before(
    client, talker, store, redaction, settings
):
    settings.AGENT_SESSIONS = KEPT
    user = staff("auditor", "view_session", "read_transcript", "view_original")
    client.force_login(user)
    store.append(talker, said("user", "the secret", image(PNG)))
    redact(0, redaction, said("user", "[REDACTED]"))

    page = shown(client, page_url("session-1"))
    assert endpoint("original") in page
    assert "the secret" not in page
    asked = client.get(endpoint("original"), {"reason": "because"})
    assert asked.status_code == 200
    assert "the secret" not in asked.content.decode()
    for reason in ("", "  x  "):
        refused = client.post(endpoint("original"), {"reason": reason}).content.decode()
        assert "the secret" not in refused
        assert "Enter a short reason" in refused
    viewed = AuditEvent.objects.filter(action=AuditEvent.Action.ORIGINAL_VIEWED)
    assert not viewed.exists()

    answer = client.post(endpoint("original"), {"reason": "case 7 <b>"})

    assert "the secret" in answer.content.decode()
    assert "<img" not in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    event = viewed.get()
    assert (event.actor, event.target) == ("auditor", SessionMessage.objects.get().pk)
    assert event.reason == "case 7 <b>"


def test_no_original_is_shown_that_is_not_kept_or_not_any_longer(
    client, talker, store, redaction, settings
):
    settings.AGENT_SESSIONS = KEPT
    client.force_login(staff("auditor", "view_session", "read_transcript", "view_original"))
    store.append(talker, said("user", "never redacted"))
    assert client.post(endpoint("original"), {"reason": "because"}).status_code == 404

    masked = said("user", "[REDACTED]")
    redact(0, redaction, masked, message=masked)
    assert client.post(endpoint("original"), {"reason": "because"}).status_code == 404
    assert endpoint("original") not in shown(client, page_url("session-1"))

    redact(0, redaction, masked, message=said("user", "the secret"))
    assert client.post(endpoint("original"), {"reason": "because"}).status_code == 200
    SessionMessage.objects.update(redacted_at=timezone.now() - timedelta(seconds=3601))
    assert client.post(endpoint("original"), {"reason": "because"}).status_code == 404
    assert endpoint("original") not in shown(client, page_url("session-1"))


def test_an_original_takes_its_permission(client, reader, talker, store, redaction, settings):
    settings.AGENT_SESSIONS = KEPT
    store.append(talker, said("user", "the secret"))
    redact(0, redaction, said("user", "[REDACTED]"))

    assert client.post(endpoint("original"), {"reason": "because"}).status_code == 404
    assert endpoint("original") not in shown(client, page_url("session-1"))
