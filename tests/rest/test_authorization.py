"""Every route × method × person × permissions: answered or refused, shown or not, recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import transaction
from rest_framework.test import APIClient

from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.permissions import Allowed

from .conftest import client_of
from .planted import (
    IMAGE,
    INTERNAL,
    KEPT,
    METHODS,
    SAID,
    SECRETS,
    STATES,
    Planted,
    ask,
    body_of,
    plant,
    recorded,
    routes,
    rows,
    seen_in,
)

pytestmark = pytest.mark.django_db

VIEW, READ = Allowed.VIEW, Allowed.READ
ADD, CHANGE, DELETE = Allowed.ADD, Allowed.CHANGE, Allowed.DELETE
REDACT = Allowed.REDACT
EXPORT, ORIGINAL, STATE = Allowed.EXPORT, Allowed.VIEW_ORIGINAL, Allowed.VIEW_STATE
EVERY = frozenset(Allowed)
NONE: frozenset[Allowed] = frozenset()
ENOUGH = frozenset({VIEW, READ})
"""What opens other people's sessions for reading."""

OPEN_TO_ALL = {"schema/"}
"""What is the same for everybody, because there is nothing of anybody in it."""


STREAMS = {"sessions/<str:session>/events/"}
"""What does not end by itself; who is let in is tried below, and what is sent beside the stream."""


@dataclass(frozen=True)
class Ask:
    """A request, and what is to become of it."""

    route: str
    method: str
    answer: int = 200
    needs: frozenset[Allowed] = NONE
    """What others need beside ``scope=all`` and enough for reading."""

    owner_needs: frozenset[Allowed] = NONE
    shows: tuple[str, ...] = ()
    """The secrets that whoever is let in is shown."""

    shows_states: tuple[str, ...] = ()
    """Those shown in addition to whoever has ``view_sessionagent``."""

    recorded: tuple[str, ...] = ()
    """What is recorded of others than the owner."""

    of_owners: tuple[str, ...] = ()
    of_everybody: bool = False
    """Whether the request is about no session of anybody in particular."""

    scoped: bool = True
    """Whether ``scope=all`` means anything to it."""

    writes: bool = False
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    message: int = 0

    @property
    def name(self) -> str:
        said = {**dict(self.query), **(self.body or {})}
        return "-".join([self.method, self.route, *map(str, said)])


def needs(*allowed: Allowed) -> frozenset[Allowed]:
    return frozenset(allowed)


