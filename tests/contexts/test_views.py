"""Views under WSGI and ASGI, called by Django's test clients and by real servers."""

from __future__ import annotations

import asyncio
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.test import AsyncClient, Client

from .chats import said, turns

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.contexts.views"),
]


class Get:
    """Gets a path from a site; ``address`` is that of a real server."""

    def __init__(self, get: Callable[[str], tuple[int, str]], address: str = "") -> None:
        self._get = get
        self.address = address

    def __call__(self, url: str) -> tuple[int, str]:
        return self._get(url)


@pytest.fixture(params=[False, True], ids=["", "atomic-requests"])
def atomic_requests(request, monkeypatch) -> bool:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", request.param)
    return bool(request.param)


def get_over_http(address: str) -> Get:
    def get(url: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{address}/{url}", timeout=30) as response:  # noqa: S310 - our own server
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, ""

    return Get(get, address)


@contextmanager
def client() -> Iterator[Get]:
    def get(url: str) -> tuple[int, str]:
        response = Client().get(f"/{url}")
        return response.status_code, response.content.decode()

    yield Get(get)


@contextmanager
def async_client() -> Iterator[Get]:
    """A client in a loop of this thread; sync views run in a thread beside it."""

    async def aget(url: str) -> tuple[int, str]:
        response = await AsyncClient().get(f"/{url}")
        return response.status_code, response.content.decode()

    yield Get(lambda url: asyncio.run(aget(url)))

    async def close() -> None:
        await sync_to_async(connections.close_all)()

    asyncio.run(close())


@contextmanager
def uvicorn_server() -> Iterator[Get]:
    server = uvicorn.Server(
        uvicorn.Config(ASGIHandler(), port=0, lifespan="off", ws="none", log_level="error")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            threading.Event().wait(0.01)
        (port,) = {s.getsockname()[1] for one in server.servers for s in one.sockets}
        yield get_over_http(f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture(params=["client", "wsgi-server", "async-client", "uvicorn"])
def get(request) -> Iterator[Get]:
    """Gets a path from the site, from an in-process client or from a real server in a thread."""
    if request.param == "wsgi-server":
        yield get_over_http(request.getfixturevalue("live_server").url)
        return
    road = {"client": client, "async-client": async_client, "uvicorn": uvicorn_server}
    with road[request.param]() as get:
        yield get


@pytest.mark.parametrize("view", ["sync", "bridging", "async", "building"])
def test_a_conversation_over_several_requests(sdk, get, view, atomic_requests):
    assert get(f"{view}/{sdk.name}/s/one") == (200, "You said: one")
    assert said("s") == turns("one")
    assert get(f"{view}/{sdk.name}/s/two") == (200, "You said: two")
    assert said("s") == turns("one", "two")


@pytest.mark.parametrize("view", ["sync", "bridging"])
def test_a_view_that_fails_after_its_agent_ran(sdk, get, view, atomic_requests):
    assert get(f"{view}/{sdk.name}/s/one?fail=1")[0] == 404

    assert said("s") == ([] if atomic_requests else turns("one"))


@pytest.mark.parametrize("view", ["async", "building"])
def test_an_async_view_has_no_transaction_and_keeps_everything(sdk, get, view):
    assert get(f"{view}/{sdk.name}/s/one?fail=1")[0] == 404

    assert said("s") == turns("one")


@pytest.mark.parametrize("view", ["sync", "async"])
@pytest.mark.parametrize("get", ["wsgi-server", "uvicorn"], indirect=True)
def test_many_requests_at_once(sdk, get, view, atomic_requests):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: get(f"{view}/{sdk.name}/s-{n}/hello"), range(16)))

    assert answers == [(200, "You said: hello")] * 16
    assert [said(f"s-{n}") for n in range(16)] == [turns("hello")] * 16
