"""Another process that works with large binaries: ``python -m tests.blobs.process WORK …``.

* ``together FOLDER append|change|read NUMBER ROUNDS`` works on one conversation beside others;
* ``crash FOLDER`` reads lines of a deed, the number of a call, the way and the session's id,
  divided by tabs, and does each deed in a child that is killed at that call of the storage;
* ``restore strands|openai STORAGE`` prints the hash of the conversation ``s``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
from django.test import override_settings

django.setup()

from django_agent_sessions.exceptions import SessionNotFoundError, StaleSessionError
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord

from . import faulty
from .deeds import DEEDS, again, message, picture
from .messages import storages

FOLDERS = "django.core.files.storage.FileSystemStorage"
PICTURES = [picture(str(number)) for number in range(4)]
"""All processes use the same ones, so that each is needed and not needed again and again."""


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


def together(folder: str, work: str, number: str, rounds: str) -> None:
    backend = {"BACKEND": FOLDERS, "OPTIONS": {"location": folder}}
    with override_settings(**storages(backend)):
        work_together(work, number, int(rounds))


def work_together(work: str, number: str, rounds: int) -> None:
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


def die(deed: str, number: str, kind: str, session: str) -> None:
    """Does a deed in a child, which has connections and threads of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            found = again(session)
            faulty.begin(int(number), kind)
            DEEDS[deed](found)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in {0, -signal.SIGKILL}, (deed, number, kind, ended)
    os.write(1, b"killed\n" if ended else b"acknowledged\n")


def crash(folder: str) -> None:
    with override_settings(**faulty.storages(Path(folder))):
        os.write(1, b"ready\n")
        for line in sys.stdin:
            die(*line.rstrip("\n").split("\t"))


def digest(value: Any) -> str:
    """The hash of a payload with all its bytes."""
    text = json.dumps(value, default=lambda data: data.hex(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def restored(sdk: str) -> list[Any]:
    """The conversation, as an agent of this process has it."""
    # Only one of them: an SDK takes seconds to import.
    if sdk == "strands":
        from tests.adapters.strands.agents import build

        return list(build().messages)
    from django_agent_sessions.adapters.openai_agents import DjangoSession

    return list(asyncio.run(DjangoSession("s").get_items()))


def restore(sdk: str, storage: str) -> None:
    with override_settings(**storages(json.loads(storage))):
        print("ready")
        print(digest(restored(sdk)))


if __name__ == "__main__":
    WORK: dict[str, Callable[..., None]] = {
        "together": together,
        "crash": crash,
        "restore": restore,
    }
    WORK[sys.argv[1]](*sys.argv[2:])
