"""A browser for the tests of this folder, a site for it, and people who are signed in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import Client, override_settings

from tests.admin.people import staff

from . import chromium
from .chat_site import chat_site, enter

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from pytest_django.live_server_helper import LiveServer

__all__ = ["chat_site", "enter"]

HERE = Path(__file__).parent
EVERYTHING = (
    "view_session",
    "add_session",
    "change_session",
    "delete_session",
    "read_transcript",
    "redact",
    "view_held_copies",
    "export",
    "view_auditevent",
    "view_usagerollup",
    "review_session",
)
MIDDLEWARE = (
    "tests.browser.csp.strict",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
)


@pytest.fixture(scope="session", autouse=True)
def _chromium() -> None:
    """Skips, and says why, where there is no Chromium."""
    if missing := chromium.missing():
        if "REQUIRE_CLIENTS" in os.environ:
            pytest.fail(f"The browser's tests have to run here: {missing}.")
        pytest.skip(f"The browser's tests were not run: {missing}.")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    from .loops import playwright_beside_django

    with playwright_beside_django() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium.executable(), args=list(chromium.ARGUMENTS)
        )
        try:
            yield started
        finally:
            started.close()


@pytest.fixture(scope="package")
def live_server() -> Iterator[LiveServer]:
    """The test project's site, with protection against forged requests and a strict policy."""
    from pytest_django.live_server_helper import LiveServer

    # django-unfold and django-jazzmin themselves need inline styles and scripts.
    inline = {"unfold", "jazzmin"} & {*settings.INSTALLED_APPS}
    with override_settings(MIDDLEWARE=list(MIDDLEWARE[1:] if inline else MIDDLEWARE)):
        server = LiveServer("localhost")
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def clerk(transactional_db: None) -> Any:
    """A member of staff who may do everything of ours, and nothing else."""
    return staff("clerk", *EVERYTHING)


Opener = Callable[..., "Page"]


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer, clerk: Any) -> Iterator[Opener]:
    """Opens pages of a context of their own, signed in; at the end all of them must be clean.

    Keywords are those of a context of Playwright; ``user`` is who is signed in instead of the
    clerk.
    """
    from .watched import Watch

    watches: list[Watch] = []
    contexts = []

    def opened(path: str = "", *, user: Any = None, **options: Any) -> Page:
        context = browser.new_context(
            **{"base_url": live_server.url, "locale": "en-GB", "reduced_motion": "reduce"} | options
        )
        contexts.append(context)
        context.set_default_timeout(10_000)
        client = Client()
        client.force_login(user or clerk)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
        context.add_cookies(
            [{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": live_server.url}]
        )
        page = context.new_page()
        watches.append(Watch(page, live_server.url.removeprefix("http://")))
        if path:
            answer = page.goto(path)
            assert answer is not None
            assert answer.status == 200, f"{path}: {answer.status}"
        return page

    yield opened
    for context in contexts:
        context.close()
    faults = [fault for watch in watches for fault in watch.faults]
    assert not faults, "\n".join(faults)
