"""A process that works on a conversation beside others.

``python -m tests.concurrency.worker append|append-many|pop|append-and-pop SESSION COUNT NUMBER``
"""

from __future__ import annotations

import sys

import django

django.setup()

from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord


def append(store: SessionStore, agent: AgentRecord, text: str) -> None:
    store.append(agent, {"role": "user", "content": text})
    # Printed after the store acknowledged it.
    print(text)


def append_many(store: SessionStore, agent: AgentRecord, text: str) -> None:
    texts = [f"{text}-{part}" for part in range(5)]
    store.append_many(agent, [{"role": "user", "content": text} for text in texts])
    print(*texts, sep="\n")


def pop(store: SessionStore, agent: AgentRecord, text: str) -> None:
    taken = store.pop(agent)
    assert taken is not None
    print(taken["content"])


def append_and_pop(store: SessionStore, agent: AgentRecord, text: str) -> None:
    store.append(agent, {"role": "user", "content": text})
    if int(text.rpartition("-")[2]) % 3 == 2:
        taken = store.pop(agent)
        print("" if taken is None else taken["content"])


def main(work: str, session_id: str, count: int, number: str) -> None:
    store = SessionStore()
    agent = store.agents.open(store.open(session_id))
    do = {
        "append": append,
        "append-many": append_many,
        "pop": pop,
        "append-and-pop": append_and_pop,
    }[work]
    print("ready")
    sys.stdin.readline()
    for index in range(count):
        do(store, agent, f"{number}-{index}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
