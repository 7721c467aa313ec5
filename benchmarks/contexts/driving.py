"""The clients of a server: what they asked for, and what was acknowledged."""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from .servers import Context, Worker

SDKS = ("strands", "openai")
CLIENTS = 3
ROUNDS = 4
RELOADS = 3
_PATIENCE = 45


@dataclass
class Journal:
    """What was said: the texts that were acknowledged, rolled back, and of unknown outcome."""

    acknowledged: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def note(self, kind: str, text: str, done: bool, error: str) -> None:
        """Record the outcome of a request; lists may be appended to by several threads."""
        if kind == "undo" and done:
            self.undone.append(text)
        elif done:
            self.acknowledged.append(text)
        else:
            self.failed.append(text)
            self.errors.append(f"{kind} {text}: {error}")


Ask = Callable[[str, str, str, str], tuple[bool, str]]
"""Ask of a kind, an SDK, a session and a text whether it was done, and for the error."""


def drive(context: Context, port: int, server: Worker) -> Journal:
    """Let clients talk to agents, each with sessions of its own."""
    journal = Journal()
    ask = _by_websocket(port) if context.websocket else _by_http(port)
    kinds = ["atomic", "undo"] if context.refuses else ["atomic", "undo", "async", "plain"]
    if context.websocket:
        kinds.remove("plain")
    stopped = threading.Event()

    def client(number: int) -> None:
        for text, kind, sdk in _plan(kinds, number):
            journal.note(kind, text, *ask(kind, sdk, f"{kind}-{sdk}-{number}", text))
        while context.reloads and not stopped.is_set():
            for text, kind, sdk in _plan(kinds, number, f"{time.monotonic_ns()}-"):
                journal.note(kind, text, *ask(kind, sdk, f"{kind}-{sdk}-{number}", text))

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client, number) for number in range(CLIENTS)]
        for _ in range(RELOADS if context.reloads else 0):
            time.sleep(1.5)
            os.kill(server.process.pid, signal.SIGHUP)
        time.sleep(1.5 if context.reloads else 0)
        stopped.set()
        for each in clients:
            each.result()
    return journal


def _plan(kinds: list[str], client: int, run: str = "") -> Iterator[tuple[str, str, str]]:
    for turn in range(1 if run else ROUNDS):
        for kind in kinds:
            for sdk in SDKS:
                yield f"{run}{kind}-{sdk}-{client}-{turn}", kind, sdk


def _by_http(port: int) -> Ask:
    def ask(kind: str, sdk: str, session: str, text: str) -> tuple[bool, str]:
        url = f"http://127.0.0.1:{port}/{kind}/{sdk}/{session}/{text}"
        try:
            with urllib.request.urlopen(url, timeout=_PATIENCE) as response:
                return response.read().decode() == f"noted {text}", "another answer"
        except urllib.error.HTTPError as error:
            with error:
                return kind == "undo" and error.code == 404, f"HTTP {error.code}"
        except OSError as error:
            return False, repr(error)

    return ask


def _by_websocket(port: int) -> Ask:
    def ask(kind: str, sdk: str, session: str, text: str) -> tuple[bool, str]:
        url = f"ws://127.0.0.1:{port}/{kind}/{sdk}/{session}"
        try:
            with connect(url, open_timeout=_PATIENCE, proxy=None) as socket:
                socket.send(text)
                answer = socket.recv(timeout=_PATIENCE)
        except (OSError, WebSocketException) as error:
            return False, repr(error)
        return answer == ("undone" if kind == "undo" else f"noted {text}"), str(answer)

    return ask
