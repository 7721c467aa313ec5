"""What writers do: each an endless series of operations, drawn by chance."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

from django.db import connections, transaction

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, AgentState

from . import marks, scripts
from .desk import Assignment, Desk
from .history import Outcome

STATES = 3
"""How many sessions there are whose agent's state all write."""


class StoreWriter:
    """Uses the store alone, on sessions of all sorts."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.store = SessionStore()
        self._steps: list[tuple[int, Callable[[], None]]] = [
            (24, self.append),
            (10, self.append_many),
            (6, self.append_binary),
            (9, self.pop),
            (9, self.transaction),
            (9, self.write_state),
            (8, self.redact),
            (5, self.rewind),
            (3, self.fork),
            (8, self.brief),
            (6, self.read),
        ]

    def step(self) -> None:
        """Does one thing."""
        weights = [weight for weight, _ in self._steps]
        (todo,) = self.desk.chance.choices([step for _, step in self._steps], weights)
        todo()
        if self.desk.chance.random() < 0.2:
            # As at the end of a request.
            connections.close_all()

    def append(self) -> None:
        """Appends a message to a conversation that others write to."""
        self._append(self.desk.shared(self.desk.chance.choice(["shop", "shop", "desk"])))

    def append_binary(self) -> None:
        """Appends a message with a large binary."""
        session, token = self.desk.shared("shop"), self.desk.token()
        secret = self.desk.secret(token, 0.3)
        part = {"type": "input_file", "file_data": marks.binary_of(token)}
        text = {"type": "input_text", "text": marks.marked(token, "A file.", secret)}
        with self.desk.operation("append", session, tokens=[token], secret=secret):
            self.store.append(self._agent(session), {"role": "user", "content": [text, part]})

    def append_many(self) -> None:
        """Appends several messages: all of them or none."""
        session = self.desk.shared("shop")
        tokens = [self.desk.token() for _ in range(self.desk.chance.randint(2, 6))]
        with self.desk.operation("append_many", session, tokens=tokens, together=True):
            self.store.append_many(self._agent(session), [message(token) for token in tokens])

    def pop(self) -> None:
        """Takes the last message of a conversation away."""
        session = self.desk.shared("shop")
        with self.desk.operation("pop", session) as notes:
            taken = self.store.pop(self._agent(session))
            if taken is not None:
                notes.details["taken"] = next(iter(marks.tokens_in(str(taken))), None)

    def transaction(self) -> None:
        """Writes to two conversations in a transaction of its own, in any order."""
        tokens = {self.desk.token(): self.desk.shared("shop") for _ in range(3)}
        session = next(iter(tokens.values()))
        with self.desk.operation("transaction", session, tokens=tokens, together=True) as notes:
            notes.details["outcome"] = Outcome.FAILED
            with transaction.atomic():
                for token, name in tokens.items():
                    self.store.append(self._agent(name), message(token))
                    time.sleep(self.desk.chance.uniform(0, 0.01))
                # Of an error in between nothing is left; of one at the commit nobody knows.
                notes.details["outcome"] = Outcome.UNKNOWN
            del notes.details["outcome"]

    def write_state(self) -> None:
        """Overwrites a state that others overwrite too."""
        session, token = f"state-{self.desk.chance.randrange(STATES)}", self.desk.token()
        with self.desk.operation("state", session, value=token):
            self.store.agents.update(self._agent(session), AgentState(state={"value": token}))

    def redact(self) -> None:
        """Redacts a secret that it said, wherever it stands."""
        if self.desk.secrets:
            secrets = self.desk.secrets
            session, secret = secrets.pop(self.desk.chance.randrange(len(secrets)))
            redact_secret(self.desk, self.store, session, secret)

    def rewind(self) -> None:
        """Takes a conversation back by some messages."""
        sort = self.desk.chance.choice(["shop", "desk", "lab"])
        session = self.desk.shared(sort)
        with self.desk.operation("rewind", session):
            agent = self._agent(session, sort)
            last = next((found.message_id for found in self.store.messages.latest(agent, 1)), 0)
            self.store.branches.rewind(agent, max(-1, last - self.desk.chance.randint(1, 8)))

    def fork(self) -> None:
        """Makes a session that begins like another."""
        session = self.desk.shared(self.desk.chance.choice(["shop", "desk", "lab"]))
        token = self.desk.token()
        name = f"fork-{token}"
        with self.desk.operation("fork", session, value=name):
            self.store.sessions.fork(self.store.get(session), session_id=name)

    def brief(self) -> None:
        """Appends to a session that somebody is about to delete, or deletes it."""
        moment = int((time.monotonic() - self.desk.assignment.began) // 2)
        session = f"brief-{moment}"
        if self.desk.chance.random() < 0.7:
            self._append(session)
            return
        with self.desk.operation("delete", session):
            self.store.delete(session)

    def read(self) -> None:
        """Reads a conversation."""
        session = self.desk.shared("shop")
        with self.desk.operation("read", session):
            self.store.payloads(self._agent(session), latest=20)

    def _append(self, session: str) -> None:
        token = self.desk.token()
        secret = self.desk.secret(token)
        with self.desk.operation("append", session, tokens=[token], secret=secret):
            self.store.append(self._agent(session), message(token, secret))

    def _agent(self, session: str, sort: str = "") -> AgentRecord:
        found = self.store.open(session)
        if sort == "lab":
            return self.store.agents.open(found, scripts.AGENT, dialect="strands")
        return self.store.agents.open(found)


class StrandsWriter:
    """Runs agents of Strands, on sessions that others run agents on."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.store = SessionStore()
        self._agent: scripts.StrandsAgent | None = None
        self._session = ""
        self._meanwhile: Callable[[], None] | None = None

    def step(self) -> None:
        """Takes a turn, or redacts what was said in one."""
        if self.desk.secrets and self.desk.chance.random() < 0.15:
            redact_secret(self.desk, self.store, *self.desk.secrets.pop(0))
            return
        if self._agent is None or self.desk.chance.random() < 0.2:
            self._session = self.desk.shared("lab")
            with self.desk.operation("restore", self._session):
                self._agent = None
                self._agent = scripts.StrandsAgent(self._session, self._in_tool)
        if self._agent is not None:
            self._turn(self._agent)

    def _turn(self, agent: scripts.StrandsAgent) -> None:
        token, tool = self.desk.token(), self.desk.chance.random() < 0.5
        secret = self.desk.secret(token, 0.3)
        tokens = scripts.tokens_of(token, tool=tool)
        self._meanwhile = _maybe_redact(self.desk, self.store, self._session, secret)
        with self.desk.operation("strands", self._session, tokens=tokens, secret=secret):
            agent.say(scripts.said(token, tool=tool, secret=secret))

    def _in_tool(self) -> None:
        if self._meanwhile is not None:
            self._meanwhile()


