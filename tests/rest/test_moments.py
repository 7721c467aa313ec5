"""Moments in requests, whatever time zone the server keeps and however it keeps moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

from django_agent_sessions.models import Session

from .conftest import client_of

pytestmark = pytest.mark.django_db

SESSIONS = "/api/sessions/"
ZONES = ("UTC", "America/New_York", "Asia/Tokyo")
NOT_ONE = (
    "9999-12-31T23:59:59",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
    "0001-01-01T00:00:00",
    "0001-01-01T00:00:00Z",
    "2027-01-02T03:04:05",
    "2027-01-02",
    "2027-02-30T00:00:00Z",
    "soon",
    "",
    1798862645,
    True,
    ["2027-01-02T03:04:05Z"],
)


@pytest.fixture
def url(api) -> str:
    return f"{SESSIONS}{api.post(SESSIONS, {}, format='json').json()['id']}/"


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("given", NOT_ONE)
def test_what_is_no_moment_everywhere_is_refused_and_the_answer_shows_one(api, url, zone, given):
    with override_settings(TIME_ZONE=zone):
        answer = api.patch(url, {"expires_at": given}, format="json")
        assert answer.status_code == 400, answer.content
        assert "2026-01-02T03:04:05Z" in answer.json()["errors"]["expires_at"][0]
        assert api.get(url).json()["expires_at"] is None


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("2027-07-01T12:00:00Z", "2027-07-01T12:00:00.000Z"),
        ("2027-01-01T12:00:00.25+05:30", "2027-01-01T06:30:00.250Z"),
        ("0002-01-01T00:00:00Z", "0002-01-01T00:00:00.000Z"),
        ("9998-12-31T23:59:59Z", "9998-12-31T23:59:59.000Z"),
    ],
)
def test_a_moment_comes_back_as_it_was_given(api, url, zone, use_tz, given, shown):
    with override_settings(TIME_ZONE=zone, USE_TZ=use_tz):
        answer = api.patch(url, {"expires_at": given}, format="json")
        assert answer.status_code == 200, answer.content
        assert answer.json()["expires_at"] == api.get(url).json()["expires_at"] == shown
        assert api.patch(url, {"expires_at": None}, format="json").json()["expires_at"] is None


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("what", ["created", "active"])
def test_lists_begin_and_end_at_a_moment(ada, api, use_tz, what):
    with override_settings(TIME_ZONE="Asia/Tokyo", USE_TZ=use_tz):
        made = api.post(SESSIONS, {}, format="json").json()
        day = datetime(2027, 7, 1, 12, tzinfo=UTC)
        kept = day if use_tz else day.replace(tzinfo=None) + timedelta(hours=9)
        Session.objects.update(created_at=kept, last_activity_at=kept)
        found = []
        for moment in ("2027-07-01T11:59:59Z", "2027-07-01T14:00:00+02:00", "2027-07-01T12:00:06Z"):
            for side in ("after", "before"):
                answer = client_of(ada).get(SESSIONS, {f"{what}_{side}": moment})
                assert answer.status_code == 200, answer.content
                ids = [row["id"] for row in answer.json()["results"]]
                assert ids in ([], [made["id"]])
                found.append(bool(ids))
        assert found == [True, False, True, False, False, True]


@pytest.mark.parametrize("given", [one for one in NOT_ONE if isinstance(one, str)])
def test_a_list_does_not_begin_at_what_is_no_moment(api, given):
    answer = api.get(SESSIONS, {"created_after": given})
    assert answer.status_code == 400
    assert "2026-01-02T03:04:05Z" in answer.json()["errors"]["created_after"][0]
