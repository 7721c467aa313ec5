"""An open page asks for new messages; each request asks for the permission, and shows no more."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_agent_sessions.models import AuditEvent, RunLease, Session, SessionMessage
from tests.admin.transcripts import fragment_url, page_url, said, shown

pytestmark = pytest.mark.django_db


def test_new_messages_are_shown_and_recorded_and_their_absence_is_not(
    client, reader, talker, store
):
    store.append(talker, said("user", "an old message"))
    last = SessionMessage.objects.get().pk

    nothing = shown(client, fragment_url("session-1"), after=last)
    assert "data-as-entry" not in nothing
    assert not AuditEvent.objects.exists()

    store.append(talker, said("assistant", "a new message"))
    fresh = shown(client, fragment_url("session-1"), after=last)
    assert "a new message" in fresh
    assert "an old message" not in fresh
    assert AuditEvent.objects.get().details["messages"] == 1


def test_a_request_without_news_takes_few_statements(client, reader, talker, store):
    store.append(talker, said("user", "words"))
    last = SessionMessage.objects.get().pk
    shown(client, fragment_url("session-1"), after=last)

    with CaptureQueriesContext(connection) as captured:
        shown(client, fragment_url("session-1"), after=last)

    assert len(captured) <= 7


def test_whoever_loses_the_permission_sees_no_further_message(client, reader, talker, store):
    store.append(talker, said("user", "words"))
    assert client.get(fragment_url("session-1")).status_code == 200

    reader.user_permissions.clear()

    assert client.get(fragment_url("session-1")).status_code == 404


def test_only_the_end_of_a_recent_conversation_is_watched(client, reader, talker, store):
    store.append_many(talker, [said("user", f"{number}") for number in range(60)])
    url = page_url("session-1")
    assert "data-as-live" in shown(client, url)
    assert "data-as-live" not in shown(client, url, **{"from": "start"})

    Session.objects.update(last_activity_at=timezone.now() - timedelta(days=1))
    assert "data-as-live" not in shown(client, url)
    assert "data-as-running" not in shown(client, url)

    expiry = timezone.now() + timedelta(minutes=1)
    RunLease.objects.create(session_id=talker.session, expires_at=expiry)
    assert "data-as-live" in shown(client, url)
    assert "data-as-running" in shown(client, fragment_url("session-1"))


def test_a_page_learns_of_a_redaction(client, reader, talker, store):
    store.append(talker, said("user", "a secret"))
    assert 'data-as-epoch="0"' in shown(client, page_url("session-1"))

    store.messages.redact(talker, 0, said("user", "[gone]"))

    assert 'data-as-epoch="1"' in shown(client, fragment_url("session-1"))
