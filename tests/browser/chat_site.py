"""The example's own server, and browsers that are logged in to its chat."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from tests.processes import ROOT, unmeasured

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_HIDDEN = {"OPENAI_API_KEY", "OLLAMA_HOST", "TEST_DATABASE", "TEST_DATABASE_NAME"}


class Site:
    """The example's server on a database of its own.

    Args:
        database: The SQLite file.
    """

    def __init__(self, database: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.host = f"127.0.0.1:{self._port}"
        self.url = f"http://{self.host}"
        self.database = database
        kept = {k: v for k, v in unmeasured().items() if not (k in _HIDDEN or k.startswith("AWS_"))}
        self._environment = {
            **kept,
            "DJANGO_SETTINGS_MODULE": "example_project.settings",
            "EXAMPLE_DATABASE": str(database),
            "EXAMPLE_WORD_DELAY": "0.02",
        }
        self._cookies: dict[str, Any] = {}
        seed = [sys.executable, "-m", "tests.browser.chat_seed"]
        subprocess.run(
            seed, cwd=ROOT, env={**self._environment, "EXAMPLE_WORD_DELAY": "0"}, check=True
        )
        self.start()

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "uvicorn", "example_project.asgi:application"),
                *("--port", str(self._port), "--log-level", "error"),
                *("--timeout-graceful-shutdown", "1"),
            ],
            cwd=ROOT,
            env=self._environment,
        )
        for _ in range(1200):
            try:
                urlopen(f"{self.url}/login/", timeout=20).close()  # noqa: S310 - our own
            except OSError:
                assert self._process.poll() is None
                time.sleep(0.1)
            else:
                return
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        """Ends the server without a word."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def stop(self) -> None:
        """Ends the server."""
        self._process.terminate()
        self._process.wait(30)

    def cookies(self, browser: Browser, user: str) -> Any:
        """Logs a user in by the page, the first time."""
        if user not in self._cookies:
            with browser.new_context(base_url=self.url) as context:
                page = context.new_page()
                page.goto("/")
                page.get_by_label("Username").fill(user)
                page.get_by_label("Password").fill(user)
                page.get_by_role("button", name="Log in").click()
                page.get_by_text("Which agent should answer?").wait_for()
                self._cookies[user] = context.storage_state()
        return self._cookies[user]


@pytest.fixture(scope="package")
def chat_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for all tests of the chat."""
    site = Site(tmp_path_factory.mktemp("chat") / "db.sqlite3")
    try:
        yield site
    finally:
        site.stop()


@pytest.fixture
def enter(browser: Browser, chat_site: Site) -> Iterator[Any]:
    """Opens browsers that are logged in; at the end all of them must be clean.

    ``user`` is who is logged in (None: nobody), ``refused`` the statuses that the server may
    answer; other keywords are those of a context of Playwright.
    """
    from .watched import Watch

    opened = []

    def entered(user: str | None = "demo", refused: tuple[int, ...] = (), **options: Any) -> Page:
        common: dict[str, Any] = {
            "base_url": chat_site.url,
            "locale": "en-GB",
            "reduced_motion": "reduce",
            "storage_state": chat_site.cookies(browser, user) if user else None,
        }
        context = browser.new_context(**common | options)
        context.set_default_timeout(10_000)
        page = context.new_page()
        opened.append((context, Watch(page, chat_site.host), refused))
        page.goto("/")
        page.locator("#welcome h2" if user else "[type=password]").first.wait_for()
        return page

    yield entered
    for context, _, _ in opened:
        context.close()
    faults = [
        fault
        for _, watch, refused in opened
        for fault in watch.faults
        if not fault.startswith(tuple(f"{status}:" for status in refused))
    ]
    assert not faults, "\n".join(faults)


def say(page: Page, text: str) -> None:
    """Sends a message."""
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def answered(page: Page) -> None:
    """Waits until nothing is on its way."""
    from playwright.sync_api import expect

    expect(page.locator("#send")).to_be_visible()
    expect(page.locator(".streaming, .pending")).to_have_count(0)


def chat_of(page: Page) -> str:
    """The id of the chat that is open."""
    return str(page.url.rpartition("/")[2])
