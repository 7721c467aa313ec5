"""What is in the database and in the files at the end, and whether all of it can be used."""

from __future__ import annotations

import asyncio
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management import call_command, get_commands
from django.db import connection

from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore

from . import marks, scripts
from .checking import Found, Row


def find(files: Sequence[Path]) -> Found:
    """Reads all that is there, without the store, so that a fault of its reading hides nothing."""
    agents = dict(SessionAgent.objects.values_list("id", "agent_id"))
    sessions = dict(Session.objects.values_list("id", "session_id"))
    leaks: dict[str, list[str]] = defaultdict(list)
    for place, text in _texts():
        for secret in marks.secrets_in(text):
            leaks[secret].append(place)
    for file in [file for folder in files for file in folder.rglob("*")]:
        if file.is_file():
            for secret in marks.secrets_in(file.read_bytes().decode("latin-1")):
                leaks[secret].append(file.name)
    states = {
        agent.session.session_id: agent.state.get("value")
        for agent in SessionAgent.objects.select_related("session")
        if agent.session.session_id.startswith("state-")
    }
    rows = list(_rows(sessions, agents))
    return Found(rows, frozenset(sessions.values()), states, leaks, broken(sessions.values()))


def integrity() -> tuple[int, str]:
    """Runs the app's own check of its tables."""
    if "agent_sessions_check" not in get_commands():
        return 0, "not run: this version has no such command"
    printed = io.StringIO()
    try:
        call_command("agent_sessions_check", stdout=printed, stderr=printed)
    except SystemExit as end:
        return int(end.code or 0), printed.getvalue()
    except Exception as error:
        return 1, f"{printed.getvalue()}\n{type(error).__name__}: {error}"
    return 0, printed.getvalue()


def _rows(sessions: Mapping[Any, str], agents: Mapping[Any, str]) -> Iterator[Row]:
    columns = (
        "session",
        "agent",
        "branch",
        "message_id",
        "source",
        "message",
    )
    found = SessionMessage.objects.order_by("id").values_list(*columns)
    for session, agent, branch, position, source, payload in found.iterator(500):
        yield Row(
            sessions[session],
            agents[agent],
            branch,
            position,
            source is not None,
            tuple(marks.tokens_in(str(payload))),
        )


def _texts() -> Iterator[tuple[str, str]]:
    """Reads every value of every table as text."""
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        for table in tables:
            cursor.execute(f"SELECT * FROM {quote(table)}")
            columns = [column[0] for column in cursor.description]
            while part := cursor.fetchmany(500):
                for row in part:
                    for column, value in zip(columns, row, strict=True):
                        yield f"{table}.{column}", str(value)


def broken(sessions: Iterable[str]) -> list[str]:
    """Talk to every agent; tell what cannot be read, restored or run."""
    found: list[str] = []
    store = SessionStore()
    for name in sorted(sessions):
        session = store.get(name)
        for agent in store.agents.list(session):
            try:
                for branch in store.branches.list(agent):
                    on_branch = agent.on_branch(branch.number)
                    found += [
                        f"a binary in {name} is not what was stored"
                        for payload in store.payloads(on_branch)
                        for binary in _binaries(payload)
                        if not marks.is_sound(binary)
                    ]
                _talk(name, agent.agent_id, agent.dialect)
            except Exception as error:
                found.append(f"{name}/{agent.agent_id}: {type(error).__name__}: {error}"[:300])
    return found


def _binaries(payload: Any) -> Iterator[bytes]:
    if isinstance(payload, dict):
        payload = list(payload.values())
    if isinstance(payload, list):
        for part in payload:
            yield from _binaries(part)
    elif isinstance(payload, bytes):
        yield payload


def _talk(session: str, agent: str, dialect: str) -> None:
    """Restores an agent, says something to it, and sees whether it answers."""
    token = "w0.0.1"
    text = scripts.said(token, tool=True, secret=None)
    if dialect == "strands":
        strands = scripts.StrandsAgent(session)
        if not _is_paired(strands.agent.messages):
            raise RuntimeError("a model would be given a call without its result, or the reverse")
        answered = strands.say(text)
    elif session.startswith("state-"):
        return
    else:
        openai = scripts.OpenAIAgent(session)
        openai.session.session_settings = None
        answered = asyncio.run(openai.say(text))
    if f"#{token}a#" not in answered:
        raise RuntimeError("the restored agent did not answer what it was asked")


def _is_paired(messages: Sequence[Any]) -> bool:
    """Tells whether each call of a tool is answered by the very next message, and nothing else.

    What the last message calls is answered by Strands itself, together with the next prompt.
    """
    waiting: list[str] = []
    for message in messages:
        blocks = message["content"]
        results = [b["toolResult"]["toolUseId"] for b in blocks if "toolResult" in b]
        if sorted(results) != sorted(waiting):
            return False
        waiting = [b["toolUse"]["toolUseId"] for b in blocks if "toolUse" in b]
    return True
