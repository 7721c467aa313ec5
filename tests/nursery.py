"""A process that has imported what tests need, and forks into the processes that they start.

To import Django and two SDKs takes seconds; to fork takes milliseconds. A fork is a process like
any other: the one that forks has neither a thread nor a connection, and draws no random number.

``python -m tests.nursery SOCKET`` reads requests from a socket that it inherited. Each is a list
of a module and its arguments, in JSON, and comes with four files: the standard input, output and
error of the new process, and a pipe that is told its id and how it ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading

import django

IMPORTED = (
    "agents",
    "strands.multiagent",
    "django_agent_sessions.adapters.openai_agents",
    "django_agent_sessions.adapters.strands",
)


def fork_for(requests: socket.socket) -> list[str] | None:
    """Forks for each request.

    Returns:
        The request, in the process that was forked for it; None when there are no more.
    """
    # Who waits for the children is forked, too, and ends unseen.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, files, _, _ = socket.recv_fds(requests, 65536, 4)
        if not request:
            return None
        assert threading.active_count() == 1
        if os.fork():
            for file in files:
                os.close(file)
            continue
        requests.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        *standard, told = files
        child = os.fork()
        if child:
            for file in standard:
                os.close(file)
            _wait(child, told)
        os.close(told)
        for number, file in enumerate(standard):
            os.dup2(file, number)
            os.close(file)
        found: list[str] = json.loads(request)
        return found


def _wait(child: int, told: int) -> None:
    os.write(told, f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def main(number: int) -> None:
    django.setup()
    if os.environ.get("TEST_CODEC") == "encryption":
        importlib.import_module("tests.encrypted").install()
    for name in IMPORTED:
        importlib.import_module(name)
    # At its end a process would look through all of it once more.
    gc.collect()
    gc.freeze()
    if request := fork_for(socket.socket(fileno=number)):
        module, *sys.argv[1:] = request
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
