"""Transcripts of the admin: their content, and how long each takes.

Also run as a program with an earlier version of the package on its path: it reads a line
``<name> <times>`` for each measurement, and writes the seconds of a request.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("SCALE_DATABASE", f"agent_sessions_pages_{os.getpid()}")
os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.scale.settings"

import django

django.setup()

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.test import Client

from benchmarks import postgresql
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore

SHORT, LONG = 50, 10_000
DATABASE = os.environ["SCALE_DATABASE"]

_PROSE = (
    "Here is what I **found** for the trip to *Lisbon*:\n\n"
    "1. The train leaves at `08:15`.\n2. The hotel has a [page](https://example.com/rooms).\n\n"
    "| day | plan |\n|---|---|\n| Monday | old town |\n| Tuesday | the coast |\n\n"
    "```python\nbook(city='Lisbon', nights=3)\n```\n"
)
_QUESTION = "Please look again for the trip to Lisbon, and book what fits best. " * 5


@dataclass(frozen=True)
class Seconds:
    """What one request takes: by the clock, and of the thread's processor time."""

    clock: float
    processor: float


Get = Callable[[], object]


def measured(get: Get, times: int) -> Seconds:
    """Repeat a request, and return what one takes."""
    clock, processor = time.perf_counter(), time.thread_time()
    for _ in range(times):
        get()
    return Seconds((time.perf_counter() - clock) / times, (time.thread_time() - processor) / times)


def getter(user: str, url: str) -> Get:
    """Return a request of a user who is logged in."""
    client = Client()
    client.force_login(get_user_model().objects.get(username=user))

    def get() -> bytes:
        answer = client.get(url)
        assert answer.status_code == 200, (url, answer.status_code)
        return answer.content

    return get


def transcript(name: str) -> Get:
    """Return a request for the page of a conversation by a superuser."""
    key = Session.objects.get(session_id=name).pk
    return getter("staff", f"/admin/agent_sessions/session/{key}/change/")


def fill(long: int) -> None:
    """Make two users, a conversation of either length, and a list of sessions."""
    call_command("migrate", verbosity=0)
    users: Any = get_user_model().objects
    users.create_superuser("staff")
    store = SessionStore(owner=users.create_user("person"))
    for number in range(SHORT):
        store.create(f"listed-{number}", title=f"A trip to Lisbon, number {number}")
    for name, count in (("short", SHORT), ("long", long)):
        agent = store.agents.open(store.create(name), "planner", dialect="strands")
        for start in range(0, count, 500):
            messages = [_message(number) for number in range(start, min(start + 500, count))]
            store.append_many(agent, messages)
    agent = store.agents.open(store.create("texts"), "planner", dialect="strands")
    said = [{"role": "user", "content": [{"text": _QUESTION}]} for _ in range(SHORT)]
    store.append_many(agent, said)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _message(number: int) -> dict[str, Any]:
    """A question, a call of a tool, its result, and an answer in Markdown; in turns."""
    call = {"toolUseId": f"call-{number // 4}", "name": "search"}
    turn: list[tuple[str, list[dict[str, Any]]]] = [
        ("user", [{"text": _QUESTION}]),
        (
            "assistant",
            [{"text": "I search."}, {"toolUse": {**call, "input": {"city": "Lisbon", "days": 3}}}],
        ),
        (
            "user",
            [
                {
                    "toolResult": {
                        "toolUseId": call["toolUseId"],
                        "status": "success",
                        "content": [{"json": {"hotels": ["A", "B"], "trains": 4}}],
                    }
                }
            ],
        ),
        ("assistant", [{"text": _PROSE}]),
    ]
    role, content = turn[number % 4]
    return {"role": role, "content": content}


def main() -> None:
    """Answer measurements until the input ends."""
    with postgresql.database(DATABASE):
        try:
            fill(int(sys.argv[1]))
            pages = {name: transcript(name) for name in ("short", "long")}
            print("ready", flush=True)
            for line in sys.stdin:
                name, times = line.split()
                taken = measured(pages[name], int(times))
                print(taken.clock, taken.processor, flush=True)
        finally:
            connection.close()


if __name__ == "__main__":
    main()
