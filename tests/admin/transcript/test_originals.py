"""An original that an earlier version left beside its mask is shown by nothing."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from django_agent_sessions.models import SessionMessage
from tests.admin.transcripts import page_url, said, shown
from tests.sealed import update_content

from .parts import PNG, endpoint, image, media

pytestmark = pytest.mark.django_db


def test_the_redacted_version_is_what_every_endpoint_gives(client, reader, talker, store):
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
