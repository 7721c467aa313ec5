"""A team rule in the API: what it opens, what it does not, and what ends with it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models import Q
from django.test import Client

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.access import AccessRule
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.events import SessionEventsView
from django_agent_sessions.store import SessionStore
from tests.admin.transcripts import said

from .asks import ABOUT_SOMETHING, EVERY, NONE, OPEN_TO_ALL, VIEW
from .conftest import Talk, client_of
from .planted import ask, body_of, recorded, rows, seen_in
from .test_authorization import check, grant

pytestmark = pytest.mark.django_db


class Team(AccessRule):
    """Staff do everything in the sessions of their groups; others need Django's permissions."""

    def sessions(self, user: Any, action: SessionPermission) -> Any:
        granted = super().sessions(user, action)
        if granted is not None or not user.is_staff:
            return granted
        return Q(owner__groups__in=user.groups.all())


class Readers(Team):
    """The same for reading only."""

    def sessions(self, user: Any, action: SessionPermission) -> Any:
        reads = action in (SessionPermission.VIEW, SessionPermission.READ)
        return super().sessions(user, action) if reads else None


@pytest.fixture
def team(settings, ada, bob) -> Group:
    """Bob leads Ada's team."""
    settings.AGENT_SESSIONS = {
        "ACCESS": f"{__name__}.Team",
        "SHARE_LINKS": True,
    }
    group = Group.objects.create(name="team")
    # Two groups in common repeat no session.
    for user in (ada, bob):
        user.groups.add(group, Group.objects.get_or_create(name="all")[0])
    type(bob).objects.filter(pk=bob.pk).update(is_staff=True)
    bob.refresh_from_db()
    return group


def leave(bob: Any) -> None:
    bob.groups.clear()


@pytest.mark.parametrize("one", ABOUT_SOMETHING, ids=lambda one: one.name)
def test_a_leader_without_a_permission_does_what_the_rule_allows(planted, team, bob, one):
    client = grant(bob, NONE)
    before, trail = rows(), {event.pk for event in recorded()}
    assert check(one, client, EVERY, planted, before, trail, False, "all", bob) == ""


@pytest.mark.parametrize("one", ABOUT_SOMETHING, ids=lambda one: one.name)
def test_another_teams_session_answers_like_a_missing_one(planted, team, bob, one):
    leave(bob)
    client = grant(bob, NONE)
    before = rows()
    answer = ask(
        client,
        one.method,
        planted.url(one.route, one.message),
        {**dict(one.query), "scope": "all"},
        one.body,
    )
    assert seen_in(body_of(answer)) == set()
    if not one.of_everybody:
        assert answer.status_code == (one.answer if one.route in OPEN_TO_ALL else 404)
        assert rows() == before
    assert str(planted.session.pk) not in body_of(answer) or answer.status_code == 404


@pytest.mark.parametrize("one", ABOUT_SOMETHING, ids=lambda one: one.name)
def test_whoever_may_only_read_changes_nothing(planted, team, bob, one, settings):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "ACCESS": f"{__name__}.Readers"}
    before, trail = rows(), {event.pk for event in recorded()}
    allowed = frozenset({VIEW, SessionPermission.READ})
    client = grant(bob, NONE)
    assert check(one, client, allowed, planted, before, trail, False, "all", bob) == ""


def test_without_rights_everybodys_scope_is_a_404_and_own_sessions_stay(team, trip, bob, ada):
    own = client_of(ada)
    for path in ("/api/sessions/", trip.url, f"{trip.url}messages/"):
        assert own.get(path, {"scope": "all"}).status_code == 404
        assert own.get(path).status_code == 200
    assert client_of(bob).get(trip.url).status_code == 404


def test_a_list_and_a_search_repeat_no_session(team, trip, bob):
    Talk(bob, "Mine", session_id="mine")
    for query in ({}, {"q": "Lisbon"}):
        page = client_of(bob).get("/api/sessions/", {"scope": "all", **query}).json()
        keys = [row["id"] for row in page["results"]]
        assert keys.count(str(trip.session.id)) == 1
        assert len(keys) == len(set(keys))


