"""A process that writes large binaries into one conversation beside others.

``python -m tests.blobs.together FOLDER append|change|read NUMBER ROUNDS``
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import django
from django.test import override_settings

django.setup()

from django_agent_sessions.exceptions import SessionNotFoundError, StaleSessionError
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord

from .deeds import message, picture

PICTURES = [picture(str(number)) for number in range(4)]
"""All processes use the same ones, so that each is needed and not needed again and again."""


def storages(folder: Path) -> dict[str, dict[str, object]]:
    """Settings that send large binaries to a folder."""
    backend: dict[str, object] = {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(folder)},
    }
    return {"STORAGES": {"blobs": backend}, "AGENT_SESSIONS": {"BLOB_STORAGE": "blobs"}}


def append(store: SessionStore, agent: AgentRecord, chance: random.Random, text: str) -> None:
    """Appends one message, or three."""
    if chance.random() < 0.5:
        store.append(agent, message(text, *chance.sample(PICTURES, 2)))
    else:
        store.append_many(agent, [message(text, p) for p in chance.sample(PICTURES, 3)])


def change(store: SessionStore, agent: AgentRecord, chance: random.Random, text: str) -> None:
    """Takes away, replaces or redacts what the others wrote."""
    there = store.messages.list(agent)
    work = chance.choice(["pop", "pop", "clear", "update", "update", "whole", "find", "guardrail"])
    if work == "pop":
        store.pop(agent)
    elif work == "clear":
        store.clear(agent)
    elif work == "find":
        redact(agent.session, Find(text[:2]), reason="test")
    elif there:
        one = chance.choice(there)
        new = message(text, *chance.sample(PICTURES, 2))
        # Whoever replaces what others took away or redacted meanwhile is told so.
        try:
            if work == "update":
                store.messages.update(agent, one.message_id, new, key=one.id)
            elif work == "whole":
                redact(agent.session, WholeMessage(one.id), reason="test")
            else:
                store.messages.redact(agent, one.message_id, new, key=one.id)
        except (SessionNotFoundError, StaleSessionError):
            pass


def read(store: SessionStore, agent: AgentRecord, chance: random.Random, text: str) -> None:
    """Restores the conversation, which is whole at any moment."""
    for _, payload, _ in store.messages.restore(agent):
        images = [block["image"]["source"]["bytes"] for block in payload["content"][1:]]
        assert all(data in PICTURES for data in images)


def main(work: str, number: str, rounds: int) -> None:
    store = SessionStore()
    session = store.open("shared")
    agent = store.agents.open(session, "main", dialect="strands")
    chance = random.Random(f"{work} {number}")
    os.write(1, b"ready\n")
    sys.stdin.readline()
    do = {"append": append, "change": change, "read": read}[work]
    for index in range(rounds):
        do(store, agent, chance, f"{number}-{index}")
    os.write(1, b"done\n")


if __name__ == "__main__":
    with override_settings(**storages(Path(sys.argv[1]))):
        main(sys.argv[2], sys.argv[3], int(sys.argv[4]))
