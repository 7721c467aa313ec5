"""Streams under WSGI, where each takes a worker for as long as it lasts."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, connections
from django.test import Client, RequestFactory
from rest_framework.test import force_authenticate

from django_agent_sessions.rest.events import SessionEventsView

from .client import Site, texts

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_message_is_told_and_the_stream_ends_soon(live_server, ada, talk, monkeypatch):
    monkeypatch.setattr(SessionEventsView, "max_seconds_wsgi", 3)
    site = Site(live_server.url, ada)

    def later() -> None:
        talk.say("Hello")
        connections.close_all()

    with site.client, site.stream(talk) as stream:
        stream.next("ready")
        thread = threading.Thread(target=later)
        thread.start()
        told = list(stream)
        thread.join()
    assert texts(told) == ["Hello"]
    assert told[-1].data == {"reason": "time"}


def test_a_stream_does_not_hold_the_connection_of_the_thread_that_it_takes(ada, talk, settings):
    settings.SESSION_SAVE_EVERY_REQUEST = True
    browser = Client()
    browser.force_login(ada)
    response: Any = browser.get(f"/api/sessions/{talk.id}/events/")
    assert response.status_code == 200
    # The middleware that saved the session of the login used it after the view.
    connection.ensure_connection()
    pieces = iter(response.streaming_content)
    assert next(pieces).startswith(b"retry:")
    assert connection.connection is None
    response.close()


class OnlyOne(SessionEventsView):
    max_streams = 1


def test_a_stream_that_nobody_read_gives_its_place_back(ada, talk):
    def ask() -> Any:
        request = RequestFactory().get("/")
        force_authenticate(request, ada)
        return async_to_sync(OnlyOne.as_view())(request, session=str(talk.id))

    first = ask()
    assert first.status_code == 200
    assert ask().status_code == 429
    # The client left before the first byte: the generator was never started, and is kept here.
    first.close()
    second = ask()
    assert second.status_code == 200
    second.close()


def test_a_reading_that_cannot_be_recorded_gives_its_place_back(ada, talk):
    class Unrecorded(OnlyOne):
        fails = True

        def record_access(self, *args: Any, **details: Any) -> None:
            if self.fails:
                raise RuntimeError("no room in the audit")

    def ask(fails: bool) -> Any:
        request = RequestFactory().get("/")
        force_authenticate(request, ada)
        view = Unrecorded.as_view(fails=fails)
        return async_to_sync(view)(request, session=str(talk.id))

    with pytest.raises(RuntimeError) as kept:
        ask(True)
    answer = ask(False)
    assert (answer.status_code, kept.type) == (200, RuntimeError)
    answer.close()
