"""Reading server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from django.test import Client

PATIENCE = 20


@dataclass
class Told:
    """One event."""

    name: str
    data: Any
    id: str


@dataclass
class Stream:
    """An open stream, and the id of the last event, as a browser keeps it."""

    response: httpx.Response
    last: str = ""
    comments: int = 0
    _lines: Iterator[str] = field(init=False)

    def __post_init__(self) -> None:
        self._lines = self.response.iter_lines()

    def __iter__(self) -> Iterator[Told]:
        name, data = "message", ""
        for line in self._lines:
            key, _, value = line.partition(": ")
            if line.startswith(":"):
                self.comments += 1
            elif key == "event":
                name = value
            elif key == "id":
                self.last = value
            elif key == "data":
                data += value
            elif not line and data:
                yield Told(name, json.loads(data), self.last)
                name, data = "message", ""

    def next(self, name: str = "message") -> Told:
        """The next event of a name."""
        return next(told for told in self if told.name == name)


class Site:
    """The server, as one user sees it."""

    def __init__(self, address: str, user: Any) -> None:
        browser = Client()
        browser.force_login(user)
        cookies = {key: morsel.value for key, morsel in browser.cookies.items()}
        self.client = httpx.Client(base_url=address, cookies=cookies, timeout=PATIENCE)

    def url(self, session: Any) -> str:
        return f"/api/sessions/{getattr(session, 'id', session)}/events/"

    @contextmanager
    def stream(
        self, session: Any, *, last: str = "", url: str | None = None, **query: str
    ) -> Iterator[Stream]:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "gzip"}
        if last:
            headers["Last-Event-ID"] = last
        url = url or self.url(session)
        with self.client.stream("GET", url, headers=headers, params=query) as response:
            assert response.status_code == 200, response.read()
            yield Stream(response, last)

    def get(self, session: Any, **query: str) -> httpx.Response:
        """Asks for a stream that is refused."""
        return self.client.get(self.url(session), params=query)


def texts(told: Iterable[Told]) -> list[str]:
    return [one.data["parts"][0]["text"] for one in told if one.name == "message"]
