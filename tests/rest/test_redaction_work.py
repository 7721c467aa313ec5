"""A redaction through the API has a budget: an owner's is small, and what to do instead is said."""

from __future__ import annotations

import pytest

from django_agent_sessions.models import AuditEvent, SessionMessage
from tests.admin.people import staff

from .conftest import client_of
from .test_redacting import post

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("limit", [{"REDACTION_SECONDS": 1e-9}, {"REDACTION_BYTES": 10}])
def test_a_search_beyond_the_budget_answers_422_and_changes_nothing(
    trip, api, settings, dry_run, limit
):
    settings.AGENT_SESSIONS = {**getattr(settings, "AGENT_SESSIONS", {}), **limit}
    before = list(SessionMessage.objects.values())

    answer = post(api, trip.url, find="Lisbon", dry_run=dry_run, reason="a ticket")

    assert (answer.status_code, answer.json()["code"]) == (422, "too_much_work")
    assert "agent_sessions_redact" in answer.json()["detail"]
    assert list(SessionMessage.objects.values()) == before
    assert not AuditEvent.objects.filter(action=AuditEvent.Action.REDACTED).exists()


def test_the_budget_includes_the_record_of_the_forks(trip, settings):
    for _ in range(3):
        trip.store.sessions.fork(trip.session)
    boss = client_of(staff("boss", "view_session", "read_transcript", "redact"))
    settings.AGENT_SESSIONS = {
        **getattr(settings, "AGENT_SESSIONS", {}),
        "REDACTION_SECONDS": 1e-9,
    }

    given = {"find": "Lisbon", "reason": "a ticket"}
    answer = boss.post(f"{trip.url}redact/?scope=all", given, format="json")

    assert (answer.status_code, answer.json()["code"]) == (422, "too_much_work")
    # Nothing was searched.
    assert not AuditEvent.objects.exists()


def test_no_detector_is_named_twice(trip, api):
    answer = post(api, trip.url, detectors=["api_key"] * 100, dry_run=True)

    assert answer.status_code == 400
    assert answer.json()["errors"] == {"detectors": ["Name each detector once."]}


def test_a_letter_is_not_searched(trip, api):
    for find in ("a", " a "):
        answer = post(api, trip.url, find=find, dry_run=True)
        assert answer.status_code == 400


def test_a_thousand_hits_are_listed_and_all_are_counted(trip, api):
    trip.say({"role": "user", "content": [{"text": "ab" * 1500}]})

    answer = post(api, trip.url, find="abab", dry_run=True).json()

    assert len(answer["hits"]) + answer["more_hits"] == 750
    assert len(answer["hits"]) == 750
    trip.say({"role": "user", "content": [{"text": "ab" * 1500}]})
    answer = post(api, trip.url, find="abab", dry_run=True).json()
    assert (len(answer["hits"]), answer["more_hits"], answer["messages"]) == (1000, 500, 2)
