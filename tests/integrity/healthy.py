"""A database in which everything is that conversations can be, made by what makes it elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agents import Runner
from django.core.management import call_command
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.interchange.jsonl_export import export_sessions
from django_agent_sessions.leases.lease_rows import acquire_row, release_row
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord, AgentState, TurnCost
from tests.adapters.openai_agents.scripted import call as openai_call
from tests.adapters.openai_agents.team import assistant
from tests.adapters.strands.agents import build
from tests.adapters.strands.scripted import call
from tests.blobs.messages import image, picture, user

TEXTS = ("one", "two", "three", "four", "five")


def said(text: str, role: str = "user") -> dict[str, object]:
    return {"role": role, "content": [{"text": text}]}


def talk(store: SessionStore, name: str = "talk") -> AgentRecord:
    """A conversation of five messages, each with a number."""
    session = store.open(name)
    agent = store.agents.open(session, "a", dialect="strands", data=AgentState(state={"n": 1}))
    store.append_many(agent, [said(text) for text in TEXTS])
    return agent


def travelled(store: SessionStore) -> AgentRecord:
    """A conversation with branches, snapshots, what turns have cost, and a fork."""
    agent = talk(store, "travelled")
    store.snapshots.take(agent)
    store.branches.rewind(agent, 2)
    store.append(agent, said("another four"))
    store.branches.create(agent, name="aside", upto=2)
    store.turns.save_cost(agent, TurnCost(requests=1, input_tokens=3, output_tokens=4))
    store.branches.switch(agent, 1)
    store.snapshots.take(agent)
    store.sessions.fork(store.get("travelled"), session_id="forked")
    return agent


def redacted(store: SessionStore) -> None:
    """Conversations of which something was taken out, one of them under legal hold."""
    for name in ("open", "held"):
        agent = talk(store, name)
        session = store.get(name)
        if name == "held":
            legal_hold.hold(session.id, reason="a case")
            store.messages.update(agent, 0, said("edited"))
        else:
            redact(session.id, Find("three"), reason="asked to")
        store.messages.redact(agent, 3, said("[REDACTED]"))


def with_binaries(store: SessionStore) -> AgentRecord:
    """A conversation with pictures, one of them said twice, in a session that was forked."""
    agent = talk(store, "pictures")
    twice = picture()
    store.append_many(agent, [user(image(twice)), user(image(picture())), user(image(twice))])
    store.sessions.fork(store.get("pictures"), session_id="more-pictures")
    store.pop(agent)
    return agent


def leased(store: SessionStore) -> None:
    agent = talk(store, "leased")
    token = new_id()
    acquire_row(store.using, agent.session, token, holder="here", seconds=60)
    release_row(store.using, agent.session, token)


def everything(store: SessionStore, folder: Path) -> None:
    """All of that, and what both SDKs' own agents say."""
    build(call("add", a=1, b=2), "3.", session_id="strands")("1 + 2?")
    build("More.", session_id="strands")("Go on")
    assistants = assistant(openai_call("add", a=1, b=2), "3.")
    asyncio.run(Runner.run(assistants, "1 + 2?", session=DjangoSession("openai")))
    talk(store)
    travelled(store)
    redacted(store)
    with_binaries(store)
    leased(store)
    SnapshotStorageStore(SessionStore()).write_object("key", b"x" * 100)
    lines = folder / "sessions.jsonl"
    lines.write_text("".join(export_sessions(Session.objects.all())))
    call_command("agent_sessions_import", "jsonl", str(lines), "--namespace", "copy", verbosity=0)
    usage.roll_up(using=store.using, until=timezone.now())
