"""Read messages: single ones, pages, the last ones, or a whole conversation."""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db.models import Q

from django_agent_sessions.blobs import restore_binaries
from django_agent_sessions.content import exact_json
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.querysets import VISIBLE_TEXT, MessageQuerySet
from django_agent_sessions.sql import message_reads
from django_agent_sessions.values.records import AgentRecord, MessageRecord, PositionedPayload

from ._base import StorePart, retry_reads

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
    @retry_reads
    def read_message(self, agent: AgentRecord, message_id: int) -> MessageRecord | None:
        """Read a message.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            message_id: Its position.

        Returns:
            The message; None if it does not exist or is corrupt.
        """
        rows = self._messages(agent).filter(message_id=message_id)
        records = self._records(agent, rows.values_list(*_COLUMNS))
        return records[0] if records else None

    async def aread_message(self, agent: AgentRecord, message_id: int) -> MessageRecord | None:
        """Async twin of :meth:`read_message`."""
        return await self._arun(self.read_message, agent, message_id)

    @retry_reads
    def messages(
        self, agent: AgentRecord, *, limit: int | None = None, offset: int = 0
    ) -> list[MessageRecord]:
        """Read messages from the beginning.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            limit: Maximum number of messages; None reads all.
            offset: Number of messages to skip.

        Returns:
            The messages in order. Corrupt ones are skipped and logged with their ids.
        """
        rows = self._messages(agent)
        stop = None if limit is None else offset + limit
        return self._records(agent, rows[offset:stop].values_list(*_COLUMNS))

    async def amessages(
        self, agent: AgentRecord, *, limit: int | None = None, offset: int = 0
    ) -> list[MessageRecord]:
        """Async twin of :meth:`messages`."""
        return await self._arun(self.messages, agent, limit=limit, offset=offset)

    @retry_reads
    def latest(self, agent: AgentRecord, count: int) -> list[MessageRecord]:
        """Read the last messages.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            count: Maximum number of messages; 0 or less reads none.

        Returns:
            The messages in order. Corrupt ones are skipped and logged with their ids.
        """
        if count <= 0:
            return []
        rows = self._messages(agent).order_by("-message_id")[:count]
        return self._records(agent, rows.values_list(*_COLUMNS))[::-1]

    async def alatest(self, agent: AgentRecord, count: int) -> list[MessageRecord]:
        """Async twin of :meth:`latest`."""
        return await self._arun(self.latest, agent, count)

    def payloads(self, agent: AgentRecord, *, latest: int | None = None) -> list[Any]:
        """Read payloads only, redacted where they were redacted. The fastest way to read messages.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            latest: Read only this number of last messages; None reads all, 0 or less none.

        Returns:
            The payloads in order. Corrupt ones are skipped and logged; ``latest`` does not count
            them.
        """
        if latest is not None and latest <= 0:
            return []
        decoded = self._payloads_if_readable(agent, latest)
        if decoded is None:
            return [placed.payload for placed in self.positioned_payloads(agent, latest=latest)]
        return decoded if latest is None else decoded[::-1]

    async def apayloads(self, agent: AgentRecord, *, latest: int | None = None) -> list[Any]:
        """Async twin of :meth:`payloads`."""
        return await self._arun(self.payloads, agent, latest=latest)

    @retry_reads
    def _payloads_if_readable(self, agent: AgentRecord, latest: int | None) -> list[Any] | None:
        """Read payloads if all are readable; None if one is corrupt."""
        rows = message_reads.select_texts(self.using, agent.id, branch=agent.branch, latest=latest)
        texts = [text for (text,) in rows]
        try:
            decoded = exact_json.loads_all(texts)
        except ValueError:
            return None
        return self._with_binaries(agent, decoded, texts)

    @retry_reads
    def positioned_payloads(
        self, agent: AgentRecord, *, latest: int | None = None
    ) -> list[PositionedPayload]:
        """Read payloads, the position of each, and whether it was redacted.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            latest: Read only this number of last messages; None reads all, 0 or less none.

        Returns:
            The payloads in order. Corrupt ones are skipped and logged; ``latest`` does not count
            them.
        """
        if latest is None:
            rows = message_reads.select_contents(self.using, agent.id, branch=agent.branch)
            return self._placed(agent, rows)
        result: list[PositionedPayload] = []
        wanted = latest
        while wanted > 0:
            rows = message_reads.select_contents(
                self.using, agent.id, branch=agent.branch, latest=wanted
            )
            result = self._placed(agent, rows)
            if len(result) >= latest or len(rows) < wanted:
                break
            # Some of the last rows are corrupt: read more of them.
            wanted *= 2
        return result[: max(latest, 0)][::-1]

    async def apositioned_payloads(
        self, agent: AgentRecord, *, latest: int | None = None
    ) -> list[PositionedPayload]:
        """Async twin of :meth:`positioned_payloads`."""
        return await self._arun(self.positioned_payloads, agent, latest=latest)

    @retry_reads
    def redacted_on_other_branches(self, agent: AgentRecord) -> list[MessageRecord]:
        """Read the redacted messages of the other branches.

        A message may have been moved there since the caller read it.

        Args:
            agent: The agent; its ``branch`` is the branch that is not read.

        Returns:
            The messages, by branch and position.
        """
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id)
        redacted = rows.exclude(branch=agent.branch).filter(redact_message__isnull=False)
        values = redacted.order_by("branch", "message_id").values_list(*_COLUMNS)
        return self._records(agent, values)

    async def aredacted_on_other_branches(self, agent: AgentRecord) -> list[MessageRecord]:
        """Async twin of :meth:`redacted_on_other_branches`."""
        return await self._arun(self.redacted_on_other_branches, agent)

    @retry_reads
    def restore(self, agent: AgentRecord, *, offset: int = 0) -> list[tuple[int, Any, Any]]:
        """Read a conversation as the input of a model.

        Messages of concurrent invocations are grouped by invocation, in order of their first
        messages, so that each tool call is followed by its result.

        Args:
            agent: The agent; its ``branch`` selects the branch. Messages outside its ``window`` are
                skipped.
            offset: Number of messages to skip if there is no window.

        Returns:
            Position, payload and ``run_id`` of each message. Corrupt ones are skipped and logged.
        """
        rows = self._rows_to_restore(agent, offset)
        first_positions: dict[Any, int] = {}
        previous_run = None
        interleaved = False
        for message_id, _, run_id in rows:
            if run_id is not None and run_id != previous_run:
                interleaved = interleaved or run_id in first_positions
                first_positions.setdefault(run_id, message_id)
            previous_run = run_id
        if interleaved:
            rows.sort(key=lambda row: (first_positions.get(row[2], row[0]), row[0]))
        return [(row[0], payload, row[2]) for row, payload in self._contents(agent, rows)]

    def _rows_to_restore(self, agent: AgentRecord, offset: int) -> list[tuple[int, str, Any]]:
        window = agent.data.window
        if window is None and not offset:
            return message_reads.select_with_runs(self.using, agent.id, branch=agent.branch)
        if window is None:
            in_window = Q(message_id__gte=offset)
        else:
            in_window = Q(message_id__gte=window["tail"])
            if window["kept"]:
                in_window |= Q(message_id__in=window["kept"])
        rows = self._messages(agent).filter(in_window)
        return list(rows.values_list("message_id", VISIBLE_TEXT, "run_id"))

    async def arestore(self, agent: AgentRecord, *, offset: int = 0) -> list[tuple[int, Any, Any]]:
        """Async twin of :meth:`restore`."""
        return await self._arun(self.restore, agent, offset=offset)

    def next_position(self, agent: AgentRecord) -> int:
        """Return the position that the next message gets.

        Args:
            agent: The agent; its ``branch`` selects the branch.

        Returns:
            The position after the last message; a corrupt message and one outside the window count.
        """
        last = self._messages(agent).order_by("-message_id")
        position = last.values_list("message_id", flat=True).first()
        return 0 if position is None else position + 1

    async def anext_position(self, agent: AgentRecord) -> int:
        """Async twin of :meth:`next_position`."""
        return await self._arun(self.next_position, agent)

    def positions(self, keys: Collection[UUID]) -> dict[UUID, int]:
        """Return the positions of the messages that exist.

        Args:
            keys: Primary keys of messages.

        Returns:
            The positions by primary key.
        """
        rows = SessionMessage.objects.using(self.using).filter(pk__in=list(keys))
        return dict(rows.values_list("pk", "message_id"))

    async def apositions(self, keys: Collection[UUID]) -> dict[UUID, int]:
        """Async twin of :meth:`positions`."""
        return await self._arun(self.positions, keys)

    def _placed(
        self, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
    ) -> list[PositionedPayload]:
        readable, decoded = self._read(agent, rows)
        positions = [row[0] for row in readable]
        redacted = [bool(row[2]) for row in readable]
        return list(map(_placed_payload, zip(positions, decoded, redacted, strict=True)))

    def _contents(
        self, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
    ) -> list[tuple[Any, Any]]:
        return list(zip(*self._read(agent, rows), strict=True))

    def _read(
        self, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
    ) -> tuple[list[tuple[Any, ...]], list[Any]]:
        """Read the payloads, with binaries, of rows that begin with position and text."""
        rows = list(rows)
        texts = [row[1] for row in rows]
        try:
            decoded = exact_json.loads_all(texts)
        except ValueError:
            readable = list(_decode(agent, rows))
            rows, decoded = [row for row, _ in readable], [payload for _, payload in readable]
            texts = [row[1] for row in rows]
        return rows, self._with_binaries(agent, decoded, texts)

    def _with_binaries(self, agent: AgentRecord, decoded: list[Any], texts: list[str]) -> list[Any]:
        """Restore the large binaries in payloads whose texts reference any."""
        indexes = [
            index for index, text in enumerate(texts) if "$" in text and exact_json.has_blobs(text)
        ]
        if indexes:
            incomplete = [decoded[index] for index in indexes]
            complete = restore_binaries(self.using, agent.session, incomplete, agent.dialect)
            for index, payload in zip(indexes, complete, strict=True):
                decoded[index] = payload
        return decoded

    def _records(self, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]) -> list[MessageRecord]:
        records = _message_records(agent, rows)
        contents = [
            payload for record in records for payload in (record.message, record.redact_message)
        ]
        complete = iter(restore_binaries(self.using, agent.session, contents, agent.dialect))
        return [r._replace(message=next(complete), redact_message=next(complete)) for r in records]

    def _messages(self, agent: AgentRecord) -> MessageQuerySet:
        return SessionMessage.objects.using(self.using).conversation(agent.id, agent.branch)


# Same as `PositionedPayload._make`, without a Python call for each of thousands of rows.
_placed_payload = functools.partial(tuple.__new__, PositionedPayload)


def _decode(agent: AgentRecord, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, Any]]:
    """Decode rows that begin with position and text; skip corrupt ones."""
    for row in rows:
        payload = decode_payload(row[1])
        if isinstance(payload, CorruptPayload):
            _log_corrupt(agent, row[0])
        else:
            yield row, payload


def _message_records(agent: AgentRecord, rows: Iterable[tuple[Any, ...]]) -> list[MessageRecord]:
    records = []
    for row in rows:
        record = MessageRecord(*row)
        if isinstance(record.content, CorruptPayload):
            _log_corrupt(agent, record.message_id)
        else:
            records.append(record)
    return records


def _log_corrupt(agent: AgentRecord, message_id: int) -> None:
    logger.warning(
        "message %d of agent %s (row %s) is corrupt and was skipped",
        message_id,
        agent.agent_id,
        agent.id,
    )
