"""Random operations on a few conversations, so that they meet; and what the counters should be."""

from __future__ import annotations

import asyncio
import io
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import ProtectedError, Sum
from django.test import override_settings
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.exceptions import QuotaExceededError
from django_agent_sessions.governance import legal_hold, quotas, session_deletion
from django_agent_sessions.governance.erasure import erase
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.governance.retention import prune
from django_agent_sessions.interchange.jsonl_export import export_sessions
from django_agent_sessions.models import (
    Blob,
    Session,
    SessionAgent,
    SessionMessage,
    Snapshot,
    UsageRollup,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, NewMessage, TurnCost, Usage
from tests.blobs.messages import image, picture, user

from .random_clients import Clients

WORDS = ("apple", "banana", "cherry", "date")
MOST_SESSIONS = 6
MOST_MESSAGES = 80
USERS = ("ada", "bob")


class World(Clients):
    """Some conversations, and the tokens that each was told of."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.number = 0
        self.tokens: defaultdict[UUID, int] = defaultdict(int)
        self.with_costs: set[UUID] = set()
        users = get_user_model().objects
        self.users = [users.get_or_create(username=name)[0] for name in USERS]
        self.pictures = [picture(80_000) for _ in range(3)]
        self.rolled_up = RolledUp()

    # --- choosing ----------------------------------------------------------------------------

    def store(self, session: Session) -> SessionStore:
        return SessionStore(namespace=session.namespace, owner=EVERYBODY)

    def session(self) -> Session:
        rows = list(Session.objects.order_by("pk"))
        return self.chance.choice(rows) if rows else self.open()

    def plain_session(self) -> Session:
        """Return one without a namespace, which the SDKs' sessions open by default."""
        rows = list(Session.objects.filter(namespace="").order_by("pk"))
        return self.chance.choice(rows) if rows else self.open()

    def word(self) -> str:
        return self.chance.choice(WORDS)

    def open(self) -> Session:
        self.number += 1
        owner = self.chance.choice([*self.users, None])
        store = SessionStore() if owner is None else SessionStore(owner=owner)
        return Session.objects.get(pk=store.open(f"s{self.number}").id)

    def agent(self, *, side: bool = True) -> tuple[SessionStore, AgentRecord]:
        """Return an agent, perhaps on a side branch."""
        session = self.session()
        store = self.store(session)
        name = self.chance.choice(["strands", "openai"])
        record = store.get(session.session_id)
        agent = store.agents.open(record, name, dialect=name)
        numbers = [branch.number for branch in store.branches.list(agent)]
        return store, agent.on_branch(self.chance.choice(numbers)) if side else agent

    def row(self) -> SessionMessage | None:
        rows = list(SessionMessage.objects.order_by("pk"))
        return self.chance.choice(rows) if rows else None

    def position(self, agent: AgentRecord) -> int:
        rows = SessionMessage.objects.filter(agent=agent.id, branch=agent.branch)
        return self.chance.randrange(max(1, rows.count()))

    def message(self, dialect: str) -> NewMessage:
        word = self.chance.choice(WORDS)
        role = self.chance.choice(["user", "assistant"])
        if dialect == "openai":
            payload: Any = {"role": role, "content": word}
        elif self.chance.random() < 0.3:
            status = self.chance.choice(["error", "success"])
            result = {"toolUseId": "t", "status": status, "content": [{"text": word}]}
            payload = {"role": "user", "content": [{"toolResult": result}]}
        else:
            payload = {"role": role, "content": [{"text": word}]}
        spent = self.chance.randrange(100)
        # Strands' messages have their usage in the payload.
        given = Usage(input_tokens=spent, output_tokens=1) if dialect == "openai" else None
        return NewMessage(payload, usage=given)

    # --- operations --------------------------------------------------------------------------

    def append(self) -> None:
        store, agent = self.agent()
        new = self.message("strands" if agent.agent_id == "strands" else "openai")
        store.append(agent, new)
        if self.chance.random() < 0.2:
            store.append(agent, new, again=True)
        self.told(agent, new)

    def lost(self) -> None:
        """Append a message, pop it elsewhere, and append it again because no answer came."""
        store, agent = self.agent()
        new = self.message("strands" if agent.agent_id == "strands" else "openai")
        store.append(agent, new)
        self.told(agent, new)
        store.pop(agent)
        before = SessionMessage.objects.filter(agent=agent.id).count()
        store.append(agent, new, again=True)
        assert SessionMessage.objects.filter(agent=agent.id).count() == before

    def append_many(self) -> None:
        store, agent = self.agent()
        dialect = "strands" if agent.agent_id == "strands" else "openai"
        new = [self.message(dialect) for _ in range(self.chance.randrange(1, 5))]
        store.append_many(agent, new)
        self.told(agent, *new)

    def told(self, agent: AgentRecord, *messages: NewMessage) -> None:
        for message in messages:
            if message.usage is not None:
                self.tokens[agent.session] += message.usage.input_tokens or 0

    def items(self) -> None:
        session = self.plain_session()
        whose: dict[str, Any] = {} if session.owner_id is None else {"owner": session.owner_id}
        mine = DjangoSession(session.session_id, **whose)

        async def work() -> None:
            await mine.add_items([{"role": "user", "content": self.chance.choice(WORDS)}] * 2)
            if self.chance.random() < 0.5:
                await mine.pop_item()
            if self.chance.random() < 0.1:
                await mine.clear_session()

        asyncio.run(work())

    def pop(self) -> None:
        store, agent = self.agent()
        store.pop(agent)

    def clear(self) -> None:
        store, agent = self.agent()
        store.clear(agent)

    def update(self) -> None:
        store, agent = self.agent()
        dialect = "strands" if agent.agent_id == "strands" else "openai"
        store.messages.update(agent, self.position(agent), self.message(dialect).payload)

    def guardrail(self) -> None:
        store, agent = self.agent()
        dialect = "strands" if agent.agent_id == "strands" else "openai"
        store.messages.redact(agent, self.position(agent), self.message(dialect).payload)

    def branch(self) -> None:
        store, agent = self.agent()
        store.branches.create(agent.on_branch(0), source=agent.branch, upto=self.position(agent))

    def rewind(self) -> None:
        store, agent = self.agent(side=False)
        store.branches.rewind(agent, self.position(agent) - 1)

    def set_aside(self) -> None:
        store, agent = self.agent(side=False)
        store.branches.set_aside(agent, self.position(agent))

    def switch(self) -> None:
        store, agent = self.agent()
        store.branches.switch(agent.on_branch(0), agent.branch)

    def delete_branch(self) -> None:
        store, agent = self.agent()
        store.branches.delete(agent.on_branch(0), agent.branch)

    def compact(self) -> None:
        store, agent = self.agent(side=False)
        rows = SessionMessage.objects.filter(agent=agent.id, branch=0)
        rows = rows.filter(message_id__gte=self.position(agent))
        keys = list(rows.order_by("message_id").values_list("pk", flat=True))
        summary = {"role": "user", "content": "in short"}
        if agent.agent_id == "strands":
            summary = {"role": "user", "content": [{"text": "in short"}]}  # type: ignore[dict-item] # a message
        epoch = Session.objects.get(pk=agent.session).redaction_epoch
        keep = self.chance.random() < 0.5
        store.branches.compact(agent, [summary], keys, epoch=epoch, keep_history=keep)

    def snapshot(self) -> None:
        store, agent = self.agent(side=False)
        store.snapshots.take(agent)
        rows = store.snapshots.list(agent)
        if self.chance.random() < 0.5:
            store.snapshots.restore(agent, self.chance.choice(rows).id)

    def fork(self) -> None:
        session = self.session()
        store = self.store(session)
        if Session.objects.count() < MOST_SESSIONS:
            self.number += 1
            store.sessions.fork(store.get(session.session_id), session_id=f"s{self.number}")

    def turn_cost(self) -> None:
        store, agent = self.agent()
        self.with_costs.add(agent.session)
        spent = self.chance.randrange(200)
        store.turns.save_cost(agent, TurnCost(1, input_tokens=spent, output_tokens=2))

    def redact_words(self) -> None:
        redact(self.session().pk, Find(self.chance.choice(WORDS)), reason="asked for")

    def redact_message(self) -> None:
        if (row := self.row()) is not None:
            redact(row.session_id, WholeMessage(row.pk), reason="asked for")

    def feedback(self) -> None:
        if (row := self.row()) is not None:
            store = SessionStore(owner=EVERYBODY)
            store.feedback.save(row.pk, user=self.users[0], value=1, comment="apple")

    def hold(self) -> None:
        legal_hold.hold(self.session().pk, reason="a case")

    def release(self) -> None:
        for session in Session.objects.filter(legal_hold=True):
            legal_hold.release(session.pk, reason="settled")

    def delete(self) -> None:
        session = self.session()
        ways: list[Callable[[], Any]] = [
            lambda: session_deletion.delete(session.pk),
            lambda: Session.objects.filter(pk=session.pk).delete(),
            lambda: self.store(session).delete(session.session_id),
        ]
        self.chance.choice(ways)()

    def erase(self) -> None:
        erase(self.chance.choice(self.users), reason="asked for")

    def round_trip(self) -> None:
        """Export a session, and import it beside."""
        if Session.objects.count() >= MOST_SESSIONS:
            return
        self.number += 1
        rows = Session.objects.filter(pk=self.session().pk)
        with tempfile.TemporaryDirectory() as folder:
            lines = Path(folder) / "sessions.jsonl"
            lines.write_text("".join(export_sessions(rows)))
            namespace = f"copy{self.number}"
            arguments = ("agent_sessions_import", "jsonl", str(lines))
            out = io.StringIO()
            try:
                call_command(*arguments, namespace=namespace, stdout=out, stderr=out)
            except CommandError as error:
                raise AssertionError(out.getvalue()) from error

    def picture(self) -> None:
        """Append a message with a large binary, of which others may have the same."""
        store, agent = self.agent()
        block = image(self.chance.choice(self.pictures))
        if agent.agent_id == "strands":
            store.append(agent, user(block, text=self.word()))

    def collect(self) -> None:
        call_command("agent_sessions_gc", "--older-than=0", "--verify", stdout=io.StringIO())

    def prune(self) -> None:
        """Delete a session that nobody has used for long, unless it is held."""
        session = self.session()
        old = timezone.now() - timedelta(days=31)
        Session.objects.filter(pk=session.pk).update(last_activity_at=old)
        prune(older_than=timedelta(days=30))
        left = Session.objects.filter(pk=session.pk)
        assert left.exists() == session.legal_hold
        left.update(last_activity_at=timezone.now())

    def delete_user(self) -> None:
        """Delete a user with all conversations; another one of this name comes."""
        place = self.chance.randrange(len(self.users))
        gone = self.users[place]
        key, name = gone.pk, gone.get_username()
        if Session.objects.filter(owner=key, legal_hold=True).exists():
            with pytest.raises(ProtectedError):
                gone.delete()
            return
        gone.delete()
        assert not Session.objects.filter(owner=key).exists()
        self.users[place] = get_user_model().objects.create_user(username=name)

    def roll_up(self) -> None:
        until = timezone.now() + timedelta(seconds=1)
        again = self.chance.random() < 0.2
        if again:
            self.rolled_up = RolledUp()
        self.rolled_up.count()
        (usage.rebuild if again else usage.roll_up)(until=until)
        self.rolled_up.compare()

    def quota(self) -> None:
        """Just as many bytes are allowed as the plain sum says."""
        whose = self.chance.choice(self.users)
        room = stored_bytes(whose.pk)
        assert (_fits(whose, room), _fits(whose, room - 1)) == (True, False), room

    def choose(self) -> str:
        """Return the name of an operation."""
        if Session.objects.count() < 2 or self.chance.random() < 0.03:
            self.open()
        if SessionMessage.objects.count() > MOST_MESSAGES:
            # So that a recount stays quick.
            self.release()
            return "delete"
        return self.chance.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]


