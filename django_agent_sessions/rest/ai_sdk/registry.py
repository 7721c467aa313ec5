"""Which answers a process is giving, and gave just now."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.signals import post_delete
from rest_framework.exceptions import APIException

from django_agent_sessions.models import Session
from django_agent_sessions.rest.problems import Conflict

from .answers import Answer
from .claims import Refusal
from .runs import Bounds, Run

KEPT_BYTES = 64 * 1024 * 1024
"""Bytes of all answers that are over and still kept in this process."""

KEPT_OF_USER = 10
"""How many of them may be one user's."""

_UNBEGUN = 60.0


class TooManyRuns(APIException):
    """More is being answered than may be."""

    status_code = 503
    default_detail = "Too much is being answered just now. Try again in a moment."
    default_code = "too_many_answers"
    wait = 5


class Runs:
    """The answers of this process: those that are given, and those that were given just now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_session: dict[UUID, Run] = {}
        self._lately: dict[UUID, Answer] = {}

    def enter(self, run: Run, bounds: Bounds) -> Answer | None:
        """Takes an answer in, if its session is not answering."""
        answer = run.answer
        with self._lock:
            self._sweep()
            current = self._recent(answer.session)
            if current is not None and answer.message_id == current.message_id != "":
                if current.digest != answer.digest:
                    raise Conflict(Refusal.CHANGED.value)
                return current
            if answer.session in self._by_session:
                raise Conflict(Refusal.BUSY.value)
            self._check_room(answer.owner, bounds)
            self._by_session[answer.session] = run
        return None

    def check_room(self, owner: Any, bounds: Bounds) -> None:
        """Looks whether a user may have another answer."""
        with self._lock:
            self._sweep()
            self._check_room(owner, bounds)

    def active(self, session: UUID) -> Run | None:
        """Finds the answer that a session is giving in this process."""
        with self._lock:
            return self._by_session.get(session)

    def recent(self, session: UUID) -> Answer | None:
        """Finds the answer that a session is giving in this process, or gave just now."""
        with self._lock:
            self._sweep()
            return self._recent(session)

    def stop(self, session: UUID) -> None:
        """Stops what a session is answering in this process; from any thread."""
        run = self.active(session)
        if run is not None:
            run.ask_to_stop()

    async def end(self) -> None:
        """Ends all answers of the running loop, because the process ends."""
        with self._lock:
            found = list(self._by_session.values())
        await asyncio.gather(*(run.end() for run in found))

    def leave(self, run: Run) -> None:
        """Lets an answer go that was not begun."""
        with self._lock:
            self._remove(run.answer)

    def ended(self, answer: Answer, linger: float) -> None:
        """Keeps an answer that is over for a while, for a client that asks again."""
        with self._lock:
            self._remove(answer)
            if linger > 0 and answer.loop is not None:
                answer.until = time.monotonic() + linger
                # The latest is the last one.
                self._lately.pop(answer.session, None)
                self._lately[answer.session] = answer
                self._sweep()
                answer.loop.call_later(linger + 0.1, self._look)

    def _look(self) -> None:
        with self._lock:
            self._sweep()

    def _recent(self, session: UUID) -> Answer | None:
        run = self._by_session.get(session)
        return self._lately.get(session) if run is None else run.answer

    def _check_room(self, owner: Any, bounds: Bounds) -> None:
        mine = sum(run.answer.owner == owner for run in self._by_session.values())
        if len(self._by_session) >= bounds.runs or mine >= bounds.runs_of_user:
            raise TooManyRuns

    def _remove(self, answer: Answer) -> None:
        run = self._by_session.get(answer.session)
        if run is not None and run.answer is answer:
            del self._by_session[answer.session]

    def _sweep(self) -> None:
        """Lets go of what nobody will end: a response that was never read, a loop that is gone.

        And of answers that are over: the old ones, and those that are too many.
        """
        now = time.monotonic()
        for key, run in list(self._by_session.items()):
            loop = run.answer.loop
            if now - run.since > _UNBEGUN if loop is None else loop.is_closed():
                del self._by_session[key]
        room, counts = KEPT_BYTES, dict[Any, int]()
        for key, answer in reversed(list(self._lately.items())):
            counts[answer.owner] = counts.get(answer.owner, 0) + 1
            room -= 0 if answer.buffer is None else answer.buffer.size
            gone = answer.loop is None or answer.loop.is_closed() or answer.until <= now
            if gone or room < 0 or counts[answer.owner] > KEPT_OF_USER:
                del self._lately[key]


runs = Runs()
"""The answers of this process."""


def _deleted(instance: Session, using: str, **kwargs: Any) -> None:
    """Stops the answer of a session that is deleted; another process finds it out by itself."""
    if runs.active(instance.pk) is not None:
        stop = functools.partial(runs.stop, instance.pk)
        transaction.on_commit(stop, using=using, robust=True)


post_delete.connect(_deleted, Session, dispatch_uid="agent_sessions.ai_sdk")
