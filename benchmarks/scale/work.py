"""What is measured: each piece of work prepares itself out of the clock's sight."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client

from benchmarks.scale.loading import LONG, MESSAGES, PERSON, STAFF
from django_agent_sessions.admin.changelist import SessionListCursor
from django_agent_sessions.admin.keyset_changelist import AFTER
from django_agent_sessions.governance.redaction import WholeMessage, redact
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionMessage, UsageCursor
from django_agent_sessions.store import SessionStore
from django_agent_sessions.usage import roll_up
from django_agent_sessions.values.ids import id_for_time
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, SessionRecord

POOL = 20
"""Sessions that are taken in turns, so that no single page of a table decides."""

_LIST = "/admin/agent_sessions/session/"
_API = "/api/sessions/"
_SAID = {"role": "user", "content": [{"text": "Say that again, please. " * 15}]}

Work = Callable[[], object]


@dataclass(frozen=True)
class Chosen:
    """A session with its one agent."""

    session: SessionRecord
    agent: AgentRecord


class Bench:
    """All the work on one database."""

    def __init__(self, messages: int) -> None:
        self.store = SessionStore(owner=EVERYBODY)
        self.staff, self.person = Client(), Client()
        self.staff.force_login(get_user_model().objects.get(username=STAFF))
        self.person.force_login(get_user_model().objects.get(username=PERSON))
        # Of the newer half, spread over it: the older ones are what is deleted in the end.
        usual = messages // MESSAGES
        step = usual // 2 // (3 * POOL)
        chosen = self._chosen(f"session-{usual // 2 + step * n}" for n in range(3 * POOL))
        self.read, self.written, self.changed = (chosen[part::3] for part in range(3))
        assert {self._length(one) for one in self.read} == {MESSAGES}
        self.long = self._chosen(f"session-{20 * number}" for number in range(4))
        assert {self._length(one) for one in self.long} == {LONG}
        self._next = {id(pool): itertools.cycle(pool) for pool in (self.read, self.written)}
        self._next |= {id(pool): itertools.cycle(pool) for pool in (self.changed, self.long)}
        own = Session.objects.filter(owner__username=PERSON, message_count=MESSAGES)
        self.own = itertools.cycle(own.recent_first()[:POOL])
        self.pages = self._pages(usual // 2)

    def prepared(self, name: str) -> Work:
        """Prepares a piece of work once."""
        return WORK[name](self)

    def one(self, pool: list[Chosen]) -> Chosen:
        """Gives the next session of a pool."""
        return next(self._next[id(pool)])

    def _chosen(self, names: Any) -> list[Chosen]:
        found = [self.store.get(name) for name in names]
        return [Chosen(session, self.store.agents.list(session)[0]) for session in found]

    def _length(self, one: Chosen) -> int:
        return SessionMessage.objects.filter(session=one.session.id).count()

    def _pages(self, place: int) -> dict[str, str]:
        """Finds the addresses of pages in the middle of a list."""
        middle = Session.objects.recent_first()[place]
        own = Session.objects.filter(owner__username=PERSON).recent_first()[80]
        return {
            "admin": f"{_LIST}?{AFTER}={SessionListCursor.of(middle)}".replace("+", "%2B"),
            "everybody": self._after(self.staff, f"{_API}?scope=all&limit=50&after={middle.pk}"),
            "own": self._after(self.person, f"{_API}?limit=20&after={own.pk}"),
        }

    @staticmethod
    def _after(client: Client, url: str) -> str:
        """Asks for a page, and gives the address of the next, with its cursor."""
        found: str = json.loads(client.get(url).content)["next"]
        return found


def _get(client: Client, url: str) -> Work:
    def get() -> None:
        answer = client.get(url)
        assert answer.status_code == 200, (url, answer.status_code, answer.content[:500])

    return get


def _append(bench: Bench, count: int) -> Work:
    agent = bench.one(bench.written).agent
    return lambda: bench.store.append_many(agent, [_SAID] * count, count=False)


def _restore(bench: Bench, pool: list[Chosen]) -> Work:
    agent = bench.one(pool).agent
    return lambda: bench.store.messages.restore(agent)


def _latest(bench: Bench) -> Work:
    agent = bench.one(bench.long).agent
    return lambda: bench.store.payloads(agent, latest=20)


def _pop(bench: Bench) -> Work:
    agent = bench.one(bench.written).agent
    bench.store.append(agent, _SAID, count=False)
    return lambda: bench.store.pop(agent)


def _delete(bench: Bench) -> Work:
    name = bench.store.sessions.fork(bench.one(bench.changed).session).session_id
    return lambda: bench.store.delete(name)


def _fork(bench: Bench) -> Work:
    session = bench.one(bench.changed).session
    return lambda: bench.store.sessions.fork(session)


def _redact(bench: Bench) -> Work:
    fork = bench.store.sessions.fork(bench.one(bench.changed).session)
    rows = SessionMessage.objects.filter(session=fork.id, branch=MAIN_BRANCH)
    key = rows.values_list("pk", flat=True)[MESSAGES // 2]
    return lambda: redact(fork.id, WholeMessage(key), reason="measured", actor="benchmark")


def _usage(bench: Bench) -> Work:
    """Counts the evening that lies by itself, as if that had not been done yet."""
    session = Session.objects.get(session_id="planted-0")
    before = id_for_time(session.created_at - timedelta(hours=1), 0)
    UsageCursor.objects.update_or_create(
        pk=1, defaults={"message": before, "session": before, "counted_at": None}
    )
    until = session.created_at + timedelta(hours=1)

    def count() -> None:
        counted = roll_up(until=until)
        assert (counted.messages, counted.sessions) == (1000, 20), counted

    return count


WORK: dict[str, Callable[[Bench], Work]] = {
    "append one": lambda bench: _append(bench, 1),
    "append 100": lambda bench: _append(bench, 100),
    "restore 50": lambda bench: _restore(bench, bench.read),
    "restore 1,000": lambda bench: _restore(bench, bench.long),
    "latest 20 of 1,000": _latest,
    "pop": _pop,
    "redact one message": _redact,
    "fork a session of 50": _fork,
    "delete a session of 50": _delete,
    "usage of one evening, 1,000 messages": _usage,
    "admin: session list": lambda bench: _get(bench.staff, _LIST),
    "admin: session list, in the middle": lambda bench: _get(bench.staff, bench.pages["admin"]),
    "admin: search by id": lambda bench: _get(bench.staff, f"{_LIST}?q=session-77"),
    "admin: transcript": lambda bench: _get(
        bench.staff, f"{_LIST}{bench.one(bench.read).session.id}/change/"
    ),
    "REST: own sessions": lambda bench: _get(bench.person, f"{_API}?limit=20"),
    "REST: own sessions, page 5": lambda bench: _get(bench.person, bench.pages["own"]),
    "REST: everybody's sessions": lambda bench: _get(bench.staff, f"{_API}?scope=all&limit=50"),
    "REST: everybody's sessions, in the middle": lambda bench: _get(
        bench.staff, bench.pages["everybody"]
    ),
    "REST: search by id": lambda bench: _get(bench.staff, f"{_API}?scope=all&q=session-77"),
    "REST: messages": lambda bench: _get(
        bench.person, f"{_API}{next(bench.own).pk}/messages/?limit=50"
    ),
}
"""By name: what prepares it, and gives what the clock sees."""
