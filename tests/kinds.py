"""What ``make test`` leaves to ``make test-all``.

A test that needs more than this process and SQLite has a marker that says what. ``make test`` takes
those without one and tells how many of each kind it left. A test without a marker that starts a
process fails there, so that the division stays true.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import hypothesis
import pytest

from django_agent_sessions.content import codec

from .encrypted import NEED_PLAIN_TEXT
from .scoped import NAME_THE_EMPTY_SCOPE, SCOPE
from .sealed import ASK_STORED_TEXT

KINDS = {
    "browser": "shows pages in Chromium",
    "node": "runs JavaScript under Node",
    "process": "starts another process: a server, a command, or one that is killed",
    "large": "takes megabytes, or thousands of rows or requests",
}
IN_PROCESS = "in_process"
"""Marks all other tests, which ``make test`` runs."""

_left: Counter[str] = Counter()


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers, and lets SIGINT interrupt."""
    for kind, meaning in KINDS.items():
        config.addinivalue_line("markers", f"{kind}: {meaning}")
    config.addinivalue_line("markers", f"{IN_PROCESS}: needs nothing of that")
    # A shell without job control has what it runs in the background ignore it, and each process
    # that is started from here would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Gives ``-n auto`` one worker more than processors, because tests wait as well, up to five.

    A container may have less of its processors than it sees, and each worker imports everything.
    """
    return min(os.cpu_count() or 1, 4) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests whose folder or fixtures say of which kind they are."""
    for item in items:
        for kind in ("browser", "node"):
            if item.nodeid.startswith(f"tests/{kind}/"):
                item.add_marker(kind)
        if "other_process" in getattr(item, "fixturenames", ()):
            item.add_marker("process")
        if not any(map(item.get_closest_marker, KINDS)):
            item.add_marker(IN_PROCESS)
    left = (
        *({} if codec.is_plain() else NEED_PLAIN_TEXT if codec.hides_text() else ASK_STORED_TEXT),
        *(NAME_THE_EMPTY_SCOPE if SCOPE else {}),
    )
    items[:] = [item for item in items if not item.nodeid.startswith(left)]
    if hasattr(config, "workerinput"):
        # What waits longest is begun first, so that no worker is left with it in the end.
        long = {item.path for item in items if any(map(item.get_closest_marker, KINDS))}
        items.sort(key=lambda item: item.path not in long)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Counts what is left out, once for each test."""
    for item in items:
        _left.update([kind for kind in KINDS if item.get_closest_marker(kind)][:1])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tells the process that began the run, where this is a worker of pytest-xdist."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = dict(_left)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes over what a worker counted; all of them count the same."""
    _left.update(Counter(getattr(node, "workeroutput", {}).get("left", {})) - _left)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was left out."""
    if _left:
        terminalreporter.section("left to make test-all")
    for kind in KINDS:
        if _left[kind]:
            terminalreporter.write_line(f"{_left[kind]:5} {kind}: {KINDS[kind]}")
    if _left:
        tried = hypothesis.settings().max_examples
        terminalreporter.write_line(f"and more than {tried} examples of each Hypothesis property")


@pytest.fixture(scope="session", autouse=True)
def _walled(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lets no test start a process that ``make test`` runs."""
    with pytest.MonkeyPatch.context() as patch:
        if request.config.option.markexpr == IN_PROCESS:
            # Asks `uname` once per process. The client of OpenAI calls it with its first request.
            platform.platform()
            for owner, name in _STARTS:
                patch.setattr(owner, name, _refuse)
        yield


# Not by an audit hook: one in Python lets other threads run inside of calls that else do not.
_STARTS: tuple[tuple[Any, str], ...] = (
    (subprocess.Popen, "_execute_child"),
    (os, "fork"),
    (os, "posix_spawn"),
)


def _refuse(*_: Any, **__: Any) -> None:
    # Nothing that the test calls takes it for an error of its own.
    raise pytest.fail.Exception("It starts a process: mark it with `process`.")
