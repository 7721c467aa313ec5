"""Reading messages: a page, the last ones, or a conversation to go on with."""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db.models import Q

from django_agent_sessions import payloads, reads
from django_agent_sessions.blobs import restored
from django_agent_sessions.fields import CorruptPayload, read
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.querysets import CONTENT_TEXT, MessageQuerySet
from django_agent_sessions.records import AgentRecord, MessageRecord, PlacedPayload

from .base import StorePart, repeatable

logger = logging.getLogger("django_agent_sessions")

_COLUMNS = (
    "id",
    "message_id",
    "message",
    "redact_message",
    "role",
    "run_id",
    "revision",
    "created_at",
    "updated_at",
)


class MessageReader(StorePart):
    """The part of the store that reads messages."""

    @repeatable
    def read_message(self, agent: AgentRecord, message_id: int) -> MessageRecord | None:
        """Reads a message.

        Args:
            agent: The agent whose conversation it is.
            message_id: Its position.

        Returns:
            The message; None if there is none at this position, or what is there is corrupt.
        """
        found = self._messages(agent).filter(message_id=message_id)
        records = self._records(agent, found.values_list(*_COLUMNS))
        return records[0] if records else None

    async def aread_message(self, agent: AgentRecord, message_id: int) -> MessageRecord | None:
        """Does what :meth:`read_message` does."""
        return await self._arun(self.read_message, agent, message_id)

    @repeatable
    def messages(
        self, agent: AgentRecord, *, limit: int | None = None, offset: int = 0
    ) -> list[MessageRecord]:
        """Reads messages from the beginning.

        Args:
            agent: The agent whose conversation it is.
            limit: How many at the most; None reads all.
            offset: How many to pass over.

        Returns:
            The messages in order. A corrupt one is left out and reported with its id.
        """
        found = self._messages(agent)
        stop = None if limit is None else offset + limit
        return self._records(agent, found[offset:stop].values_list(*_COLUMNS))

    async def amessages(
        self, agent: AgentRecord, *, limit: int | None = None, offset: int = 0
    ) -> list[MessageRecord]:
        """Does what :meth:`messages` does."""
        return await self._arun(self.messages, agent, limit=limit, offset=offset)

    @repeatable
    def latest(self, agent: AgentRecord, count: int) -> list[MessageRecord]:
        """Reads the last messages.

        Args:
            agent: The agent whose conversation it is.
            count: How many at the most; 0 or less reads none.

        Returns:
            The messages in order. A corrupt one is left out and reported with its id.
        """
        if count <= 0:
            return []
        found = self._messages(agent).order_by("-message_id")[:count]
        return self._records(agent, found.values_list(*_COLUMNS))[::-1]

    async def alatest(self, agent: AgentRecord, count: int) -> list[MessageRecord]:
        """Does what :meth:`latest` does."""
        return await self._arun(self.latest, agent, count)

    def payloads(self, agent: AgentRecord, *, latest: int | None = None) -> list[Any]:
        """Reads what was said, redacted where it was redacted, and nothing else: the fast road.

        Args:
            agent: The agent whose conversation it is.
            latest: Only that many of the last ones; None reads all, 0 or less none.

        Returns:
            The payloads in order. Corrupt ones are left out and reported; ``latest`` counts the
            others.
        """
        if latest is not None and latest <= 0:
            return []
        found = self._sound_payloads(agent, latest)
        if found is None:
            return [placed.payload for placed in self.placed_payloads(agent, latest=latest)]
        return found if latest is None else found[::-1]

    async def apayloads(self, agent: AgentRecord, *, latest: int | None = None) -> list[Any]:
        """Does what :meth:`payloads` does."""
        return await self._arun(self.payloads, agent, latest=latest)

    @repeatable
    def _sound_payloads(self, agent: AgentRecord, latest: int | None) -> list[Any] | None:
        """Reads what nearly all conversations are: sound payloads."""
        rows = reads.texts(self.using, agent.id, branch=agent.branch, latest=latest)
        texts = [text for (text,) in rows]
        try:
            found = payloads.loads_all(texts)
        except ValueError:
            return None
        return self._with_binaries(agent, found, texts)

    @repeatable
    def placed_payloads(
        self, agent: AgentRecord, *, latest: int | None = None
    ) -> list[PlacedPayload]:
        """Reads what :meth:`payloads` reads, with the position of each and whether it was redacted.

        Args:
            agent: As for :meth:`payloads`.
            latest: As for :meth:`payloads`.

        Returns:
            The payloads in order.
        """
        if latest is None:
            everything = reads.contents(self.using, agent.id, branch=agent.branch)
            return self._placed(agent, everything)
        found: list[PlacedPayload] = []
        wanted = latest
        while wanted > 0:
            rows = reads.contents(self.using, agent.id, branch=agent.branch, latest=wanted)
            found = self._placed(agent, rows)
            if len(found) >= latest or len(rows) < wanted:
                break
            # Corrupt rows are among the last ones: look further back.
            wanted *= 2
        return found[: max(latest, 0)][::-1]

    async def aplaced_payloads(
        self, agent: AgentRecord, *, latest: int | None = None
    ) -> list[PlacedPayload]:
        """Does what :meth:`placed_payloads` does."""
        return await self._arun(self.placed_payloads, agent, latest=latest)

    @repeatable
    def redacted_aside(self, agent: AgentRecord) -> list[MessageRecord]:
        """Reads what was redacted on the other branches, where it may have been moved to.

        Args:
            agent: The agent whose conversation it is, with the branch that is not read.

        Returns:
            The messages, by branch and position.
        """
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id)
        aside = rows.exclude(branch=agent.branch).filter(redact_message__isnull=False)
        found = aside.order_by("branch", "message_id").values_list(*_COLUMNS)
        return self._records(agent, found)

    async def aredacted_aside(self, agent: AgentRecord) -> list[MessageRecord]:
        """Does what :meth:`redacted_aside` does."""
        return await self._arun(self.redacted_aside, agent)

    @repeatable
    def restore(self, agent: AgentRecord, *, offset: int = 0) -> list[tuple[int, Any, Any]]:
        """Reads a conversation for a model to go on with.

        Invocations of the agent that ran at the same time in two processes are put one after the
        other, in order of their first messages, so that each tool call is followed by its result.

        Args:
            agent: The agent whose conversation it is. What its ``window`` leaves out is left out.
            offset: How many messages to pass over where there is no window.

        Returns:
            Position, payload and ``run_id`` of each message. Corrupt ones are left out and
            reported.
        """
        rows = self._rows_to_restore(agent, offset)
        started: dict[Any, int] = {}
        before = None
        interleaved = False
        for message_id, _, run_id in rows:
            if run_id is not None and run_id != before:
                interleaved = interleaved or run_id in started
                started.setdefault(run_id, message_id)
            before = run_id
        if interleaved:
            rows.sort(key=lambda row: (started.get(row[2], row[0]), row[0]))
        return [(row[0], payload, row[2]) for row, payload in self._contents(agent, rows)]

    def _rows_to_restore(self, agent: AgentRecord, offset: int) -> list[tuple[int, str, Any]]:
        window = agent.data.window
        if window is None and not offset:
            return reads.runs(self.using, agent.id, branch=agent.branch)
        if window is None:
            kept = Q(message_id__gte=offset)
        else:
            kept = Q(message_id__gte=window["tail"])
            if window["kept"]:
                kept |= Q(message_id__in=window["kept"])
        rows = self._messages(agent).filter(kept)
        return list(rows.values_list("message_id", CONTENT_TEXT, "run_id"))

    async def arestore(self, agent: AgentRecord, *, offset: int = 0) -> list[tuple[int, Any, Any]]:
        """Does what :meth:`restore` does."""
        return await self._arun(self.restore, agent, offset=offset)

    def next_position(self, agent: AgentRecord) -> int:
        """Finds the position that the next message gets.

        Args:
            agent: The agent whose conversation it is.

        Returns:
            The position after the last message, which may be corrupt, or left out by a window.
        """
        last = self._messages(agent).order_by("-message_id")
        position = last.values_list("message_id", flat=True).first()
        return 0 if position is None else position + 1

    async def anext_position(self, agent: AgentRecord) -> int:
        """Does what :meth:`next_position` does."""
        return await self._arun(self.next_position, agent)

    def positions(self, keys: Collection[UUID]) -> dict[UUID, int]:
        """Finds out which rows are there, and where.

        Args:
            keys: Primary keys of messages.

        Returns:
            The position of each that is there.
        """
        found = SessionMessage.objects.using(self.using).filter(pk__in=list(keys))
        return dict(found.values_list("pk", "message_id"))

    async def apositions(self, keys: Collection[UUID]) -> dict[UUID, int]:
        """Does what :meth:`positions` does."""
        return await self._arun(self.positions, keys)

    def _placed(self, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]) -> list[PlacedPayload]:
        readable, found = self._read(agent, rows)
        places = [row[0] for row in readable]
        redacted = [bool(row[2]) for row in readable]
        return list(map(_placed_payload, zip(places, found, redacted, strict=True)))

    def _contents(
        self, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
    ) -> list[tuple[Any, Any]]:
        return list(zip(*self._read(agent, rows), strict=True))

    def _read(
        self, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
    ) -> tuple[list[tuple[Any, ...]], list[Any]]:
        """Reads the content of rows that start with position and content, whole."""
        rows = list(rows)
        texts = [row[1] for row in rows]
        try:
            found = payloads.loads_all(texts)
        except ValueError:
            readable = list(_decoded(agent, rows))
            rows, found = [row for row, _ in readable], [payload for _, payload in readable]
            texts = [row[1] for row in rows]
        return rows, self._with_binaries(agent, found, texts)

    def _with_binaries(self, agent: AgentRecord, found: list[Any], texts: list[str]) -> list[Any]:
        """Puts the large binaries of payloads back, where their texts refer to any."""
        places = [at for at, text in enumerate(texts) if "$" in text and payloads.has_blobs(text)]
        if places:
            parts = [found[at] for at in places]
            whole = restored(self.using, agent.session, parts, agent.dialect)
            for at, payload in zip(places, whole, strict=True):
                found[at] = payload
        return found

    def _records(self, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]) -> list[MessageRecord]:
        found = _readable(agent, rows)
        both = [payload for record in found for payload in (record.message, record.redact_message)]
        whole = iter(restored(self.using, agent.session, both, agent.dialect))
        return [r._replace(message=next(whole), redact_message=next(whole)) for r in found]

    def _messages(self, agent: AgentRecord) -> MessageQuerySet:
        return SessionMessage.objects.using(self.using).conversation(agent.id, agent.branch)


# What `_make` does, without a call of Python's for each of thousands.
_placed_payload = functools.partial(tuple.__new__, PlacedPayload)


def _decoded(agent: AgentRecord, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, Any]]:
    """Reads the content of rows that start with position and content; leaves out corrupt ones."""
    for row in rows:
        payload = read(row[1])
        if isinstance(payload, CorruptPayload):
            _report(agent, row[0])
        else:
            yield row, payload


def _readable(agent: AgentRecord, rows: Iterable[tuple[Any, ...]]) -> list[MessageRecord]:
    records = []
    for row in rows:
        record = MessageRecord._make(row)
        if isinstance(record.content, CorruptPayload):
            _report(agent, record.message_id)
        else:
            records.append(record)
    return records


def _report(agent: AgentRecord, message_id: int) -> None:
    logger.warning(
        "message %d of agent %s (row %s) is corrupt and was left out",
        message_id,
        agent.agent_id,
        agent.id,
    )
