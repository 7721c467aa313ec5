"""Every way in which a stream ends: only a user's own stop and a whole answer look complete."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session as Login
from django.test import AsyncClient

from django_agent_sessions.models import Participant, Session
from django_agent_sessions.rest.chat.ai_sdk import ChatView, chat_urls
from django_agent_sessions.rest.chat.ai_sdk.answers import ReplayBuffer
from django_agent_sessions.rest.chat.ai_sdk.run_registry import runs
from django_agent_sessions.rest.chat.ai_sdk.runs import DELETED, SHUT_DOWN, STOPPED
from django_agent_sessions.rest.chat.ai_sdk.stream_writer import CUT, DONE, error_end
from django_agent_sessions.store import SessionStore

from .clients import JSON, body, chunks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls(__name__)]


class Slow(ChatView):
    """Says one word after the other, until it is told how to end."""

    check_seconds = 0
    stop_grace_seconds = 0.1
    ending: ClassVar[Any] = None

    async def respond(self, chat):
        for number in range(200):
            yield {"data": f"word{number} "}
            await asyncio.sleep(0.02)
            if number == 5 and self.ending is not None:
                self.ending()


class Result:
    stop_reason = "cancelled"


class Cancelled(ChatView):
    """An agent that the application stops itself, as Strands tells it."""

    async def respond(self, chat):
        yield {"data": "word3 "}
        yield {"result": Result()}


urlpatterns = [*chat_urls(Slow, "slow"), *chat_urls(Cancelled, "cancelled", name="cancelled")]


def ending(user, during, *, api="slow", chat="c-1"):
    """The last chunk of an answer during which something happens."""

    async def main():
        browser = AsyncClient()
        await browser.aforce_login(user)
        sent = body(chat, "Hello")
        answer: Any = await browser.post(f"/{api}", json.dumps(sent), content_type=JSON)
        assert answer.status_code == 200, answer.content
        received, done = b"", False
        async for piece in answer:
            received += piece
            if b"word3" in received and not done:
                done = True
                await during(browser)
        found = chunks(received.decode())
        await asyncio.sleep(0)
        return found[-1]

    return asyncio.run(asyncio.wait_for(main(), 60))


async def nothing(browser):
    pass


def failed(text):
    return {"type": "error", "errorText": text}


def test_a_server_that_shuts_down_ends_an_answer_with_an_error(ada):
    async def shut_down(browser):
        await runs.end()

    assert ending(ada, shut_down) == failed(SHUT_DOWN)


def test_a_logout_ends_a_stream_with_an_error(ada):
    async def log_out(browser):
        await Login.objects.all().adelete()

    assert ending(ada, log_out) == failed(CUT)


def test_a_participant_who_is_removed_has_an_error(ada, bob):
    session = SessionStore(owner=ada).open("s")
    Participant.objects.create(session_id=session.id, user=bob, role=Participant.Role.WRITER)

    async def remove(browser):
        await Participant.objects.all().adelete()

    assert ending(bob, remove, chat=str(session.id)) == failed(CUT)


def test_a_check_that_fails_ends_a_stream_with_an_error(ada, monkeypatch, caplog):
    def broken(*args):
        raise RuntimeError("secret")

    async def fail(browser):
        from django_agent_sessions.rest.chat.ai_sdk import views

        monkeypatch.setattr(views, "_is_logged_in", broken)

    assert ending(ada, fail) == failed(CUT)
    assert "a stream of an answer failed with RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_a_session_that_is_deleted_ends_its_answer_with_an_error(ada):
    async def delete(browser):
        await sync_to_async(lambda: Session.objects.get().delete())()

    assert ending(ada, delete) == failed(DELETED)


def test_an_agent_that_was_cancelled_by_the_application_is_not_complete(ada):
    assert ending(ada, nothing, api="cancelled") == failed(STOPPED)


def test_a_task_that_was_cancelled_by_the_application_is_not_complete(ada, monkeypatch):
    def cancel():
        raise asyncio.CancelledError

    monkeypatch.setattr(Slow, "ending", staticmethod(cancel))
    assert ending(ada, nothing) == failed(STOPPED)


def test_a_user_who_stops_an_answer_has_no_error(ada):
    async def stop(browser):
        assert (await browser.post("/slow/c-1/stop")).status_code == 204

    assert ending(ada, stop) == {"type": "abort"}


def test_an_answer_that_is_cancelled_before_it_begins_has_an_end(ada, monkeypatch):
    begin = runs.__class__.enter

    def enter(self, run, bounds):
        start = run.begin

        def begin_and_cancel():
            start()
            run._task.cancel()

        run.begin = begin_and_cancel
        return begin(self, run, bounds)

    monkeypatch.setattr(runs.__class__, "enter", enter)
    assert ending(ada, nothing) == failed(STOPPED)
    assert runs._by_session == {}


def test_a_reader_who_is_too_slow_has_an_error():
    async def main():
        buffer = ReplayBuffer(100)
        buffer.add(b"x" * 60)
        reader = buffer.follow()
        found = [await anext(reader)]
        for _ in range(5):
            buffer.add(b"y" * 60)
        buffer.close()
        return [*found, *[piece async for piece in reader]]

    assert asyncio.run(main()) == [b"x" * 60, error_end(CUT)]
    assert error_end(CUT).endswith(DONE)
