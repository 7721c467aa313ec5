"""Every path × method × body as a stranger, nobody and staff: no leak, no error, no change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import transaction
from django.test import Client
from django.urls import get_resolver

from django_agent_sessions.models import AuditEvent, Blob, Session, SessionMessage
from django_agent_sessions.store import SessionStore

from .asks import ASKS
from .planted import IMAGE, SECRETS, Planted, body_of, rows

pytestmark = [pytest.mark.django_db, pytest.mark.large]

SITE = "tests.rest.whole_site"
"""All that the package serves. A route that is added to it is tried by itself."""

SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")
UNSAFE = ("POST", "PUT", "PATCH", "DELETE", "PROPFIND")
OF_EVERYBODY = ("admin/login/", "admin/jsi18n/", "api/schema/")
PEOPLE = ("nobody", "stranger", "staff", "staff with every permission")

_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>|\(\?P<(\w+)>.*?\)(?=[/$]|$)")


def routes(patterns: Any, before: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from routes(pattern.url_patterns, route)
        else:
            yield route


def is_ours(route: str) -> bool:
    return not route.startswith("admin/") or route.startswith("admin/agent_sessions/")


ROUTES = sorted({route for route in routes(get_resolver(SITE).url_patterns) if is_ours(route)})


def path_of(route: str, planted: Planted) -> str:
    """Fills in what Ada has; a parameter of another name needs a value here."""
    keys = {
        "session": planted.session.pk,
        "thread": planted.session.pk,
        "chat": planted.session.external_id,
        "object_id": planted.session.pk,
        "agent": planted.agent.pk if route.startswith("admin/") else planted.agent.agent_id,
        "agent_key": planted.agent.pk,
        "number": planted.branch,
        "branch": planted.branch,
        "snapshot": planted.snapshot.pk,
        "multi_agent": planted.graph.multi_agent_id,
        "message": planted.messages[0].pk,
        "kind": "agent",
        "row": planted.agent.pk,
        "day": "2026-01-01",
        "content_type_id": 1,
        "url": "x",
        "link": planted.link.pk,
        "participant": planted.participant.pk,
        # Whoever has the right one is shown the session.
        "token": "another",
        "key": planted.session.pk,
    }
    names = {match[1] or match[2] for match in _PARAMETER.finditer(route)}
    assert names <= keys.keys(), f"{route} has parameters that this test does not know"
    filled = _PARAMETER.sub(lambda found: str(keys[found[1] or found[2]]), route)
    return "/" + filled.replace("^", "").replace("$", "").replace("\\Z", "")


# --- bodies --------------------------------------------------------------------------------------

_FIELDS = {
    "title": "Mine",
    "metadata": {"mine": 1},
    "archived": True,
    "is_archived": True,
    "find": "planted",
    "reason": "a ticket",
    "to": 0,
    "name": "mine",
    "dry_run": True,
    "parent_id": None,
    "format": "ai-sdk/v6",
    "content": {"role": "user", "parts": [{"type": "text", "text": "mine"}]},
    "assistant_id": "system/thread_title",
    "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "mine"}]}],
    "trigger": "submit-message",
}
_HOSTILE = (
    b"{",
    b'{"find": "\\u0000", "reason": "\\ud800"}',
    b'{"title": "' + b"x" * 300 + b'", "title": "y"}',
    b"[" * 5000,
    b'{"to": ' + b"9" * 5000 + b"}",
    b'{"metadata": NaN}',
    b"\xff\xfe{\x00}\x00",
    b"' OR 1=1; DROP TABLE agent_sessions_session; --",
    b"find=planted&reason=x&csrfmiddlewaretoken=",
)


def right_body(route: str, planted: Planted) -> dict[str, Any]:
    """What the route takes, as far as the tests know it; otherwise all fields that there are."""
    known = [one.body for one in ASKS if f"api/{one.route}" == route and one.body]
    if known:
        return dict(known[0])
    return {**_FIELDS, "id": planted.session.external_id, "thread_id": str(planted.session.pk)}


def wrong_types(body: dict[str, Any]) -> Any:
    return {
        name: {"$blob": [value]} if isinstance(value, str) else "\x00"
        for name, value in body.items()
    }


def bodies(route: str, planted: Planted, number: int) -> list[tuple[str, bytes, str]]:
    """None, right, of wrong types, and a hostile one; as JSON, and as a form for the admin."""
    right = right_body(route, planted)
    hostile = _HOSTILE[number % len(_HOSTILE)]
    if route.startswith("admin/"):
        form = {**right, "action": "export_jsonl", "post": "yes", "query": "planted"}
        text = "&".join(f"{name}={value}" for name, value in form.items())
        kind = "application/x-www-form-urlencoded"
        odd = "&".join(f"{name}=%00&{name}=%ED%A0%80" for name in form)
        return [
            ("none", b"", kind),
            ("right", f"{text}&_selected_action={planted.session.pk}".encode(), kind),
            ("wrong types", odd.encode(), kind),
            ("hostile", hostile, kind),
        ]
    kind = "application/json"
    return [
        ("none", b"", kind),
        ("right", json.dumps(right).encode(), kind),
        ("wrong types", json.dumps(wrong_types(right)).encode(), kind),
        ("hostile", hostile, kind if number % 4 else "application/xml"),
    ]


QUERIES = (
    {"path": IMAGE},
    {"limit": "-1", "cursor": "'", "after": "\x00", "path": "[[", "scope": "own", "q": "planted"},
    {"limit": "9" * 5000, "before": "x", "around": "💥", "format": "\ud7ff", "raw": "maybe"},
)


# --- people --------------------------------------------------------------------------------------


def client_for(person: str) -> Client:
    client = Client(raise_request_exception=False)
    if person == "nobody":
        return client
    user = get_user_model().objects.create_user("somebody", is_staff=person != "stranger")
    if person == "staff with every permission":
        ours = Permission.objects.filter(content_type__app_label="agent_sessions")
        user.user_permissions.set(ours)
    client.force_login(user)
    return client


def kept(planted: Planted) -> tuple[Any, ...]:
    """All that is Ada's, and what was recorded; others may make sessions of their own."""
    ours = str(planted.session.pk.hex)
    found = {
        table: [row for row in values if ours in re.sub(r"[-\s]", "", str(row))]
        for table, values in rows().items()
    }
    owned = Session.objects.filter(owner=planted.session.owner_id).count()
    blobs = list(Blob.objects.values_list("pk", flat=True))
    return found, owned, blobs, AuditEvent.objects.count()


