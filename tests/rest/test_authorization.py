"""Every route × method × person × permissions: answered or refused, shown or not, recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import transaction
from rest_framework.test import APIClient

from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.deletion import TOMBSTONE_NAMESPACE
from django_agent_sessions.models.permissions import SessionPermission

from .asks import (
    ABOUT_SOMETHING,
    ASKS,
    BY_LINK,
    ENOUGH,
    EVERY,
    EVERY_ASK,
    MESSAGE,
    NONE,
    OPEN_TO_ALL,
    READ,
    SESSION,
    STATE,
    STREAMS,
    VIEW,
    Ask,
    needs,
)
from .conftest import client_of
from .planted import (
    GONE,
    METHODS,
    SECRETS,
    Planted,
    ask,
    body_of,
    recorded,
    routes,
    rows,
    seen_in,
)

pytestmark = pytest.mark.django_db


def permission_sets(one: Ask) -> Iterator[frozenset[SessionPermission]]:
    """None, reading, just what it needs, that and reading, all, and all but one that counts."""
    counts = one.needs | one.owner_needs | ENOUGH | {STATE}
    yield from {NONE, ENOUGH, one.needs, one.owner_needs, ENOUGH | one.needs, EVERY}
    for permission in sorted(counts):
        yield EVERY - {permission}


def grant(user: Any, allowed: frozenset[SessionPermission]) -> APIClient:
    """Gives exactly these permissions, and a client of the user who has them."""
    found = Permission.objects.filter(
        content_type__app_label="agent_sessions", codename__in=list(allowed)
    )
    assert len(found) == len(allowed)
    rows_of_user = user.user_permissions.through.objects
    rows_of_user.filter(user_id=user.pk).delete()
    rows_of_user.bulk_create(
        rows_of_user.model(user_id=user.pk, permission=permission) for permission in found
    )
    client = APIClient(raise_request_exception=False)
    # As read anew: permissions are kept with the user.
    client.force_authenticate(get_user_model().objects.get(pk=user.pk))
    return client


def wrong(
    one: Ask, planted: Planted, user: Any, sets: Any, *, owner: bool, scope: str | None
) -> dict[str, str]:
    """Tries a request with each set of permissions, and says what is wrong with what came of it."""
    found = {}
    before, trail = rows(), {event.pk for event in recorded()}
    for granted in sets:
        with transaction.atomic():
            client = grant(user, granted)
            problem = check(one, client, granted, planted, before, trail, owner, scope, user)
            transaction.set_rollback(True)
        if problem:
            found[", ".join(sorted(granted))] = problem
    return found


def check(
    one: Ask,
    client: APIClient,
    granted: frozenset[SessionPermission],
    planted: Planted,
    before: Any,
    trail: set[Any],
    owner: bool,
    scope: str | None,
    user: Any,
) -> str:
    everybody = scope == "all" and one.scoped
    query = {**dict(one.query), **({"scope": scope} if scope else {})}
    answer = ask(client, one.method, planted.url(one.route, one.message), query, one.body)
    text = body_of(answer)
    reaches = granted >= ENOUGH if everybody else owner or one.of_everybody
    let_in = reaches and (one.owner_needs if owner else one.needs) <= granted
    if answer.status_code != (one.answer if let_in else 404):
        return f"answered {answer.status_code}"
    expected: set[str] = set()
    if let_in and (owner or everybody):
        expected = {*one.shows, *(one.shows_states if STATE in granted else ())}
        if not owner:
            expected |= {*one.shows_others}
    if seen_in(text) != expected:
        return f"showed {sorted(seen_in(text))}, not {sorted(expected)}"
    if (rows() != before) != (let_in and one.writes):
        return "changed what it should not, or nothing"
    events = [event for event in recorded() if event.pk not in trail]
    acts: tuple[str, ...] = ()
    if let_in and one.of_everybody:
        acts = one.recorded if everybody else ()
    elif let_in:
        acts = one.of_owners if owner else one.recorded
    if [event.action for event in events] != [*acts]:
        return f"recorded {[event.action for event in events]}, not {acts}"
    if any(event.actor_id != str(user.pk) for event in events):
        return "recorded of somebody else"
    if seen_in(str(list(AuditEvent.objects.values()))):
        return "content was recorded"
    return ""


@pytest.mark.parametrize("one", ABOUT_SOMETHING, ids=lambda one: one.name)
def test_others_get_with_each_permission_what_it_opens_and_only_by_asking_for_everybodys(
    one, planted, bob
):
    few = (NONE, EVERY)
    assert wrong(one, planted, bob, few, owner=False, scope=None) == {}
    assert wrong(one, planted, bob, few, owner=False, scope="own") == {}
    sets = few if one.route in OPEN_TO_ALL else permission_sets(one)
    assert wrong(one, planted, bob, sets, owner=False, scope="all") == {}


# Over a second: it asks every route with three sets of permissions.
def test_being_staff_stands_for_no_permission(planted, bob):
    bob.is_staff = True
    bob.save()
    for one in ABOUT_SOMETHING:
        if one.route not in OPEN_TO_ALL:
            sets = (NONE, EVERY - {VIEW}, EVERY)
            assert wrong(one, planted, bob, sets, owner=False, scope="all") == {}, one.name


# Over a second: the OpenAPI document is made for each answer.
@pytest.mark.parametrize("one", ABOUT_SOMETHING, ids=lambda one: one.name)
def test_owners_need_no_permission_but_for_states(one, planted, ada):
    sets = (NONE, needs(STATE), ENOUGH, EVERY - {STATE}, EVERY)
    assert wrong(one, planted, ada, sets, owner=True, scope=None) == {}
    assert wrong(one, planted, ada, sets, owner=True, scope="all") == {}


# Over a second: it asks every route by every method.
def test_a_method_that_a_route_does_not_have_is_refused_and_does_nothing(planted, ada, bob):
    for one in EVERY_ASK:
        if one in ABOUT_SOMETHING:
            continue
        for user, scope in ((ada, None), (bob, "all")):
            found = wrong(one, planted, user, (EVERY,), owner=user == ada, scope=scope)
            assert found == {}, one


def test_every_route_has_an_entry_above():
    assert {one.route for one in ASKS} == set(routes()) - STREAMS - BY_LINK


@pytest.mark.parametrize("route", sorted(STREAMS & set(routes())))
def test_a_stream_lets_in_whom_a_transcript_does(planted, ada, bob, route):
    url = planted.url(route)
    before, trail = rows(), recorded()
    for method in METHODS:
        assert ask(APIClient(), method, url).status_code in (401, 403)
        for user, granted, scope in (
            (bob, NONE, None),
            (bob, EVERY, None),
            (bob, EVERY - {READ}, "all"),
            (bob, EVERY - {VIEW}, "all"),
            (ada, NONE, "all"),
        ):
            answer = ask(grant(user, granted), method, url, {"scope": scope} if scope else {})
            expected = {"get": 404, "head": 404, "options": 200}.get(method, 405)
            assert answer.status_code == expected, (method, granted, scope)
            assert seen_in(body_of(answer)) == set()
    assert ask(grant(ada, NONE), "head", url).status_code == 200
    assert ask(grant(bob, ENOUGH), "head", url, {"scope": "all"}).status_code == 200
    assert (rows(), recorded()) == (before, trail)


def test_every_permission_that_the_api_knows_opens_something():
    opened = set().union(*(one.needs for one in ASKS)) | {STATE} | ENOUGH
    # The usage of everybody, the trail, operations, reviews and a hold's copies are the admin's.
    elsewhere = {
        SessionPermission.VIEW_HELD_COPIES,
        SessionPermission.VIEW_AUDIT,
        SessionPermission.VIEW_USAGE,
        SessionPermission.VIEW_OPERATIONS,
        SessionPermission.CHANGE_OPERATIONS,
        SessionPermission.REVIEW,
    }
    assert opened == EVERY - elsewhere


def test_every_secret_is_shown_to_somebody():
    shown = ({*one.shows, *one.shows_states, *one.shows_others} for one in ASKS)
    assert set().union(*shown) == set(SECRETS) - {GONE}


@pytest.mark.parametrize("scope", [None, "all"])
def test_nobody_who_is_not_logged_in_gets_an_answer(planted, scope):
    before, trail = rows(), recorded()
    for one in EVERY_ASK:
        if one.route in OPEN_TO_ALL:
            continue
        query = {**dict(one.query), **({"scope": scope} if scope else {})}
        url = planted.url(one.route, one.message)
        answer = ask(APIClient(), one.method, url, query, one.body)
        assert answer.status_code in (401, 403), one
        assert seen_in(body_of(answer)) == set()
    assert (rows(), recorded()) == (before, trail)


def test_a_user_who_was_deactivated_gets_no_answer_any_more(planted, ada):
    client = client_of(ada)
    assert client.get(planted.url(SESSION)).status_code == 200
    type(ada).objects.update(is_active=False)
    before, trail = rows(), recorded()
    for one in EVERY_ASK:
        if one.route not in OPEN_TO_ALL:
            answer = ask(client, one.method, planted.url(one.route), dict(one.query), one.body)
            assert answer.status_code in (401, 403), one
    assert (rows(), recorded()) == (before, trail)


def test_who_is_logged_in_by_a_cookie_changes_nothing_without_a_csrf_token(planted, ada):
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(ada)
    before, trail = rows(), recorded()
    unsafe = [one for one in EVERY_ASK if one.method in ("post", "put", "patch", "delete")]
    for one in unsafe:
        if one.route in OPEN_TO_ALL:
            continue
        answer = ask(client, one.method, planted.url(one.route, one.message), None, one.body)
        assert answer.status_code == 403, one
        assert seen_in(body_of(answer)) == set()
    assert (rows(), recorded()) == (before, trail)
    client.cookies["csrftoken"] = token = "a" * 32
    changed = client.patch(
        planted.url(SESSION), {"title": "B"}, format="json", headers={"X-CSRFToken": token}
    )
    assert changed.status_code == 200
    assert Session.objects.get().title == "B"


def test_a_scope_that_there_is_not_reaches_nothing(planted, ada):
    client = client_of(ada)
    for scope in ("", "ALL", "everybody", "all,own"):
        assert client.get(planted.url(SESSION), {"scope": scope}).status_code == 400
        assert client.get("/api/sessions/", {"scope": scope}).status_code == 400


def test_a_superuser_reaches_others_by_asking_only_and_is_recorded(planted):
    client = client_of(get_user_model().objects.create_superuser("root"))
    assert client.get(planted.url(SESSION)).status_code == 404
    assert client.get("/api/sessions/").json()["results"] == []
    trail = recorded()
    assert client.get(planted.url(SESSION), {"scope": "all"}).status_code == 200
    assert len(recorded()) == len(trail) + 1


def test_a_session_that_is_being_deleted_is_nobodys_any_more(planted, bob):
    Session.objects.update(namespace=TOMBSTONE_NAMESPACE, owner=None)
    client = grant(bob, EVERY)
    for one in ABOUT_SOMETHING:
        url = planted.url(one.route, one.message)
        answer = ask(client, one.method, url, {**dict(one.query), "scope": "all"}, one.body)
        assert answer.status_code == 404 or (one.of_everybody and answer.status_code == one.answer)
        assert seen_in(body_of(answer)) == set()


def test_a_session_without_an_owner_is_nobodys(planted, ada, bob):
    Session.objects.update(owner=None)
    for user in (ada, bob):
        assert client_of(user).get(planted.url(SESSION)).status_code == 404
        assert client_of(user).get("/api/sessions/").json()["results"] == []


def test_a_session_that_gets_another_owner_is_not_the_first_ones_any_more(planted, ada, bob):
    Session.objects.update(owner=bob)
    assert client_of(ada).get(planted.url(MESSAGE)).status_code == 404
    assert client_of(bob).get(planted.url(MESSAGE)).status_code == 200
