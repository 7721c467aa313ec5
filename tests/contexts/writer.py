"""A process that talks to agents until it is killed, and tells what was acknowledged.

``python -m tests.contexts.writer SDK SESSION TURNS`` reads names from its input. For each it forks
a child that builds an agent of the session, prints its process id, waits for a line, and talks to
the agent for some turns, a tool call in each. It prints the name and number of a turn once the
agent has answered.
"""

from __future__ import annotations

import os
import sys

import django

django.setup()

from tests.contexts.chats import Call, sdk_named  # noqa: E402 - needs the apps


def lookup(key: str) -> str:
    """Looks something up.

    Args:
        key: What to look up.
    """
    return f"found {key}"


def converse(name: str, session_id: str, turns: int, run: str) -> None:
    steps = [
        step
        for turn in range(turns)
        for step in (Call("lookup", {"key": f"{run}.{turn}"}), f"answer {run}.{turn}")
    ]
    agent = sdk_named(name)(session_id, steps=steps, tools=[lookup])
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    for turn in range(turns):
        agent.say(f"question {run}.{turn}")
        print(f"{run}.{turn}", flush=True)


def main(name: str, session_id: str, turns: int) -> None:
    sdk_named(name)
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            converse(name, session_id, turns, line.strip())
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("ended" if os.waitstatus_to_exitcode(status) in (0, -9) else "failed", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
