"""A process that writes: ``python -m tests.rest.events.writer SESSION AGENT COUNT PAUSE``."""

from __future__ import annotations

import os
import sys
import time

import django

django.setup()

from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY


def main(name: str, agent_id: str, count: int, pause: float) -> None:
    store = SessionStore(owner=EVERYBODY)
    agent = store.agents.open(store.open(name), agent_id, dialect="strands")
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        text = f"{agent_id} {number}"
        print(store.append(agent, {"role": "user", "content": [{"text": text}]}).id, flush=True)
        time.sleep(pause)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
