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

from tests.contexts.chats import Call, sdk_named


def lookup(key: str) -> str:
    """Looks something up.

    Args:
        key: What to look up.
    """
    return f"found {key}"


def tell(line: object) -> None:
    """Prints a line as a whole: ``print`` writes its end apart, and a kill may come between."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def converse(name: str, session_id: str, turns: int, run: str) -> None:
    steps = [
        step
        for turn in range(turns)
        for step in (Call("lookup", {"key": f"{run}.{turn}"}), f"answer {run}.{turn}")
    ]
    agent = sdk_named(name)(session_id, steps=steps, tools=[lookup])
    tell(os.getpid())
    sys.stdin.readline()
    for turn in range(turns):
        agent.say(f"question {run}.{turn}")
        tell(f"{run}.{turn}")


def main(name: str, session_id: str, turns: int) -> None:
    sdk_named(name)
    tell("ready")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            converse(name, session_id, turns, line.strip())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        tell("ended" if os.waitstatus_to_exitcode(status) in (0, -9) else "failed")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
