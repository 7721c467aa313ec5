"""Bodies, queries and headers that mean harm, or that nobody meant: each is refused in clear words.

Whatever is sent, the answer is a problem with a status below 500, and nothing is written.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_agent_sessions.content.detectors import names
from django_agent_sessions.models import AuditEvent, Session, SessionMessage

from .conftest import Talk

pytestmark = pytest.mark.django_db

SECRET = "swordfish"
JSON = "application/json"
LONE = '"\\ud800"'

ROUTES = ("create", "change", "redact", "redact message")


class Caller:
    """Every route that takes a body, asked with whatever bytes."""

    def __init__(self, user: Any, talk: Talk) -> None:
        # Errors of the program are to be answers of 500 here, as they are in production.
        self.client = Client(raise_request_exception=False)
        self.client.force_login(user)
        message = talk.messages[0]
        self.routes = {
            "create": ("POST", "/api/sessions/"),
            "change": ("PATCH", talk.url),
            "redact": ("POST", f"{talk.url}redact/"),
            "redact message": ("POST", f"{message}redact/"),
        }

    def send(self, route: str, body: bytes, content_type: str = JSON, **headers: str) -> Any:
        method, path = self.routes[route]
        return self.client.generic(method, path, body, content_type, headers=headers)

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(path, headers=headers)


@pytest.fixture
def caller(ada, trip, django_user_model) -> Caller:
    ada.is_superuser = True
    ada.save()
    return Caller(ada, trip)


def everything() -> list[Any]:
    """What is in the tables."""
    return [
        list(Session.objects.order_by("pk").values()),
        list(SessionMessage.objects.order_by("pk").values()),
        list(AuditEvent.objects.order_by("pk").values()),
    ]


def problem(answer: Any, *codes: int) -> dict[str, Any]:
    """The problem that was answered, which says nothing of what was sent."""
    assert answer.status_code in codes, (answer.status_code, answer.content[:500])
    assert answer["Content-Type"] == "application/problem+json"
    assert SECRET not in answer.content.decode()
    found: dict[str, Any] = answer.json()
    assert found["status"] == answer.status_code
    assert found["detail"] == found["message"]
    assert len(answer.content) < 10_000
    return found


def nested(levels: int, opening: str, closing: str) -> bytes:
    return (opening * levels + f'"{SECRET}"' + closing * levels).encode()


NO_JSON = {
    "white space": b" \n",
    "cut off": b'{"title": "swordfish',
    "cut off in an escape": b'{"title": "\\ud8',
    "two values": b"{} {}",
    "a comma too many": b'{"title": "swordfish",}',
    "single quotes": b"{'title': 'swordfish'}",
    "NaN": b'{"metadata": {"swordfish": NaN}}',
    "Infinity": b'{"metadata": {"a": Infinity}}',
    "minus Infinity": b'{"metadata": {"a": -Infinity}}',
    "a number too long to read": b'{"metadata": {"a": ' + b"9" * 5001 + b"}}",
    "a key twice": b'{"title": "swordfish", "title": "b"}',
    "a key twice deep inside": b'{"metadata": {"a": [{"swordfish": 1, "swordfish": 2}]}}',
    "Latin-1": b'{"title": "swordfish \xe9"}',
    "UTF-16": '{"title": "swordfish"}'.encode("utf-16"),
    "a surrogate in UTF-8": b'{"title": "swordfish \xed\xa0\x80"}',
    "an overlong NUL": b'{"title": "swordfish \xc0\x80"}',
    "a byte order mark": b'\xef\xbb\xbf{"title": "swordfish"}',
    "a NUL as it is": b'{"title": "swordfish\x00"}',
    "100,000 lists": nested(100_000, "[", "]"),
    "100,000 objects": nested(100_000, '{"a":', "}"),
    "100,000 lists in metadata": b'{"metadata": {"a":' + nested(100_000, "[", "]") + b"}}",
    "100,000 opening brackets": b"[" * 100_000,
    "101 levels": b'{"metadata": ' + nested(101, '{"a":', "}") + b"}",
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON.keys())
def test_a_body_that_is_no_json_is_refused(caller, route, body):
    before = everything()
    problem(caller.send(route, body), 400)
    assert everything() == before


NO_OBJECT = {
    "null": "null",
    "a list": "[]",
    "a list of objects": '[{"title": "swordfish"}]',
    "a string": '"swordfish"',
    "a lone surrogate": LONE,
    "a number": "1",
    "a huge number": "1e400",
    "true": "true",
    "unknown fields": '{"swordfisch": 1, "reason": "why"}',
    "a field with a name of NUL": '{"\\u0000": 1, "reason": "why"}',
    "a field with a name of half a character": '{"\\ud800": 1, "reason": "why"}',
    "a field without a name": '{"": 1, "reason": "why"}',
    "a field of the class": '{"__class__": "swordfish", "reason": "why"}',
    "10,000 fields": json.dumps({f"field-{number}": "swordfish" for number in range(10_000)}),
    "a field of a name of 100,000": json.dumps({"x" * 100_000: 1, "reason": "why"}),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("body", NO_OBJECT.values(), ids=NO_OBJECT.keys())
def test_a_body_that_is_no_object_of_known_fields_is_refused(caller, route, body):
    before = everything()
    found = problem(caller.send(route, body.encode()), 400)
    assert found["errors"]
    assert everything() == before


WRONG: list[tuple[str, str, list[Any]]] = [
    ("create", "external_id", [1, True, None, [], {}, "", " ", ".", "..", "x" * 256, "\x00",
                               "\ud800", "a\nb", "\x85"]),
    ("create", "title", [1, True, None, [], {}, "x" * 256, "\x00", "\ud800"]),
    ("create", "metadata", [1, True, None, [], "swordfish", {"a": "\x00"}, {"\x00": 1}]),
    ("change", "title", [1, False, None, [], {}, "x" * 256, "\x00", "\udfff"]),
    ("change", "metadata", [1, True, None, [], "swordfish"]),
    ("change", "archived", [None, 0, 1, 1.0, "true", "yes", "swordfish", [], {}, 2, "\ud800"]),
    ("change", "expires_at", ["swordfish", 1, True, [], {}, "", "0000-00-00",
                              "2026-13-01T00:00:00Z", "9999-12-31T23:59:59-23:00",
                              "0001-01-01T00:00:00+23:00",
                              "2026-01-01T00:00:00+99:99", "\ud800", "x" * 10_000]),
    ("redact", "find", ["", 1e300, True, None, [], {}, "x" * 10_001, "\ud800"]),
    ("redact", "pattern", [None, 1, "false", "swordfish", [], {}, 2]),
    ("redact", "detectors", [None, "swordfish", {}, 1, ["swordfish"], [1], [None], [["a"]], [{}],
                             ["x"] * 101, ["\ud800"]]),
    ("redact", "reason", [None, "", [], {}, True, "x" * 2001]),
    ("redact message", "path", [None, "swordfish", {}, 1, [None], [1.5], [True], [[]], [{}], [-1],
                                [0] * 21, ["content", 10**4000], ["content", 99],
                                ["swordfish"], ["\ud800"], ["\x00"]]),
    ("redact message", "start", [None, "0", 0.0, "swordfish", [], {}, -1, 1.5, True, 10**4000]),
    ("redact message", "end", [None, "swordfish", [], {}, 0, -1, 1.5, True, 10**4000]),
    ("redact message", "dry_run", [None, "true", 1, "swordfish", [], {}, 2]),
]  # fmt: skip
FILLED: dict[str, dict[str, Any]] = {
    "create": {},
    "change": {},
    "redact": {"reason": "why", "find": "Lisbon"},
    "redact message": {"reason": "why", "path": ["content", 0, "text"], "start": 0, "end": 3},
}


@pytest.mark.parametrize(
    ("route", "name", "value"),
    [(route, name, value) for route, name, values in WRONG for value in values],
    ids=lambda value: ascii(value)[:30],
)
def test_a_value_that_a_field_does_not_take_is_refused_and_the_field_is_named(
    caller, route, name, value
):
    before = everything()
    body = {**FILLED[route], name: value}
    if name == "detectors":
        body.pop("find")
    if name == "path":
        body = {"reason": "why", "path": value}
    problem(caller.send(route, json.dumps(body).encode()), 400)
    assert everything() == before


OTHER_TYPES = [
    "text/plain",
    "application/xml",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json-patch+json",
    "application/jsonx",
    "image/png",
    "/",
    "json",
    "*/*",
]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("content_type", OTHER_TYPES)
def test_a_body_of_another_type_is_refused(caller, route, content_type):
    before = everything()
    body = b'{"reason": "why it is", "find": "Lisbon"}'
    problem(caller.send(route, body, content_type), 415)
    assert everything() == before


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json;x=y"]
)
def test_json_may_be_called_by_any_of_its_names(caller, content_type):
    assert caller.send("create", b"{}", content_type).status_code == 201


@pytest.mark.parametrize("route", ROUTES)
def test_a_body_that_is_too_large_is_refused(caller, route):
    before = everything()
    body = json.dumps({"reason": SECRET * 1_200_000}).encode()
    assert len(body) > 10_000_000
    found = problem(caller.send(route, body), 413)
    assert "at most" in found["detail"]
    assert everything() == before


def test_a_body_as_large_as_is_read_is_read(caller, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    body = b'{"title": "a"}'
    assert caller.send("create", body.ljust(100)).status_code == 201
    problem(caller.send("create", body.ljust(101)), 413)
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = None
    assert caller.send("create", body.ljust(5_000_000)).status_code == 201


def test_metadata_come_back_as_they_were_sent(caller):
    odd: dict[str, Any] = {
        "": None,
        "é": [1, -0.0, 10**30, 1e300],
        "deep": {"a": [[[[{"b": {}}]]]]},
        "🎉": "\t",
    }
    made = caller.send("create", json.dumps({"metadata": odd}).encode()).json()
    assert made["metadata"] == odd
    assert caller.get(f"/api/sessions/{made['id']}/").json()["metadata"] == odd


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
fields = st.sampled_from(
    ["external_id", "title", "metadata", "archived", "expires_at", "find", "pattern", "detectors",
     "reason", "dry_run", "path", "start", "end"]
)  # fmt: skip
fuzzed = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("route", ROUTES)
@fuzzed
@given(body=st.dictionaries(fields, json_values, max_size=5))
def test_no_body_makes_a_server_error(caller, route, body):
    answer = caller.send(route, json.dumps(body).encode())
    assert answer.status_code < 500
    if answer.status_code >= 400:
        assert answer["Content-Type"] == "application/problem+json"
        assert answer.json()["detail"]


@pytest.mark.parametrize("route", ROUTES)
@fuzzed
@given(body=st.binary(min_size=1, max_size=60))
def test_no_bytes_make_a_server_error(caller, route, body):
    problem(caller.send(route, body), 400)


def test_a_body_without_a_length_is_asked_for_one_where_it_cannot_be_read(caller):
    before = everything()
    sent = caller.client.generic(
        "POST", "/api/sessions/", b"", JSON, CONTENT_LENGTH="", HTTP_TRANSFER_ENCODING="chunked"
    )
    problem(sent, 411)
    assert everything() == before


@pytest.mark.parametrize("body", [b"", b"{}"])
def test_nothing_is_needed_to_make_a_session(caller, body):
    assert caller.send("create", body).status_code == 201


@pytest.mark.parametrize("name", names())
def test_every_detector_that_there_is_can_be_asked(caller, name):
    body = json.dumps({"detectors": [name], "dry_run": True}).encode()
    answer = caller.send("redact", body)
    assert answer.status_code in (200, 400), answer.content


@pytest.mark.parametrize(
    "pattern",
    ["(", "*", "\\", "(?P<a>", "[", "a{99999999999}", "(" * 4000 + ")" * 4000, "(?<=a*)b", ""],
)
def test_a_pattern_that_is_none_is_refused(caller, pattern):
    before = everything()
    body = {"find": pattern, "pattern": True, "reason": "why"}
    problem(caller.send("redact", json.dumps(body).encode()), 400)
    assert everything() == before