SESSION, MESSAGE = "sessions/<str:session>/", "messages/<str:message>/"
AGENT = "agents/<str:agent_key>/"
BRANCHES, SNAPSHOTS = f"{AGENT}branches/", f"{AGENT}snapshots/"
BRANCH = f"{BRANCHES}<str:number>/"
READING = ("read",)
ASKS = [
    Ask("schema/", "get", of_everybody=True, scoped=False),
    # The list, and a new session of one's own.
    Ask("sessions/", "get", shows=("plantedtitle",), recorded=READING, of_everybody=True),
    Ask(
        "sessions/",
        "get",
        query=(("q", "plantedtext"),),
        shows=("plantedtitle",),
        recorded=("searched",),
        of_everybody=True,
    ),
    Ask("sessions/", "post", 201, body={}, writes=True, of_everybody=True),
    # A session.
    Ask(
        SESSION,
        "get",
        shows=("plantedtitle", "plantedmetadata", "plantedtext"),
        recorded=READING,
    ),
    Ask(
        SESSION,
        "patch",
        body={"archived": True},
        needs=needs(CHANGE),
        shows=("plantedtitle", "plantedmetadata", "plantedtext"),
        recorded=READING,
        writes=True,
    ),
    Ask(
        SESSION,
        "delete",
        204,
        needs=needs(DELETE),
        recorded=("deleted",),
        of_owners=("deleted",),
        writes=True,
    ),
    Ask(f"{SESSION}usage/", "get", recorded=READING),
    Ask(
        f"{SESSION}export/",
        "get",
        needs=needs(EXPORT),
        shows=("plantedtitle", *SAID),
        recorded=("exported",),
        of_owners=("exported",),
    ),
    Ask(
        f"{SESSION}export/",
        "get",
        query=(("as", "jsonl"),),
        needs=needs(EXPORT),
        shows=("plantedtitle", "plantedmetadata", *SAID),
        shows_states=(*STATES, INTERNAL),
        recorded=("exported",),
        of_owners=("exported",),
    ),
    Ask(
        f"{SESSION}redact/",
        "post",
        body={"find": "planted", "dry_run": True},
        needs=needs(REDACT),
        shows=("plantedtitle", "plantedmetadata", *SAID),
        shows_states=(*STATES, INTERNAL),
        recorded=READING,
    ),
    Ask(
        f"{SESSION}redact/",
        "post",
        body={"find": "plantedtool", "reason": "a ticket"},
        needs=needs(REDACT),
        recorded=("read", "redacted"),
        of_owners=("redacted",),
        writes=True,
    ),
    # Going back in time.
    Ask(
        f"{SESSION}fork/",
        "post",
        201,
        body={},
        needs=needs(ADD, CHANGE),
        shows=("plantedtitle", "plantedmetadata", "plantedtext"),
        recorded=("forked",),
        of_owners=("forked",),
        writes=True,
    ),
    Ask(
        f"{AGENT}rewind/",
        "post",
        body={"to": 0},
        needs=needs(CHANGE),
        recorded=("rewound",),
        of_owners=("rewound",),
        writes=True,
    ),
    Ask(BRANCHES, "get", recorded=READING),
    Ask(BRANCHES, "post", 201, body={}, needs=needs(CHANGE), recorded=READING, writes=True),
    Ask(f"{BRANCHES}compare/", "get", query=(("right", "1"),), recorded=READING),
    Ask(BRANCH, "get", recorded=READING),
    Ask(
        BRANCH,
        "delete",
        204,
        needs=needs(CHANGE, DELETE),
        recorded=("branch_deleted",),
        of_owners=("branch_deleted",),
        writes=True,
    ),
    Ask(
        f"{BRANCH}switch/",
        "post",
        needs=needs(CHANGE),
        recorded=("restored",),
        of_owners=("restored",),
        writes=True,
    ),
    Ask(f"{BRANCH}messages/", "get", shows=SAID, recorded=READING),
    Ask(f"{BRANCH}messages/", "get", query=(("raw", "true"),), shows=SAID, recorded=READING),
    Ask(SNAPSHOTS, "get", recorded=READING),
    Ask(SNAPSHOTS, "post", 201, needs=needs(CHANGE), recorded=READING, writes=True),
    Ask(
        f"{SNAPSHOTS}<str:snapshot>/restore/",
        "post",
        needs=needs(CHANGE),
        recorded=("restored",),
        of_owners=("restored",),
        writes=True,
    ),
    # Agents and orchestrators.
    Ask(f"{SESSION}agents/", "get", recorded=READING),
    Ask(
        f"{SESSION}agents/<agent_sessions_text:agent>/",
        "get",
        shows_states=("plantedstate", "plantedsummary"),
        recorded=READING,
    ),
    Ask(f"{SESSION}multi-agents/", "get", recorded=READING),
    Ask(
        f"{SESSION}multi-agents/<agent_sessions_text:multi_agent>/",
        "get",
        shows_states=("plantednode",),
        recorded=READING,
    ),
    # What was said.
    Ask(f"{SESSION}messages/", "get", shows=SAID, recorded=READING),
    Ask(f"{SESSION}messages/", "get", query=(("raw", "true"),), shows=SAID, recorded=READING),
    Ask(MESSAGE, "get", shows=("plantedtext",), recorded=READING),
    Ask(MESSAGE, "get", query=(("raw", "true"),), message=3, recorded=READING),
    Ask(f"{MESSAGE}media/", "get", query=(("path", IMAGE),), recorded=READING),
    Ask(
        f"{MESSAGE}redact/",
        "post",
        body={"find": "plantedtext", "dry_run": True},
        needs=needs(REDACT),
        shows=("plantedtext",),
        recorded=READING,
    ),
    Ask(
        f"{MESSAGE}redact/",
        "post",
        body={"reason": "a ticket"},
        needs=needs(REDACT),
        recorded=("read", "redacted"),
        of_owners=("redacted",),
        writes=True,
    ),
    Ask(
        f"{MESSAGE}original/",
        "post",
        body={"reason": "a court asks"},
        message=3,
        needs=needs(ORIGINAL),
        owner_needs=needs(ORIGINAL),
        shows=(KEPT,),
        recorded=("original_viewed",),
        of_owners=("original_viewed",),
    ),
    Ask(
        f"{MESSAGE}original/",
        "post",
        400,
        body={},
        message=3,
        needs=needs(ORIGINAL),
        owner_needs=needs(ORIGINAL),
    ),
]


