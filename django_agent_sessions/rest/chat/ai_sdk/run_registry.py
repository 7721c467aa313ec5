"""The running and the recent answers of this process."""

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
from .runs import DELETED, Run, RunLimits

MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Bytes of all finished answers that this process keeps for replay."""

MAX_KEPT_PER_USER = 10
"""How many finished answers of one user are kept."""

_START_SECONDS = 60.0


class TooManyRuns(APIException):
    """The process, or the user, has too many running answers."""

    status_code = 503
    default_detail = "Too many messages are being answered. Try again in a moment."
    default_code = "too_many_answers"
    wait = 5


class Runs:
    """The running and the recent answers of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_session: dict[UUID, Run] = {}
        self._recent_answers: dict[UUID, Answer] = {}

    def enter(self, run: Run, bounds: RunLimits) -> Answer | None:
        """Register an answer; return the answer that the message has already, or ``None``.

        Raises ``TooManyRuns``, and ``Conflict`` if the session is busy or the id is another
        message's.
        """
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

    def check_room(self, owner: Any, bounds: RunLimits) -> None:
        """Raise ``TooManyRuns`` if the user cannot have another answer."""
        with self._lock:
            self._sweep()
            self._check_room(owner, bounds)

    def active(self, session: UUID) -> Run | None:
        """Return the session's running answer in this process."""
        with self._lock:
            return self._by_session.get(session)

    def recent(self, session: UUID) -> Answer | None:
        """Return the session's running or last answer in this process."""
        with self._lock:
            self._sweep()
            return self._recent(session)

    def session_deleted(self, session: UUID) -> None:
        """Stop the answer of a deleted session in this process; from any thread."""
        run = self.active(session)
        if run is not None:
            run.ask_to_stop(DELETED)

    async def end(self) -> None:
        """Cancel all answers of the running loop, because the process shuts down."""
        with self._lock:
            running = list(self._by_session.values())
        await asyncio.gather(*(run.end() for run in running))

    def leave(self, run: Run) -> None:
        """Unregister an answer that was not begun."""
        with self._lock:
            self._remove(run.answer)

    def ended(self, answer: Answer, linger: float) -> None:
        """Keep a finished answer for ``linger`` seconds, for a client that repeats its request."""
        with self._lock:
            self._remove(answer)
            if linger > 0 and answer.loop is not None:
                answer.kept_until = time.monotonic() + linger
                # Reinserted, so that the dict is ordered by age.
                self._recent_answers.pop(answer.session, None)
                self._recent_answers[answer.session] = answer
                self._sweep()
                answer.loop.call_later(linger + 0.1, self._sweep_with_lock)

    def _sweep_with_lock(self) -> None:
        with self._lock:
            self._sweep()

    def _recent(self, session: UUID) -> Answer | None:
        run = self._by_session.get(session)
        return self._recent_answers.get(session) if run is None else run.answer

    def _check_room(self, owner: Any, bounds: RunLimits) -> None:
        count = sum(run.answer.owner == owner for run in self._by_session.values())
        if len(self._by_session) >= bounds.runs or count >= bounds.runs_of_user:
            raise TooManyRuns

    def _remove(self, answer: Answer) -> None:
        run = self._by_session.get(answer.session)
        if run is not None and run.answer is answer:
            del self._by_session[answer.session]

    def _sweep(self) -> None:
        """Remove answers that nothing else removes.

        Those are answers whose response was never read or whose loop is closed, and finished
        answers that are too old or too many.
        """
        now = time.monotonic()
        for key, run in list(self._by_session.items()):
            loop = run.answer.loop
            if now - run.since > _START_SECONDS if loop is None else loop.is_closed():
                del self._by_session[key]
        room, counts = MAX_KEPT_BYTES, dict[Any, int]()
        for key, answer in reversed(list(self._recent_answers.items())):
            counts[answer.owner] = counts.get(answer.owner, 0) + 1
            room -= 0 if answer.buffer is None else answer.buffer.size
            gone = answer.loop is None or answer.loop.is_closed() or answer.kept_until <= now
            if gone or room < 0 or counts[answer.owner] > MAX_KEPT_PER_USER:
                del self._recent_answers[key]


runs = Runs()


def _stop_deleted(instance: Session, using: str, **kwargs: Any) -> None:
    """Stop the answer of a deleted session; other processes check for the session themselves."""
    if runs.active(instance.pk) is not None:
        stop = functools.partial(runs.session_deleted, instance.pk)
        transaction.on_commit(stop, using=using, robust=True)


post_delete.connect(_stop_deleted, Session, dispatch_uid="agent_sessions.ai_sdk")
