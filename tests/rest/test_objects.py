"""Permissions for single sessions, of a back end that answers for objects."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from django.test import Client
from django.urls import reverse

from django_agent_sessions.models import Session
from django_agent_sessions.models.access import ObjectPermissions, reach_of
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.events import SessionEventsView
from tests.admin.people import staff
from tests.admin.transcripts import said

from .asks import ABOUT_SOMETHING, ENOUGH, EVERY, NONE, READ, VIEW
from .conftest import Talk, client_of
from .planted import ask, body_of, recorded, rows, seen_in
from .test_authorization import check, grant

pytestmark = pytest.mark.django_db


class Objects:
    """A back end as django-guardian's: who may do what in which session."""

    granted: ClassVar[dict[Any, frozenset[SessionPermission]]] = {}

    def authenticate(self, request: Any, **credentials: Any) -> None:
        """Log nobody in."""

    def has_perm(self, user: Any, permission: str, obj: Any = None) -> bool:
        if obj is None:
            return False
        allowed = self.granted.get((user.pk, obj.pk), NONE)
        return permission.removeprefix("agent_sessions.") in allowed


class Listed(ObjectPermissions):
    """What the back end permits, which this project can list."""

    def listed(self, user: Any, action: SessionPermission) -> Any:
        granted = Objects.granted.items()
        keys = [key for (who, key), may in granted if who == user.pk and action in may]
        return Session.objects.filter(pk__in=keys)


@pytest.fixture
def objects(settings, monkeypatch) -> dict[Any, Any]:
    settings.AUTHENTICATION_BACKENDS = [
        "django.contrib.auth.backends.ModelBackend",
        f"{__name__}.Objects",
    ]
    settings.AGENT_SESSIONS = {
        "ACCESS": "django_agent_sessions.models.access.ObjectPermissions",
        "SHARE_LINKS": True,
    }
    granted: dict[Any, Any] = {}
    monkeypatch.setattr(Objects, "granted", granted)
    return granted


def test_a_permission_for_one_session_opens_the_messages_of_its_chat(trip, objects, bob, settings):
    settings.ROOT_URLCONF = "tests.rest.chat.test_everybody"
    client, url = client_of(bob), f"/chat/{trip.session.id}/messages?scope=all"
    objects[bob.pk, trip.session.id] = frozenset({VIEW})
    assert client.get(url).status_code == 404

    objects[bob.pk, trip.session.id] = frozenset({VIEW, READ})
    assert "Lisbon" in body_of(client.get(url))
    assert client.get(url.partition("?")[0]).status_code == 404


ONE = [one for one in ABOUT_SOMETHING if not one.of_everybody]


@pytest.mark.parametrize("allowed", [EVERY, ENOUGH, EVERY - {READ}], ids=["all", "reading", "not"])
@pytest.mark.parametrize("one", ONE, ids=lambda one: one.name)
def test_a_permission_for_one_session_opens_what_one_for_all_does(
    planted, objects, bob, one, allowed
):
    objects[bob.pk, planted.session.pk] = allowed
    client = grant(bob, NONE)
    before, trail = rows(), {event.pk for event in recorded()}
    assert check(one, client, allowed, planted, before, trail, False, "all", bob) == ""


@pytest.mark.parametrize("one", ONE, ids=lambda one: one.name)
def test_a_permission_for_another_session_opens_nothing(planted, objects, bob, one):
    other = Session.objects.create(session_id="other")
    objects[bob.pk, other.pk] = EVERY
    before = rows()
    query = {**dict(one.query), "scope": "all"}
    answer = ask(grant(bob, NONE), one.method, planted.url(one.route, one.message), query, one.body)
    assert answer.status_code == 404
    assert seen_in(body_of(answer)) == set()
    assert rows() == before


def test_a_list_has_what_the_project_lists(planted, objects, bob, settings):
    client, url = client_of(bob), "/api/sessions/?scope=all"
    objects[bob.pk, planted.session.pk] = ENOUGH
    assert client.get(url).json()["results"] == []
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.Listed"}
    for query in ("", "&q=plantedtext"):
        [row] = client.get(f"{url}{query}").json()["results"]
        assert row["id"] == str(planted.session.pk)
    objects.clear()
    assert client.get(url).json()["results"] == []
    # A permission for all sessions is asked for first.
    everything = client_of(staff("carol", VIEW, READ))
    assert len(everything.get(url).json()["results"]) == 1
    assert everything.get(f"/api/sessions/{planted.session.pk}/?scope=all").status_code == 200


def test_an_error_of_the_back_end_denies_and_is_logged(planted, objects, bob, monkeypatch, caplog):
    def broken(self: Any, user: Any, permission: str, obj: Any = None) -> bool:
        raise RuntimeError

    objects[bob.pk, planted.session.pk] = EVERY
    monkeypatch.setattr(Objects, "has_perm", broken)
    assert not reach_of(bob, VIEW).includes(planted.session)
    assert "ObjectPermissions failed and denies view_session" in caplog.text


def test_a_page_of_the_admin_opens_by_a_permission_for_its_session(planted, objects, settings):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.Listed"}
    bob = staff("bob-of-staff")
    browser = Client()
    browser.force_login(bob)
    other = Session.objects.create(session_id="other")
    pages = ("change", "messages", "export", "redact", "delete", "sharing")
    objects[bob.pk, planted.session.pk] = EVERY
    objects[bob.pk, other.pk] = frozenset({VIEW})
    for page in pages:
        url = reverse(f"admin:agent_sessions_session_{page}", args=[planted.session.pk])
        assert browser.get(url).status_code == 200, page
        theirs = reverse(f"admin:agent_sessions_session_{page}", args=[other.pk])
        expected = 200 if page in ("change", "messages") else (403, 404)
        assert browser.get(theirs).status_code in (expected if type(expected) is tuple else (200,))
    listed = browser.get(reverse("admin:agent_sessions_session_changelist")).content.decode()
    assert str(planted.session.pk) in listed
    objects.clear()
    for page in pages:
        url = reverse(f"admin:agent_sessions_session_{page}", args=[planted.session.pk])
        assert browser.get(url).status_code in (302, 403, 404), page


@pytest.mark.django_db(transaction=True)
def test_a_stream_ends_when_the_back_end_does_not_permit_it_any_more(
    objects, ada, bob, monkeypatch
):
    monkeypatch.setattr(SessionEventsView, "check_seconds", 0.1)
    trip = Talk(ada, "Where to?", "Thanks.")
    objects[bob.pk, trip.session.id] = ENOUGH
    browser = Client()
    browser.force_login(bob)
    url = f"/api/sessions/{trip.session.id}/events/"
    answer: Any = browser.get(url, {"scope": "all", "from": "start"})
    pieces = iter(answer.streaming_content)
    read = b""
    while b"Thanks." not in read:
        read += next(pieces)
    objects.clear()
    trip.say(said("user", "not for Bob"))
    rest = b"".join(pieces)
    answer.close()
    assert b"not for Bob" not in rest
    assert b'"gone"' in rest
