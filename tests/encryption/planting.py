"""Planted words in every place that content can be in, and looking for them in files."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from django_agent_sessions.governance.redaction import Block, Find, WholeMessage, redact
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.content_columns import content_models
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.testing.leaks import database_bytes
from django_agent_sessions.values.records import AgentRecord, AgentState, SessionRecord

_WORD = re.compile(rb"planted[a-z]{12}")
_HEXADECIMAL = re.compile(b"planted".hex().encode() + rb"(?:[67][0-9a-f]){12}")
"""Words in bytes, as PostgreSQL dumps them."""


class Words:
    """Gives a new word at each call, by which it is found."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def __call__(self) -> str:
        letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(12))
        self.given.append(f"planted{letters}")
        return self.given[-1]


def words_in(paths: Iterable[Path]) -> set[str]:
    """Return the words that files contain, those below directories included."""
    found: set[bytes] = set()
    for path in paths:
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        for file in files:
            data = database_bytes(file) if ".sqlite3" in file.name else file.read_bytes()
            found.update(_WORD.findall(data))
            found.update(bytes.fromhex(each.decode()) for each in _HEXADECIMAL.findall(data))
    return {word.decode() for word in found}


def words_of(value: object) -> set[str]:
    """Return the words that a value shows."""
    return {word.decode() for word in _WORD.findall(str(value).encode("utf-8", "replace"))}


def plant(store: SessionStore, word: Callable[[], str]) -> None:
    """Plant 100 words for an owner: call it for two owners."""
    title, metadata = f"About {word()}", {word(): [word()]}
    session = store.open(f"s-{store.owner_id}", title=title, metadata=metadata)
    strands = _strands(store, session, word)
    _openai(store, session, word)
    _redacted(store, session, strands, word)
    _timeline(store, session, strands, word)
    _objects(store, session, word)
    rated = SessionMessage.objects.filter(agent=strands.id).order_by("id")[0]
    store.feedback.save(rated.pk, 1, comment=f"Because of {word()}")


def _strands(store: SessionStore, session: SessionRecord, word: Callable[[], str]) -> AgentRecord:
    window = {"kept": [{"message": _user(word())}], "tail": 0}
    state = AgentState({word(): [word()]}, {"summary": word()}, {"internal": word()}, window)
    agent = store.agents.open(session, "strands", dialect="strands", data=state)
    store.append_many(agent, [_user(word(), word()) for _ in range(24)])
    call = {"toolUseId": "c", "name": "find", "input": {word(): word()}}
    thought = {"reasoningContent": {"reasoningText": {"text": word()}}}
    store.append(agent, {"role": "assistant", "content": [thought, {"toolUse": call}]})
    result = {"toolUseId": "c", "status": "success", "content": [{"json": [word()]}]}
    store.append(agent, {"role": "user", "content": [{"toolResult": result}]})
    file = {"format": "txt", "name": "notes", "source": {"bytes": f"{word()} ".encode() * 1000}}
    store.append(agent, {"role": "user", "content": [{"document": file}]})
    store.messages.update(agent, 0, _user(word(), word()))
    store.agents.update(agent, AgentState({"plan": word()}, {"m": word()}, {"i": word()}))
    store.multi_agents.create(session, "graph", {"id": "graph", "task": word()}, kind="graph")
    return agent


def _openai(store: SessionStore, session: SessionRecord, word: Callable[[], str]) -> None:
    agent = store.agents.open(session, "openai")
    store.append_many(
        agent, [{"role": "user", "content": f"{word()} and {word()}"} for _ in range(10)]
    )
    arguments = f'{{"a": "{word()}"}}'
    call = {"type": "function_call", "call_id": "c", "name": "find", "arguments": arguments}
    store.append(agent, call)
    store.append(agent, {"type": "function_call_output", "call_id": "c", "output": word()})


def _redacted(
    store: SessionStore, session: SessionRecord, agent: AgentRecord, word: Callable[[], str]
) -> None:
    """Redact a word, a block and a whole message."""
    secret = word()
    store.append_many(agent, [_user(f"{secret} {word()}", word()) for _ in range(3)])
    rows = SessionMessage.objects.filter(agent=agent.id).order_by("-message_id")
    keys = list(rows.values_list("pk", flat=True)[:2])
    for scope in (Find(secret), Block(keys[0], ("content", 1)), WholeMessage(keys[1])):
        redact(session.id, scope, reason="a test", actor="test")


def _timeline(
    store: SessionStore, session: SessionRecord, agent: AgentRecord, word: Callable[[], str]
) -> None:
    store.branches.create(agent, name="aside")
    for _ in range(4):
        store.append(agent, _user(word(), word()))
        store.agents.update(agent, AgentState({"plan": word()}))
        store.snapshots.take(agent)
    store.branches.rewind(agent, 10)
    store.append(agent, _user(word()))
    fork = store.sessions.fork(session)
    forked = store.agents.find(fork, "strands")
    assert forked is not None
    store.append(forked, _user(word(), word()))


def _objects(store: SessionStore, session: SessionRecord, word: Callable[[], str]) -> None:
    objects = SnapshotStorageStore(store)
    for number in range(4):
        given = session if number % 2 else None
        objects.write_object(
            f"o{number}", f"{word()} {'x' * 9000} {word()}".encode(), session=given
        )


def _user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text} for text in texts]}


def everything(stores: Sequence[SessionStore]) -> set[str]:
    """Return the words that can be read: in all columns, and in the stored objects."""
    found: set[str] = set()
    for model in content_models():
        for row in model._default_manager.values_list():
            found |= words_of(row)
    for store in stores:
        objects = SnapshotStorageStore(store)
        for key in objects.object_keys():
            found |= words_of(objects.read_object(key))
    return found