def told(response: Any) -> str:
    text = body_of(response) + str(dict(response.headers))
    return text.lower()


@pytest.fixture(autouse=True)
def site(settings) -> None:
    settings.ROOT_URLCONF = SITE


# Some seconds: two thousand requests each.
@pytest.mark.parametrize("person", PEOPLE)
def test_no_request_of_others_shows_or_changes_anything_or_fails(person, planted) -> None:
    client = client_for(person)
    wrong = []
    for number, route in enumerate(ROUTES):
        if person == PEOPLE[-1] and route.startswith("admin/"):
            # The admin's pages are theirs; the API needs the scope as well.
            continue
        path = path_of(route, planted)
        before = kept(planted)
        requests = [(method, query, ("none", b"", "")) for method in SAFE for query in QUERIES]
        requests += [
            (method, QUERIES[0], body)
            for method in UNSAFE
            for body in bodies(route, planted, number)
        ]
        # Rolled back after each route: others may make sessions of their own.
        with transaction.atomic():
            for method, query, (kind, body, content_type) in requests:
                response = client.generic(
                    method, path, body, content_type=content_type, query_params=query
                )
                seen = {secret for secret in SECRETS if secret in told(response)}
                asked = f"{method} {path} {kind} {query}: {response.status_code}"
                if response.status_code >= 500:
                    wrong.append(asked)
                if seen:
                    wrong.append(f"{asked} shows {seen}")
            if kept(planted) != before:
                wrong.append(f"{path} changes what is Ada's")
            transaction.set_rollback(True)
    assert wrong == []


def test_the_walk_reaches_every_part_of_the_package(planted) -> None:
    assert len(ROUTES) > 60
    for start in ("api/", "v1/", "chat", "admin/agent_sessions/session/"):
        assert any(route.startswith(start) for route in ROUTES)
    paths = [path_of(route, planted) for route in ROUTES]
    assert not [path for path in paths if re.search(r"[<>()?]", path)]


def test_the_owner_is_shown_what_the_others_are_not(planted, ada) -> None:
    # Otherwise the walk would prove nothing.
    client = Client(raise_request_exception=False)
    client.force_login(ada)
    seen: set[str] = set()
    for route in ROUTES:
        if not route.startswith("admin/") and "events" not in route:
            path = path_of(route, planted)
            response = client.get(path, query_params=QUERIES[0])
            text = told(response)
            seen |= {secret for secret in SECRETS if secret in text}
            private = response.headers.get("Cache-Control", "")
            if route not in OF_EVERYBODY:
                assert "no-store" in private, path
                assert "private" in private, path
    assert seen >= {"plantedtext", "plantedtitle", "plantedmetadata", "plantedresult"}
    assert SessionMessage.objects.filter(session=planted.session.pk).exists()
    assert SessionStore(owner=ada).find(planted.session.session_id) is not None


# A superuser's requests of each page, of which few exist.
def test_every_page_of_the_admin_is_private_and_not_stored(planted) -> None:
    user = get_user_model().objects.create_superuser("root")
    client = Client(raise_request_exception=False)
    client.force_login(user)
    for route in ROUTES:
        if route.startswith("admin/"):
            path = path_of(route, planted)
            response = client.get(path, query_params=QUERIES[0])
            assert response.status_code < 500, path
            if response.status_code == 200:
                body_of(response)
                private = response.headers.get("Cache-Control", "")
                assert "no-store" in private, path
                assert "private" in private, path


# Some seconds: over a thousand requests, which are answered.
def test_no_request_of_the_owner_who_is_a_superuser_fails(planted, ada) -> None:
    ada.is_staff = ada.is_superuser = True
    ada.save()
    client = Client(raise_request_exception=False)
    client.force_login(ada)
    wrong = []
    for number, route in enumerate(ROUTES):
        path = path_of(route, planted)
        requests = [("GET", query, ("none", b"", "")) for query in QUERIES]
        requests += [
            (method, QUERIES[0], body)
            for method in UNSAFE
            for body in bodies(route, planted, number)
        ]
        for method, query, (kind, body, content_type) in requests:
            with transaction.atomic():
                # Streams are opened and not read.
                response = client.generic(
                    method, path, body, content_type=content_type, query_params=query
                )
                transaction.set_rollback(True)
            if response.status_code >= 500:
                wrong.append(f"{method} {path} {kind} {query}: {response.status_code}")
    assert wrong == []
