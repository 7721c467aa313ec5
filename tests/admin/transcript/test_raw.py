"""What is stored is given as plain text or as a download, however odd or large it is."""

from __future__ import annotations

import json
import re

import pytest

from django_agent_sessions.models import AuditEvent
from tests.admin.transcripts import page_url, said, shown
from tests.models.test_fields import set_raw

from .parts import endpoint

pytestmark = pytest.mark.django_db


def test_a_corrupt_text_can_be_shown_whole(client, reader, talker, store):
    store.append(talker, said("user", "x"))
    set_raw(0, '{"half": "' + "y" * 30_000 + " the end")

    page = shown(client, page_url("session-1"))
    [link] = re.findall(r'href="([^"]*/text/\?path=[^"]*)"', page)

    assert "the end" not in page
    assert client.get(link).content.endswith(b" the end")
    assert client.get(endpoint("raw")).content.endswith(b" the end")


def test_raw_json_is_plain_text_and_its_download_is_what_is_stored(client, reader, talker, store):
    store.append(talker, said("user", "<script>alert(1)</script> \ud800 \x00"))

    raw, download = client.get(endpoint("raw")), client.get(endpoint("raw"), {"download": 1})

    assert raw["Content-Type"] == "text/plain; charset=utf-8"
    assert raw["X-Content-Type-Options"] == "nosniff"
    assert '\n  "content": [' in raw.content.decode()
    assert download["Content-Type"] == "application/json"
    assert download["Content-Disposition"].startswith("attachment")
    assert json.loads(download.content)["content"][0]["text"].endswith("\ud800 \x00")
    pages = [event.details["page"] for event in AuditEvent.objects.order_by("id")]
    assert pages == ["raw", "download"]


def test_of_a_large_payload_only_the_beginning_is_shown(client, reader, talker, store):
    store.append(talker, said("user", "word " * 1_000_000))

    raw, download = client.get(endpoint("raw")), client.get(endpoint("raw"), {"download": 1})

    assert len(raw.content) < 250_000
    assert b"Download it to see the rest" in raw.content
    assert len(download.content) > 5_000_000