class OpenAIWriter:
    """Runs agents of the OpenAI Agents SDK, and uses their sessions without one."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.store = SessionStore()
        self._loop = asyncio.new_event_loop()
        self._agents: dict[str, scripts.OpenAIAgent] = {}
        self._meanwhile: Callable[[], None] | None = None

    def step(self) -> None:
        """Takes a turn, or adds, takes or redacts an item."""
        drawn = self.desk.chance.random()
        if drawn < 0.1 and self.desk.secrets:
            redact_secret(self.desk, self.store, *self.desk.secrets.pop(0))
        elif drawn < 0.2:
            self._loop.run_until_complete(self._pop())
        elif drawn < 0.4:
            self._loop.run_until_complete(self._append_items())
        else:
            self._loop.run_until_complete(self._turn())

    async def _turn(self) -> None:
        session = self.desk.shared("desk")
        if self.desk.chance.random() < 0.2:
            self._agents.clear()
        agent = self._agents.get(session) or scripts.OpenAIAgent(session, self._in_tool)
        self._agents[session] = agent
        token, tool = self.desk.token(), self.desk.chance.random() < 0.5
        secret = self.desk.secret(token, 0.3)
        tokens = scripts.tokens_of(token, tool=tool)
        self._meanwhile = _maybe_redact(self.desk, self.store, session, secret)
        with self.desk.operation("openai", session, tokens=tokens, secret=secret):
            await agent.say(scripts.said(token, tool=tool, secret=secret))

    async def _append_items(self) -> None:
        session = self.desk.shared("shop")
        tokens = [self.desk.token() for _ in range(self.desk.chance.randint(1, 3))]
        items: list[Any] = [message(token) for token in tokens]
        with self.desk.operation("append_many", session, tokens=tokens, together=True):
            await DjangoSession(session).add_items(items)

    async def _pop(self) -> None:
        session = self.desk.shared("shop")
        with self.desk.operation("pop", session) as notes:
            taken = await DjangoSession(session).pop_item()
            if taken is not None:
                notes.details["taken"] = next(iter(marks.tokens_in(str(taken))), None)

    def _in_tool(self) -> None:
        if self._meanwhile is not None:
            self._meanwhile()


def message(token: str, secret: str | None = None) -> dict[str, Any]:
    """Makes a message of a user."""
    return {"role": "user", "content": marks.marked(token, "Hello.", secret)}


def redact_secret(desk: Desk, store: SessionStore, session: str, secret: str) -> None:
    """Redacts a secret in a session and in all that was forked from it."""
    with desk.operation("redact", session, secret=secret) as notes:
        found = store.get(session)
        done = redact(found.id, Find(secret), reason="chaos", actor="chaos", descendants=True)
        notes.details["hits"] = sum(len(part.hits) for part in done.sessions)


def _maybe_redact(
    desk: Desk, store: SessionStore, session: str, secret: str | None
) -> Callable[[], None] | None:
    """Lets the secret of a turn be redacted while the turn goes on, as another process may do."""
    if secret is None or desk.chance.random() < 0.5:
        return None
    return lambda: redact_secret(desk, store, session, secret)


Writer = StoreWriter | OpenAIWriter | StrandsWriter
_WRITERS: dict[str, Callable[[Desk], Writer]] = {
    "store": StoreWriter,
    "openai": OpenAIWriter,
    "strands": StrandsWriter,
}


def work(assignment: Assignment, unprivileged: bool) -> None:
    """Does what a writer does, until the process is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    if unprivileged:
        _obey_permissions()
    random.seed(f"{assignment.seed}/{assignment.number}/{assignment.incarnation}")
    desk = Desk(assignment)
    writer = _WRITERS[assignment.kind](desk)
    while not stopped:
        writer.step()
        time.sleep(desk.chance.uniform(0, assignment.pause))
    # At once: there is nothing that an orderly end would have to finish.
    os._exit(0)


def _obey_permissions() -> None:
    """Gives up ``CAP_DAC_OVERRIDE``, so that permissions of files are for root too."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) == 0:
        override = 1 << 1
        for place in (0, 1):
            sets[place] &= ~override
        libc.capset(header, sets)