OPERATIONS = {
    **dict.fromkeys(("append", "append_many"), 10),
    **dict.fromkeys(("pop", "update", "branch", "rewind", "switch", "compact", "snapshot"), 4),
    **dict.fromkeys(("items", "guardrail", "set_aside", "delete_branch", "turn_cost"), 3),
    **dict.fromkeys(
        ("redact_words", "redact_message", "fork", "roll_up", "release", "feedback"), 2
    ),
    **dict.fromkeys(
        ("clear", "hold", "delete", "round_trip", "quota", "prune", "picture", "lost"), 1
    ),
    **dict.fromkeys(("strands_turn", "openai_turn", "advanced", "ai_sdk", "assistant_ui"), 2),
    **dict.fromkeys(("erase", "delete_user", "collect"), 0.3),
}
"""The operations with their weights."""


class RolledUp:
    """What the figures of usage should be: each message and session once, whatever became of it."""

    def __init__(self) -> None:
        self.messages: dict[UUID, tuple[bool, int]] = {}
        self.sessions: set[UUID] = set()

    def count(self) -> None:
        """Count what is there and is newer than all that was counted."""
        last = max(self.messages, default=UUID(int=0))
        found: dict[UUID, tuple[bool, int]] = {}
        # The original comes last, because its figures are counted if it is there.
        rows = sorted(
            SessionMessage.objects.values_list("source", "pk", "has_error", "input_tokens"),
            key=lambda row: (row[0] is None, row[1]),
        )
        for source, key, has_error, tokens in rows:
            if (original := source or key) > last:
                found[original] = (has_error, tokens or 0)
        self.messages |= found
        last = max(self.sessions, default=UUID(int=0))
        self.sessions |= {key for key in Session.objects.values_list("pk", flat=True) if key > last}

    def compare(self) -> None:
        """Compare with the figures of the hours, and of the days."""
        names = ("messages", "sessions", "input_tokens")
        expected = (
            len(self.messages),
            len(self.sessions),
            sum(tokens for _, tokens in self.messages.values()),
        )
        for dimension in (UsageRollup.Dimension.HOUR, UsageRollup.Dimension.DAY):
            rows = UsageRollup.objects.filter(dimension=dimension)
            sums = rows.aggregate(**{f"of_{name}": Sum(name) for name in names})
            assert tuple(sums[f"of_{name}"] or 0 for name in names) == expected


