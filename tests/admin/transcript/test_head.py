"""What the page says of a session as a whole, and where it leads from there."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from django_agent_sessions.models import Session
from tests.admin.people import staff
from tests.admin.transcripts import call, page_url, result, said, shown

pytestmark = pytest.mark.django_db


def test_what_is_special_about_a_session_is_told(client, reader, talker):
    assert "as-flag-" not in shown(client, page_url("session-1"))

    past = timezone.now() - timedelta(days=1)
    Session.objects.update(
        legal_hold=True, redactions=3, archived_at=past, expires_at=past, namespace="shop"
    )

    page = shown(client, page_url("session-1"))
    for label in ("Under legal hold", "Redacted ×3", "Archived", "Expired", "shop"):
        assert label in page


def test_the_day_of_its_deletion_is_told_with_the_rule(client, reader, talker, settings):
    assert "Deleted from" not in shown(client, page_url("session-1"))
    created = datetime(2026, 1, 1, 12, tzinfo=UTC)
    Session.objects.update(created_at=created)

    settings.AGENT_SESSIONS = {"RETENTION": {"SESSIONS": {"*": {"AGE": timedelta(days=90)}}}}
    page = shown(client, page_url("session-1"))
    assert "Deleted from" in page
    assert '<time datetime="2026-04-01T' in page
    assert "(time since it was created: 90 days)" in page

    Session.objects.update(legal_hold=True)
    assert "Deleted from" not in shown(client, page_url("session-1"))

    settings.AGENT_SESSIONS = {"RETENTION": {"SESSIONS": 1}}
    Session.objects.all().update(legal_hold=False, expires_at=created)
    assert "Deleted from" not in shown(client, page_url("session-1"))


def test_how_often_it_was_redacted_counts_no_rewinds(client, reader, talker, store):
    store.append_many(talker, [said("user", text) for text in ("a", "b", "c")])
    store.branches.rewind(talker, 1)

    assert "as-flag-redacted" not in shown(client, page_url("session-1"))

    store.messages.redact(talker, 0, said("user", "[gone]"))
    store.branches.rewind(talker, 0)

    assert "Redacted ×1" in shown(client, page_url("session-1"))


def test_a_way_to_export_is_shown_to_those_who_may(client, reader, talker):
    assert "/export/" not in shown(client, page_url("session-1"))

    client.force_login(staff("exporter", "view_session", "read_transcript", "export"))

    [link] = re.findall(r'href="([^"]*/export/)"', shown(client, page_url("session-1")))
    assert client.get(link).status_code == 200


def test_the_conversations_before_and_after_are_linked(client, reader, store):
    now = timezone.now()
    for number in range(3):
        session = store.open(f"s-{number}")
        Session.objects.filter(pk=session.id).update(last_activity_at=now)
    oldest, _middle, newest = Session.objects.order_by("pk")

    page = shown(client, page_url("s-1"))

    assert re.search(rf'rel="prev"[^>]*{newest.pk}', page)
    assert re.search(rf'rel="next"[^>]*{oldest.pk}', page)
    assert 'rel="prev"' not in shown(client, page_url("s-2"))
    assert 'rel="next"' not in shown(client, page_url("s-0"))


def test_the_figures_count_messages_calls_errors_tokens_and_latency(client, reader, talker, store):
    usage = {"usage": {"inputTokens": 120, "outputTokens": 30}, "metrics": {"latencyMs": 900}}
    talk = 'a text about "toolUse":{ is no call'
    store.append(talker, {**said("assistant", call("1", "a"), call("2", "b")), "metadata": usage})
    store.append(talker, said("user", result("1", talk), result("2", "no", "error")))

    page = shown(client, page_url("session-1"))

    [row] = re.findall(r'<tr><th scope="row">planner</th>(.*?)</tr>', page)
    assert re.findall(r"<td[^>]*>(.*?)</td>", row) == ["2", "2", "1", "120", "30", "900", "900"]
    assert "style=" not in page[page.index("as-root") :]


def test_nothing_leads_to_figures_where_there_are_none(client, reader, store):
    store.open("session-1")
    page = shown(client, page_url("session-1"))

    assert "No messages." in page
    assert "Figures" not in page