def all_methods() -> list[Ask]:
    """Adds HEAD, which is GET without a body; OPTIONS, and what a route does not have."""
    asks = list(ASKS)
    for route in dict.fromkeys(one.route for one in ASKS):
        given = {one.method: one for one in reversed(ASKS) if one.route == route}
        about_none = {"of_everybody": True, "scoped": False}
        for method in METHODS:
            if method in given:
                continue
            if method == "head" and "get" in given:
                asks.append(replace(given["get"], method="head", shows=(), shows_states=()))
            elif method == "options":
                asks.append(Ask(route, method, **about_none))  # type: ignore[arg-type]
            else:
                asks.append(Ask(route, method, 405, **about_none))  # type: ignore[arg-type]
    return asks


EVERY_ASK = all_methods()
ABOUT_SOMETHING = [one for one in EVERY_ASK if one.answer != 405 and one.method != "options"]


def permission_sets() -> Iterator[frozenset[Allowed]]:
    """None, reading, each with reading, all but each (so that none opens by itself), and all."""
    yield NONE
    yield ENOUGH
    for one in Allowed:
        yield frozenset({one}) if one in ENOUGH else ENOUGH | {one}
        yield EVERY - {one}
    yield EVERY


@pytest.fixture(autouse=True)
def originals_are_kept(settings):
    settings.AGENT_SESSIONS = {"REDACTION_KEEP_ORIGINAL": True}


@pytest.fixture
def planted(ada) -> Planted:
    return plant(ada)


def grant(user: Any, allowed: frozenset[Allowed]) -> APIClient:
    """Gives exactly these permissions, and a client of the user who has them."""
    found = Permission.objects.filter(
        content_type__app_label="agent_sessions", codename__in=list(allowed)
    )
    assert len(found) == len(allowed)
    user.user_permissions.set(found)
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
    granted: frozenset[Allowed],
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
    sets = few if one.route in OPEN_TO_ALL else permission_sets()
    assert wrong(one, planted, bob, sets, owner=False, scope="all") == {}


def test_being_staff_stands_for_no_permission(planted, bob):
    bob.is_staff = True
    bob.save()
    for one in ABOUT_SOMETHING:
        if one.route not in OPEN_TO_ALL:
            sets = (NONE, EVERY - {VIEW}, EVERY)
            assert wrong(one, planted, bob, sets, owner=False, scope="all") == {}, one.name


@pytest.mark.parametrize("one", ABOUT_SOMETHING, ids=lambda one: one.name)
def test_owners_need_no_permission_but_for_states_and_originals(one, planted, ada):
    sets = (NONE, needs(STATE), needs(ORIGINAL), ENOUGH, EVERY - {STATE, ORIGINAL}, EVERY)
    assert wrong(one, planted, ada, sets, owner=True, scope=None) == {}
    assert wrong(one, planted, ada, sets, owner=True, scope="all") == {}


def test_a_method_that_a_route_does_not_have_is_refused_and_does_nothing(planted, ada, bob):
    for one in EVERY_ASK:
        if one in ABOUT_SOMETHING:
            continue
        for user, scope in ((ada, None), (bob, "all")):
            found = wrong(one, planted, user, (EVERY,), owner=user == ada, scope=scope)
            assert found == {}, one


def test_every_route_has_an_entry_above():
    assert {one.route for one in ASKS} == set(routes()) - STREAMS


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
    # The usage of everybody and the trail are the admin's.
    assert opened == EVERY - {Allowed.VIEW_AUDIT, Allowed.VIEW_USAGE}


def test_every_secret_is_shown_to_somebody():
    assert set().union(*({*one.shows, *one.shows_states} for one in ASKS)) == set(SECRETS)


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


def test_a_session_without_an_owner_is_nobodys(planted, ada, bob):
    Session.objects.update(owner=None)
    for user in (ada, bob):
        assert client_of(user).get(planted.url(SESSION)).status_code == 404
        assert client_of(user).get("/api/sessions/").json()["results"] == []


def test_a_session_that_gets_another_owner_is_not_the_first_ones_any_more(planted, ada, bob):
    Session.objects.update(owner=bob)
    assert client_of(ada).get(planted.url(MESSAGE)).status_code == 404
    assert client_of(bob).get(planted.url(MESSAGE)).status_code == 200