def _fits(owner: Any, size: int) -> bool:
    """Return whether what a user has is within this quota, asked as if for the first time."""
    cache.clear()
    configured = getattr(settings, "AGENT_SESSIONS", {})
    with override_settings(AGENT_SESSIONS={**configured, "MAX_OWNER_BYTES": size}):
        try:
            quotas.require_room(owner.pk, 0, "default")
        except QuotaExceededError:
            return False
    return True


def stored_bytes(owner: Any) -> int:
    """Count the bytes of a user's messages, states, snapshots and files, from the rows alone."""
    sessions = Session.objects.filter(owner=owner).values_list("pk", flat=True)
    total = sum(Blob.objects.filter(session__in=list(sessions)).values_list("size", flat=True))
    for session in sessions:
        total += _bytes(SessionMessage, session, "message")
        for name in ("state", "conversation_manager_state", "internal_state"):
            total += _bytes(SessionAgent, session, name)
        total += sum(_bytes(Snapshot, session, name) for name in ("document", "messages"))
    return total


def _bytes(model: Any, session: UUID, column: str) -> int:
    return sum(len(text.encode()) for text in _texts(model, session, column))


def _texts(model: Any, session: UUID, column: str) -> list[str]:
    """Read a column as it is stored."""
    text = f"CAST({column} AS {'CHAR' if connection.vendor == 'mysql' else 'TEXT'})"
    key = Session._meta.pk
    assert key is not None
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {text} FROM {model._meta.db_table} WHERE session_id = %s ORDER BY id",
            [key.get_db_prep_value(session, connection)],
        )
        return [found or "" for (found,) in cursor.fetchall()]


