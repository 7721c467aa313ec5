"""A background job as ``docs/how-to/celery.md`` writes it, in a worker that tests kill.

``python -m tests.contexts.job SDK SESSION`` reads lines ``TEXT JOB_ID STOP`` from its input. For
each it forks a worker, which prints its process id, runs the job, and prints the answer. If
``STOP`` is the name of a step, the worker prints it when it gets there and waits to be killed, or
to be told to go on by ``SIGUSR1``.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import django

django.setup()

from django.conf import settings

from django_agent_sessions.exceptions import SessionBusyError
from django_agent_sessions.values.owners import NOBODY
from tests.contexts.writer import tell

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "celery.md"
STEPS = ("asked", "called", "returned", "answered")


def recipe() -> dict[str, Any]:
    """Runs the examples of the page."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    namespace: dict[str, Any] = {}
    exec("\n".join(b for b in blocks if "def answer" in b), namespace)  # noqa: S102 - our own page
    return namespace


class Job:
    """A run of an agent that calls a tool and then answers, and stops at a step."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.told = threading.Event()
        signal.signal(signal.SIGUSR1, lambda *_: self.told.set())

    def reach(self, step: str) -> None:
        if step == self.stop:
            tell(step)
            self.told.wait(60)

    def lookup(self, key: str) -> str:
        """Looks something up.

        Args:
            key: What to look up.
        """
        self.reach("called")
        return f"found {key}"

    def strands(self, manager: Any) -> Any:
        import strands

        from tests.adapters.strands import scripted

        def choose(messages: Any) -> Any:
            returned = any("toolResult" in block for block in messages[-1]["content"])
            self.reach("returned" if returned else "asked")
            return "answer" if returned else scripted.call("lookup", key="k")

        return strands.Agent(
            model=scripted.ScriptedModel(choose=choose),
            tools=[strands.tool(self.lookup)],
            session_manager=manager,
            callback_handler=None,
        )

    def openai(self) -> Any:
        import agents

        from tests.adapters.openai_agents import scripted

        job = self

        class Model(scripted.ScriptedModel):
            async def get_response(
                self,
                system_instructions: str | None,
                input: Any,  # noqa: A002 - the SDK's name
                *args: Any,
                **kwargs: Any,
            ) -> Any:
                returned = input[-1].get("type") == "function_call_output"
                job.reach("returned" if returned else "asked")
                self.steps = ["answer" if returned else scripted.call("lookup", key="k")]
                return await super().get_response(system_instructions, input, *args, **kwargs)

        return agents.Agent(
            name="assistant", model=Model(), tools=[agents.function_tool(self.lookup)]
        )


def run(sdk: str, session_id: str, text: str, job_id: UUID, stop: str) -> None:
    job = Job(stop)
    if sdk == "strands":
        answer = recipe()["answer"](job.strands, NOBODY, session_id, text, job_id)
    else:
        answer = recipe()["answer_with_openai"](job.openai(), NOBODY, session_id, text, job_id)
    job.reach("answered")
    tell(answer.strip())


def main(sdk: str, session_id: str) -> None:
    settings.AGENT_SESSIONS = {"LEASE_SECONDS": 1}
    for line in sys.stdin:
        text, job_id, stop = line.split()
        child = os.fork()
        if not child:
            tell(os.getpid())
            try:
                run(sdk, session_id, text, UUID(job_id), stop)
            except SessionBusyError:
                tell("busy")
            finally:
                # Not by the interpreter's end, which would wait for threads of the parent.
                os._exit(0)
        os.waitpid(child, 0)
        tell("ended")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
