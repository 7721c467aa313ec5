"""Streamed answers on real servers: none is lost in silence."""

from __future__ import annotations

import http.client
import logging
from collections.abc import Iterator
from urllib.parse import urlencode, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_agent_sessions.models import Session

from .chats import NAMES, said, turns
from .streams import first_word_was_read, parts_of
from .test_views import uvicorn_server

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.contexts.streams"),
]


@pytest.fixture(params=["wsgi", "asgi"])
def server(request, live_server) -> Iterator[tuple[str, str]]:
    """The kind of a server and its address: Django's own, as of ``runserver``, or uvicorn."""
    if request.param == "wsgi":
        yield "wsgi", live_server.url
        return
    with uvicorn_server() as get:
        yield "asgi", get.address


def post(
    address: str, path: str, text: str, *, all_at_once: bool = False
) -> tuple[int, list[bytes]]:
    """Posts a text as the user ada; returns the status, and what arrived until it broke off.

    The model waits until the first word was read, unless all is expected at once.
    """
    client = Client()
    client.force_login(User.objects.get_or_create(username="ada")[0])
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Cookie": f"sessionid={client.cookies['sessionid'].value}",
    }
    first_word_was_read.clear()
    if all_at_once:
        first_word_was_read.set()
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    try:
        connection.request("POST", path, urlencode({"text": text}), headers)
        response = connection.getresponse()
        return response.status, list(parts_of(response))
    finally:
        connection.close()


@pytest.mark.parametrize("sdk", NAMES)
def test_the_recipe_of_each_server_streams_word_by_word(sdk, server):
    kind, address = server

    status, parts = post(address, f"/{kind}/{sdk}/s", "hello")

    assert (status, b"".join(parts).strip()) == (200, b"You said: hello")
    assert len(parts) > 1
    assert said("s") == turns("hello")
    assert Session.objects.filter(owner__username="ada").count() == 1


@pytest.mark.parametrize("sdk", NAMES)
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume")
def test_the_recipe_of_the_other_server_answers_all_at_once(sdk, server):
    kind, address = server
    other = {"wsgi": "asgi", "asgi": "wsgi"}[kind]

    status, parts = post(address, f"/{other}/{sdk}/s", "hello", all_at_once=True)

    assert (status, b"".join(parts).strip()) == (200, b"You said: hello")
    assert said("s") == turns("hello")


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume")
def test_a_run_whose_loop_has_ended_is_an_error_in_the_answer_and_in_the_log(live_server, caplog):
    with caplog.at_level(logging.ERROR, "django_agent_sessions"):
        status, _ = post(live_server.url, "/view/openai/s", "a secret")

    assert status == 500
    [record] = [each for each in caplog.records if each.name == "django_agent_sessions"]
    assert "'s'" in record.getMessage()
    assert "generator" in record.getMessage()
    assert "secret" not in record.getMessage()
    assert said("s") == []


def test_the_same_run_under_asgi_is_stored():
    with uvicorn_server() as get:
        status, parts = post(get.address, "/view/openai/s", "hello")

    assert (status, b"".join(parts)) == (200, b"You said: hello")
    assert said("s") == turns("hello")
