"""A stream ends with the login that it was opened with."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session as LoginSession
from django.test import Client, RequestFactory
from rest_framework.test import force_authenticate

from django_agent_sessions.rest.chat.ai_sdk.stream_writer import CUT, error_end
from django_agent_sessions.rest.chat.ai_sdk.views import ChatView
from django_agent_sessions.rest.events import SessionEventsView
from django_agent_sessions.rest.login_check import LoginCheck

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def checked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionEventsView, "check_seconds", 0.02)
    # A stream that does not end with the login ends here.
    monkeypatch.setattr(SessionEventsView, "max_seconds_wsgi", 2)


@pytest.fixture
def browser(ada) -> Client:
    ada.set_password("old")
    ada.save()
    browser = Client()
    assert browser.login(username=ada.username, password="old")
    return browser


def opened(browser: Client, talk) -> tuple[Any, Iterator[bytes]]:
    response: Any = browser.get(f"/api/sessions/{talk.id}/events/")
    pieces = iter(response.streaming_content)
    assert next(pieces).startswith(b"retry:")
    assert next(pieces).startswith(b"event: ready")
    return response, pieces


def heard(pieces: Iterator[bytes]) -> tuple[bytes, str]:
    """Return all that follows, and the reason of the end."""
    *before, last = [piece for piece in pieces if not piece.startswith(b":")]
    assert last.startswith(b"event: end")
    return b"".join(before), json.loads(last.partition(b"data: ")[2])["reason"]


def test_a_stream_ends_at_a_logout_before_another_message_is_sent(browser, talk) -> None:
    response, pieces = opened(browser, talk)
    other_tab = Client()
    other_tab.cookies = browser.cookies
    other_tab.logout()
    talk.say("not heard")
    assert heard(pieces) == (b"", "login")
    response.close()


def test_a_stream_ends_when_its_user_has_a_new_password(browser, talk, ada) -> None:
    response, pieces = opened(browser, talk)
    ada.set_password("new")
    ada.save()
    talk.say("not heard")
    assert heard(pieces) == (b"", "login")
    response.close()


def test_who_changes_the_password_and_stays_logged_in_opens_another_stream(
    browser, talk, ada
) -> None:
    response, pieces = opened(browser, talk)
    ada.set_password("new")
    ada.save()
    request = RequestFactory().get("/")
    request.session, request.user = browser.session, ada
    update_session_auth_hash(request, ada)
    request.session.save()
    assert heard(pieces)[1] == "login"
    response.close()
    browser.cookies["sessionid"] = request.session.session_key
    response, pieces = opened(browser, talk)
    talk.say("heard")
    assert b"heard" in next(pieces)
    response.close()


def test_a_stream_ends_when_the_login_has_expired_or_was_deleted(browser, talk) -> None:
    response, pieces = opened(browser, talk)
    LoginSession.objects.all().delete()
    assert heard(pieces)[1] == "login"
    response.close()


def test_a_login_that_stays_goes_on(browser, talk) -> None:
    response, pieces = opened(browser, talk)
    talk.say("heard")
    before, reason = heard(pieces)
    assert b"heard" in before
    assert reason == "time"
    response.close()


def request_of(user: Any, token: Any = None) -> Any:
    request = RequestFactory().get("/")
    force_authenticate(request, user, token)
    return SessionEventsView().initialize_request(request)


def test_a_stream_ends_when_its_token_is_deleted(ada) -> None:
    # A row, as the tokens of Django REST framework are.
    token = Group.objects.create(name="token")
    login = LoginCheck(request_of(ada, token))
    assert login.is_valid(login.current_user())
    token.delete()
    assert not login.is_valid(login.current_user())


def test_a_token_that_is_no_row_needs_no_session_of_a_browser(ada) -> None:
    login = LoginCheck(request_of(ada, "a signed token"))
    assert login.is_valid(login.current_user())


@pytest.mark.parametrize(
    "engine", ["db", "cache", "cached_db", "signed_cookies"], ids=lambda name: str(name)
)
def test_every_kind_of_session_is_recognized(
    engine: str, settings, ada, talk, new_password: Callable[[Any], None]
) -> None:
    settings.SESSION_ENGINE = f"django.contrib.sessions.backends.{engine}"
    browser = Client()
    browser.force_login(ada)
    response, pieces = opened(browser, talk)
    talk.say("heard")
    assert b"heard" in next(pieces)
    new_password(ada)
    assert heard(pieces)[1] == "login"
    response.close()


@pytest.fixture
def new_password() -> Callable[[Any], None]:
    def change(user: Any) -> None:
        user.set_password("new")
        user.save()

    return change


@pytest.mark.parametrize("stays", [True, False])
def test_a_streamed_answer_ends_with_the_login_and_its_agent_does_not(
    ada, new_password: Callable[[Any], None], stays: bool
) -> None:
    class Chat(ChatView):
        check_seconds = 0

    closed = []

    async def answer() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            if not stays:
                await sync_to_async(new_password)(ada)
            yield b"two"
        finally:
            closed.append(True)

    async def read() -> list[bytes]:
        view = Chat()
        view.request = request_of(ada)
        return [piece async for piece in view._without_connections(answer())]

    # A client takes a stream that ends without an error for a complete answer.
    end = b"two" if stays else error_end(CUT)
    assert async_to_sync(read)() == [b"one", end]
    # Only this listener: the answer is a task of its own.
    assert closed == [True]
