"""A process outside of a test run that lets threads talk to agents.

``python -m tests.contexts.load SDK CALLS THREADS`` prints ``ready``, waits for a line, prints the
number of the calls that are done after each of them, and ``done`` at the end; then it stays,
idle, until it is given another line. ``PAUSE_AT`` names a call after which it waits for a line too.
The threads open no connection of their own, and take turns far more often than they would, so that
what one must not do to another shows.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import django

django.setup()

from tests.contexts.chats import sdk_named


def main(name: str, calls: int, threads: int) -> None:
    sys.setswitchinterval(2e-5)
    sdk = sdk_named(name)
    agents = threading.local()

    def call(number: int) -> None:
        # Each thread has a conversation of its own.
        if not hasattr(agents, "own"):
            agents.own = sdk(f"load-{threading.get_ident()}")
        assert agents.own.say(f"text {number}") == f"You said: text {number}"
        print(number, flush=True)
        if os.environ.get("PAUSE_AT") == str(number):
            sys.stdin.readline()

    print("ready", flush=True)
    sys.stdin.readline()
    pool = ThreadPoolExecutor(threads)
    list(pool.map(call, range(calls)))
    print("done", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
