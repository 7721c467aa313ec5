"""No garbage is collected while another thread's stack is read, where that crashes Python."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from django_agent_sessions.db import thread_frames

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="Python collects between two instructions only, from 3.12"
)


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


def test_nothing_is_collected_until_the_last_look_ends() -> None:
    first, second = threading.Event(), threading.Event()
    seen: list[bool] = []

    def look() -> None:
        with thread_frames.paused_gc():
            first.set()
            second.wait(10)
            seen.append(gc.isenabled())

    thread = threading.Thread(target=look)
    thread.start()
    first.wait(10)
    with thread_frames.paused_gc():
        seen.append(gc.isenabled())
    seen.append(gc.isenabled())
    second.set()
    thread.join()

    assert seen == [False] * 3
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with thread_frames.paused_gc():
        pass

    assert not gc.isenabled()


@pytest.mark.process
def test_a_child_of_a_process_that_looked_collects_its_garbage() -> None:
    with thread_frames.paused_gc():
        child = os.fork()
        if not child:
            os._exit(0 if gc.isenabled() else 1)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


def test_stacks_are_read_without_a_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    current_frames = sys._current_frames
    collecting: list[bool] = []

    def look() -> dict[int, FrameType]:
        collecting.append(gc.isenabled())
        return current_frames()

    monkeypatch.setattr(sys, "_current_frames", look)
    here = threading.get_ident()
    thread_frames.local_variables(here, look.__code__, "here")

    assert collecting == [False]
