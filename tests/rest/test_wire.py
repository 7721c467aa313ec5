"""Requests as they come over the wire to a real ASGI server: chunked, odd, hostile."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from django_agent_sessions.models import Session

from .conftest import Talk
from .fuzzed_run import SETTINGS
from .planted import PIXEL
from .server import Server

pytestmark = pytest.mark.django_db(transaction=True)
LIMIT = 2_621_440
"""Django's ``DATA_UPLOAD_MAX_MEMORY_SIZE``."""


@pytest.fixture(scope="module")
def server(django_db_setup, tmp_path_factory, other_process) -> Iterator[str]:
    errors = tmp_path_factory.mktemp("server") / "errors.log"
    with Server(SETTINGS, errors) as site:
        yield site.url
    # Not one traceback in all these tests.
    assert errors.read_text() == ""


@pytest.fixture
def talk(ada) -> Talk:
    talk = Talk(ada, "Where to?", "To Lisbon.")
    image = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
    talk.say({"role": "user", "content": [{"text": "Look"}, image]})
    return talk


@pytest.fixture
def http(server, talk) -> Iterator[httpx.Client]:
    headers = {"Authorization": "Bearer ada"}
    with httpx.Client(base_url=server, headers=headers, timeout=60) as client:
        yield client


def problem(answer: httpx.Response, *codes: int) -> dict[str, Any]:
    assert answer.status_code in codes, (answer.status_code, answer.text[:300])
    assert answer.headers["Content-Type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == answer.status_code
    return found


def pieces(size: int, count: int) -> Iterator[bytes]:
    yield b'{"title": "'
    for _ in range(count):
        yield b"x" * size
    yield b'"}'


def test_a_body_of_unknown_length_is_read_as_far_as_is_allowed(http):
    made = http.post("/api/sessions/", content=pieces(10, 3), headers=_JSON)
    assert (made.status_code, made.json()["title"]) == (201, "x" * 30)
    nothing = http.post("/api/sessions/", content=iter(()))
    assert (nothing.status_code, nothing.json()["title"]) == (201, "")
    found = problem(http.post("/api/sessions/", content=pieces(100_000, 40), headers=_JSON), 413)
    assert str(LIMIT) in found["detail"]
    assert Session.objects.count() == 3


_JSON = {"Content-Type": "application/json"}


def test_a_body_is_as_large_as_it_is_whatever_its_length_says(http, server):
    # More than was promised is the next request, and no part of this one.
    body = b'{"title": "a"}'
    answer = raw(server, b"POST /api/sessions/ HTTP/1.1", body + b"x" * 50, length=len(body))
    assert answer.startswith(b"HTTP/1.1 201")
    # What is announced as too large is not waited for.
    answer = raw(server, b"POST /api/sessions/ HTTP/1.1", body, length=10**12, stay=False)
    assert not answer.startswith(b"HTTP/1.1 2")


def raw(server: str, line: bytes, body: bytes = b"", *, length: int | None = None,
        stay: bool = True) -> bytes:  # fmt: skip
    """Sends a request as it is."""
    parts = urlsplit(server)
    head = [
        line,
        b"Host: localhost",
        b"Authorization: Bearer ada",
        b"Content-Type: application/json",
        b"Content-Length: %d" % (len(body) if length is None else length),
        b"Connection: close",
    ]
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
        if not stay:
            connection.shutdown(socket.SHUT_WR)
        found = b""
        while received := connection.recv(65536):
            found += received
    return found


PATHS = [
    "/api/sessions/%00/",
    "/api/sessions/a%00b/messages/",
    "/api/sessions/%zz/",
    "/api/sessions/%/",
    "/api/sessions/%ff%fe/",
    "/api/sessions/%ed%a0%80/",
    f"/api/sessions/{'a' * 5000}/",
    f"/api/sessions/{'0' * 32}/",
    "/api/sessions/{session}/agents/%00/",
    "/api/sessions/{session}/agents/%ff/",
    "/api/sessions/{session}/agents/%ed%a0%80/",
    "/api/sessions/{session}/agents/a%2fb/",
    "/api/sessions/{session}/agents/" + "%c3%a9" * 3000 + "/",
    "/api/sessions/{session}/multi-agents/%0F%60%7F%0A/",
    "/api/sessions/{session}/multi-agents/%00/",
    "/api/sessions/{session}/multi-agents/%F0%9F%8E%89/",
    "/api/messages/%00/",
    "/api/messages/-1/",
    "/api/messages/{session}/",
    "/api/messages/1e5/media/?path=[]",
]


@pytest.mark.parametrize("path", PATHS)
def test_what_no_id_can_be_is_not_found(http, server, talk, path):
    path = path.replace("{session}", str(talk.session.id))
    answer = raw(server, f"GET {path} HTTP/1.1".encode())
    assert answer.startswith(b"HTTP/1.1 404"), answer[:300]
    assert b"application/problem+json" in answer


@pytest.mark.parametrize(
    "path", ["/api/sessions/..%2f..%2fetc/", "/api/sessions/a%0d%0ab/", "/api/x/"]
)
def test_what_is_no_address_of_the_api_is_not_found_as_elsewhere_on_the_site(http, server, path):
    assert raw(server, f"GET {path} HTTP/1.1".encode()).startswith(b"HTTP/1.1 404")


QUERIES = [
    "limit=%00", "limit=-1", "limit=1e3", "limit=" + "9" * 5000, "limit=", "limit=1&limit=0",
    "limit=%D9%A3", "cursor=%00", "cursor=", "cursor=a:b:c", "cursor=" + "a" * 5000,
    "cursor=eyJhIjoxfQ:1:x", "after=%00", "after=", "after=" + "0" * 32, "after=%ff",
]  # fmt: skip
OF_SESSIONS = [
    "external_id=", "external_id=%00", "external_id=" + "a" * 256,
    "session_id=%00", "agent=", "agent=%00", "archived=", "archived=1", "archived=%00",
    "created_after=", "created_after=%00", "created_before=0001-01-01T00:00:00%2B14:00",
    "created_before=9999-12-31T23:59:59-14:00", "active_after=2026-02-30T00:00:00Z",
    "active_before=2026-01-01", "q=" + "a" * 501,
]  # fmt: skip
OF_MESSAGES = [
    "before=%00", "around=x", "around=", "order=", "order=ASC", "order=%00", "raw=1", "raw=",
    "after={message}&before={message}", "q=" + "a" * 501,
]  # fmt: skip
NOT_FOUND = ["scope=", "scope=%00", "scope=ALL", "scope=all", "scope=own&scope=everybody",
             "format=xml", "format=%00"]  # fmt: skip


@pytest.mark.parametrize("query", [*QUERIES, *OF_SESSIONS])
def test_a_query_of_sessions_that_cannot_be_is_refused(http, query):
    found = problem(http.get(f"/api/sessions/?{query}"), 400)
    assert query.partition("=")[0] in found["errors"]


@pytest.mark.parametrize("query", [*QUERIES, *OF_MESSAGES])
def test_a_query_of_messages_that_cannot_be_is_refused(http, talk, query):
    query = query.replace("{message}", talk.messages[0].split("/")[-2])
    if query.startswith("after=0000"):
        # A place where no message is, which is a place all the same.
        assert http.get(f"{talk.url}messages/?{query}").status_code in (200, 400)
        return
    found = problem(http.get(f"{talk.url}messages/?{query}"), 400)
    assert query.partition("=")[0] in found["errors"]


@pytest.mark.parametrize("path", ["", "usage/", "export/", "events/"])
@pytest.mark.parametrize("name", ["As", "lastEventId", "frmo", "x"])
def test_a_misspelled_parameter_of_a_session_is_refused(http, talk, path, name):
    found = problem(http.get(f"{talk.url}{path}?{name}=1"), 400)
    assert "Unknown parameter" in found["errors"][name][0]


@pytest.mark.parametrize("query", NOT_FOUND)
def test_a_scope_or_format_that_there_is_not_is_refused(http, talk, query):
    code = 400 if query.startswith("scope") and query != "scope=all" else 404
    for path in ("/api/sessions/", talk.url, f"{talk.url}messages/", talk.messages[0]):
        problem(http.get(f"{path}?{query}"), code)
    problem(http.post(f"/api/sessions/?{query}", json={}), code)


@pytest.mark.parametrize(
    "query",
    ["q=%00", "q=%ed%a0%80", "q=%25%5f%5c", "q=%22*%22+AND+NOT", "q='+OR+1=1--", "&&&",
     "agent=%00", "external_id=%ed%a0%80", "q=%F0%9F%8E%89", "q=" + "%26" * 500],
)  # fmt: skip
def test_whatever_is_looked_for_is_only_text(http, talk, query):
    if not query.startswith("external_id"):
        assert http.get(f"{talk.url}messages/?{query}").status_code == 200
    if not query.startswith("agent"):
        assert http.get(f"/api/sessions/?{query}").status_code == 200


@pytest.mark.parametrize("query", ["x=%00", "%00=1", "&&&=", "%ed%a0%80=1", "Q=x"])
def test_a_parameter_that_there_is_not_is_refused(http, talk, query):
    for path in ("/api/sessions/", f"{talk.url}messages/"):
        found = problem(http.get(f"{path}?{query}"), 400)
        assert len(found["errors"]) == 1


@pytest.mark.parametrize(
    "path",
    ["", "null", "1", '"a"', "[", "[1.5]", "[true]", "[null]", "[[]]", "%00", "[" * 100_00, "[-1",
     "%ed%a0%80", "[NaN]", "{}"],
)  # fmt: skip
def test_a_path_of_media_that_is_none_is_refused(http, talk, path):
    found = problem(http.get(f"{talk.messages[-1]}media/?path={path}"), 400)
    assert "path" in found["errors"]


@pytest.mark.parametrize(
    "path", ["[]", "[99]", '["content",-1]', '["content",0]', f"[{'9' * 4000}]", '["\\ud800"]']
)
def test_a_path_that_leads_to_no_media_is_not_found(http, talk, path):
    problem(http.get(f"{talk.messages[-1]}media/", params={"path": path}), 404)


@pytest.mark.parametrize(
    "tags", ["", "no tag", '"', "W/", '"a', "'a'", "\u00e9".encode(), b"\xff", "*a", "x" * 5000]
)
def test_an_if_match_that_is_none_is_refused_and_nothing_is_changed(http, talk, tags):
    sent = http.patch(talk.url, json={"title": "changed"}, headers=[("If-Match", tags)])
    problem(sent, 400)
    assert Session.objects.get(pk=talk.session.id).title == "A trip"


@pytest.mark.parametrize("tags", ['"other"', 'W/"other"', ", ".join(['"a"'] * 300)])
def test_an_if_match_of_another_answer_is_refused(http, talk, tags):
    problem(http.patch(talk.url, json={"title": "b"}, headers={"If-Match": tags}), 412)
    assert Session.objects.get(pk=talk.session.id).title == "A trip"
    # As a proxy that compresses makes it: the tag is of the content.
    weak = f"W/{http.get(talk.url).headers['ETag']}"
    changed = http.patch(talk.url, json={"title": "a"}, headers={"If-Match": weak})
    assert changed.status_code == 200
    assert http.patch(talk.url, json={"title": "b"}, headers={"If-Match": "*"}).status_code == 200


@pytest.mark.parametrize(
    ("accept", "code"),
    [("*/*", 200), ("application/json", 200), ("application/*;q=0.1", 200), ("", 200),
     ("application/json, application/problem+json", 200), ("text/html", 406), ("a", 406),
     ("text/html;" * 100, 200), ("image/png", 406)],
)  # fmt: skip
def test_only_json_is_given_to_whoever_accepts_it(http, talk, accept, code):
    answer = http.get(talk.url, headers={"Accept": accept})
    assert answer.status_code == code
    if code == 406:
        problem(answer, 406)


@pytest.mark.parametrize("accept", ["*/*", "text/markdown", "text/*", "application/json"])
def test_an_export_is_given_to_whoever_accepts_its_format_or_any(http, talk, accept):
    answer = http.get(f"{talk.url}export/", headers={"Accept": accept})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"


@pytest.mark.parametrize("accept", ["*/*", "image/*", "image/png", "image/avif,image/webp"])
def test_an_image_is_given_to_a_browser_whatever_kinds_it_prefers(http, talk, accept):
    address = f"{talk.messages[-1]}media/"
    answer = http.get(address, params={"path": '["content", 1]'}, headers={"Accept": accept})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "image/png"
    assert answer.content == PIXEL


@pytest.mark.parametrize(
    "headers",
    [{"Range": "bytes=0-1"}, {"Range": "bytes=99999-"}, {"Range": "x"}, {"If-None-Match": "x"},
     {"If-Modified-Since": "x"}, {"X-HTTP-Method-Override": "DELETE"}, {"Expect": "x"},
     {"Accept-Language": "\\" * 500}, {"Accept-Encoding": "x;q=y"}, {"Cookie": "sessionid=%00;="},
     {"Origin": "null"}, {"Content-Type": "x"}, {"X-Forwarded-Host": "evil.example"}],
)  # fmt: skip
def test_headers_that_mean_nothing_here_change_nothing(http, talk, headers):
    plain, odd = http.get(talk.url), http.get(talk.url, headers=headers)
    assert odd.status_code == 200
    assert odd.json() == plain.json()
    assert Session.objects.filter(pk=talk.session.id).exists()


@pytest.mark.parametrize(
    ("path", "method"),
    [("", "PUT"), ("", "POST"), ("", "TRACE"), ("", "BREW"), ("usage/", "POST"), ("redact/", "GET"),
     ("messages/", "POST"), ("export/", "DELETE"), ("agents/", "PATCH")],
)  # fmt: skip
def test_a_method_that_there_is_not_is_refused_with_those_that_there_are(http, talk, path, method):
    answer = http.request(method, f"{talk.url}{path}", content=b"\x00", headers=_JSON)
    problem(answer, 405)
    assert "GET" in answer.headers["Allow"] or "POST" in answer.headers["Allow"]


@pytest.mark.parametrize("token", ["", "Bearer", "Bearer nobody", "Basic YWRh", "Bearer \u00e9"])
def test_a_login_that_is_none_comes_before_all_else(server, talk, token):
    headers = {"Authorization": token.encode()}
    for path in ("/api/sessions/", talk.url, "/api/sessions/x/", f"{talk.messages[0]}media/"):
        answer = httpx.get(f"{server}{path}", headers=headers)
        problem(answer, 401)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    answer = httpx.post(f"{server}/api/sessions/", content=b"{" * 1000, headers={**_JSON})
    problem(answer, 401)


def test_deep_json_in_a_body_is_refused_by_a_thread_of_the_server_too(http):
    deep = b'{"metadata": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    problem(http.post("/api/sessions/", content=deep, headers=_JSON), 400)
    wide = json.dumps({"metadata": {str(number): [] for number in range(4_000)}}).encode()
    assert http.post("/api/sessions/", content=wide, headers=_JSON).status_code == 201