def compare(world: World) -> str:
    """Compare the counters of all sessions, and the positions, with the rows; return a difference.

    In few statements, because it is done after each step.
    """
    every: defaultdict[UUID, set[UUID]] = defaultdict(set)
    failed: defaultdict[UUID, set[UUID]] = defaultdict(set)
    last: Counter[tuple[UUID, int]] = Counter()
    found: Counter[tuple[UUID, int]] = Counter()
    columns = ("session_id", "agent_id", "branch", "message_id", "pk", "source", "has_error")
    rows = SessionMessage.objects.order_by().values_list(*columns)
    for session, agent, branch, position, key, source, has_error in rows:
        every[session].add(source or key)
        if has_error:
            failed[session].add(source or key)
        found[agent, branch] += 1
        last[agent, branch] = max(last[agent, branch], position + 1)
    if found != last:
        return f"positions with gaps: {found - last} {last - found}"
    names = ("pk", "message_count", "error_count", "has_errors", "input_tokens", "origin")
    for key, messages, errors, has_errors, tokens, origin in Session.objects.values_list(*names):
        expected = (len(every[key]), len(failed[key]), bool(failed[key]))
        if (messages, errors, has_errors) != expected:
            return f"session {key}: {(messages, errors, has_errors)} instead of {expected}"
        counted = origin is None and key not in world.with_costs
        if counted and (tokens or 0) != world.tokens[key]:
            return f"session {key}: {tokens} tokens instead of {world.tokens[key]}"
    return ""