def test_an_error_of_the_rule_opens_nothing(team, trip, bob, monkeypatch):
    def broken(self: Any, user: Any, action: Any) -> Any:
        raise RuntimeError

    client = client_of(bob)
    assert client.get(trip.url, {"scope": "all"}).status_code == 200
    monkeypatch.setattr(Team, "sessions", broken)
    assert client.get(trip.url, {"scope": "all"}).status_code == 404
    assert client.get("/api/sessions/", {"scope": "all"}).status_code == 404
    # Nor does it take from owners what is theirs.
    assert client_of(trip_owner(trip)).get(trip.url).status_code == 200


def trip_owner(talk: Talk) -> Any:
    return Session.objects.get(pk=talk.session.id).owner


def test_a_preview_with_a_pattern_needs_the_right_to_redact_this_session(team, trip, bob, settings):
    client = client_of(bob)
    body = {"find": "[0-9]+", "pattern": True, "dry_run": True}
    url = f"{trip.url}redact/?scope=all"
    assert client.post(url, body, format="json").status_code == 200
    leave(bob)
    assert client.post(url, body, format="json").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_a_stream_ends_when_the_right_is_taken_away(team, trip, bob, monkeypatch):
    monkeypatch.setattr(SessionEventsView, "check_seconds", 0.1)
    browser = Client()
    browser.force_login(bob)
    url = f"/api/sessions/{trip.session.id}/events/"
    assert browser.get(url).status_code == 404
    answer: Any = browser.get(url, {"scope": "all", "from": "start"})
    pieces = iter(answer.streaming_content)
    read = b""
    while b"Thanks." not in read:
        read += next(pieces)
    leave(bob)
    trip.say(said("user", "not for Bob"))
    rest = b"".join(pieces)
    answer.close()
    assert b"not for Bob" not in rest
    assert b'"gone"' in rest
    assert browser.get(url, {"scope": "all"}).status_code == 404
    assert AuditEvent.objects.filter(action="read").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_chat_is_read_by_a_leader_and_written_by_its_owner_only(team, trip, ada, bob, settings):
    settings.ROOT_URLCONF = "tests.rest.chat.ai_sdk.urls"
    browser = Client()
    browser.force_login(bob)
    url = f"/strands/{trip.session.id}"
    assert browser.get(f"{url}/messages").status_code == 404
    answer = browser.get(f"{url}/messages", {"scope": "all"})
    assert answer.status_code == 200
    assert b"Lisbon" in answer.content
    assert browser.post(f"{url}/stop", {"scope": "all"}).status_code == 404
    assert browser.get(f"{url}/stream", {"scope": "all"}).status_code == 204
    leave(bob)
    assert browser.get(f"{url}/messages", {"scope": "all"}).status_code in (200, 404)
    assert b"Lisbon" not in browser.get(f"{url}/messages", {"scope": "all"}).content


def test_assistant_ui_shows_a_leader_no_thread_of_the_team(team, trip, bob, settings):
    settings.ROOT_URLCONF = "django_agent_sessions.rest.chat.assistant_ui.urls"
    client = client_of(bob)
    key = trip.session.id
    # The routes have the client's version as their first part.
    for path in (f"/v1/threads/{key}", f"/v1/threads/{key}/messages"):
        for query in ({}, {"scope": "all"}):
            assert client.get(path, query).status_code == 404
    assert client.get("/v1/threads", {"scope": "all"}).json() == {"threads": []}


def test_a_redaction_by_a_leader_leaves_other_teams_alone(team, trip, bob):
    other = SessionStore()
    agent = other.agents.open(other.open("other"), dialect="strands")
    other.append(agent, said("user", "4111 1111 1111 1111"))
    body = {"find": "4111 1111 1111 1111", "reason": "a ticket"}
    nobodys = Session.objects.get(session_id="other")
    client = client_of(bob)
    url = "/api/sessions/{}/redact/?scope=all"
    assert client.post(url.format(nobodys.pk), body, format="json").status_code == 404
    assert client.post(url.format(trip.session.id), body, format="json").status_code == 200
    assert redact(nobodys.pk, Find("4111 1111 1111 1111"), reason="", dry_run=True).hits
    assert not redact(trip.session.id, Find("4111 1111 1111 1111"), reason="", dry_run=True).hits
