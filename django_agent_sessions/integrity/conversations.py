"""Checks of messages: positions, payloads, tool calls, redactions and derived columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet, Sum, TextField
from django.db.models.functions import Substr

from django_agent_sessions import blobs
from django_agent_sessions.content import codec, dialects, exact_json
from django_agent_sessions.content.dialects import Dialect
from django_agent_sessions.exceptions import BlobError
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.functions import without_original
from django_agent_sessions.models.stored_text import StoredText
from django_agent_sessions.store.importing import CACHE_COLUMNS, COUNT_COLUMNS, plausible_count
from django_agent_sessions.usage.rollups import day_of
from django_agent_sessions.values.token_counts import TokenCounts

from .batch import Agent, Batch, BranchExtent, UsageSum
from .findings import Kind
from .row_batches import PART, size_of, split_by_size

ROLE_LENGTH = 32
_MAX_ANSWERED = 10_000
"""The most answered calls that are remembered."""

_COLUMNS = (
    "pk",
    "session_id",
    "agent_id",
    "branch",
    "message_id",
    "source",
    "revision",
    "role",
    "text",
    *COUNT_COLUMNS,
    "has_error",
    "redacted_at",
    "created_at",
)
_TEXTS = {
    # As text: identical payloads are parsed once.
    "payload": StoredText("message"),
    # How the stored text of the payload begins.
    "beginning": Substr(StoredText("message", keyed=False, output_field=TextField()), 1, 8),
}


def message_batches(using: str, spans: Sequence[BranchExtent]) -> Iterator[list[Any]]:
    """Yield messages in order: several short branches at once, long branches in parts."""
    messages = SessionMessage.objects.using(using).order_by("agent", "branch", "message_id")
    for pack in _packs(spans):
        if len(pack) == 1 and pack[0].messages > PART:
            yield from _long_branch(messages, pack[0])
        else:
            branches = {(span.agent, span.branch) for span in pack}
            rows = messages.filter(agent__in={span.agent for span in pack})
            for part in _read(rows):
                yield [row for row in part if (row.agent_id, row.branch) in branches]


def _packs(spans: Sequence[BranchExtent]) -> Iterator[list[BranchExtent]]:
    """Combine the branches of whole agents up to a size; keep long ones separate."""
    by_agent: dict[UUID, list[BranchExtent]] = defaultdict(list)
    for span in spans:
        by_agent[span.agent].append(span)
    pack: list[BranchExtent] = []
    room = PART
    for group in by_agent.values():
        size = sum(span.messages for span in group)
        if pack and size > room:
            yield pack
            pack, room = [], PART
        if size > PART:
            yield from ([span] for span in group)
        else:
            pack += group
            room -= size
    if pack:
        yield pack


def _long_branch(messages: QuerySet[SessionMessage], span: BranchExtent) -> Iterator[list[Any]]:
    rows = messages.filter(agent=span.agent, branch=span.branch)
    last = -1
    # Messages that are appended during the check are left for the next one.
    while last < span.last:
        positions = list(
            rows.filter(message_id__gt=last)[:PART].values_list("message_id", flat=True)
        )
        if not positions:
            return
        yield from _read(rows.filter(message_id__gte=positions[0], message_id__lte=positions[-1]))
        last = positions[-1]


def read_messages(using: str, keys: Sequence[UUID]) -> Iterator[list[Any]]:
    """Read messages by primary key."""
    yield from _read(SessionMessage.objects.using(using).filter(pk__in=keys))


def _read(rows: QuerySet[SessionMessage]) -> Iterator[list[Any]]:
    """Yield rows with the columns that are checked and their payload as text."""
    columns = ("message", "text")
    heads = list(rows.annotate(bytes=size_of(columns)).values_list("pk", "bytes"))
    batches = list(split_by_size(heads))
    for keys in batches:
        part = rows
        # Hundreds of keys in a statement take longer to write than the rows to read.
        if len(batches) > 1:
            part = SessionMessage.objects.using(rows.db).filter(pk__in=keys)
            part = part.order_by(*rows.query.order_by)
        yield list(part.annotate(**_TEXTS).values_list(*_COLUMNS, *_TEXTS, named=True))


class ConversationCheck:
    """The check of the messages of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        # The agent and its dialect are looked up once per branch, not once per message.
        self._branch: tuple[UUID, int] | None = None
        self._agent = Agent(UUID(int=0), "", None)
        self._dialect = dialects.get("")
        self._next_position = 0
        self._spent = UsageSum()
        self._copied: set[UUID] = set()
        # Positions of the calls without a result. An id may be used more than once.
        self._open_calls: dict[str, list[tuple[int, UUID]]] = {}
        # The latest calls with a result, in order.
        self._answered_calls: dict[str, None] = {}

    def look(self) -> Iterator[list[Any]]:
        """Check all messages, and yield them in parts."""
        for part in message_batches(self._batch.using, self._batch.spans):
            for row in part:
                if (row.agent_id, row.branch) != self._branch:
                    self._end_branch()
                    self._begin_branch(row)
                self._check_message(row)
            self._batch.messages += len(part)
            yield part
        self._end_branch()
        self._count_copies()

    def _begin_branch(self, row: Any) -> None:
        self._branch, self._next_position = (row.agent_id, row.branch), 0
        self._agent = self._batch.agents[row.agent_id]
        self._dialect = dialects.get(self._agent.dialect)

    def _check_message(self, row: Any) -> None:
        if row.session_id != self._agent.session:
            self._batch.add(Kind.MISPLACED, **location(row), detail="message")
        if row.message_id > self._next_position:
            missing = row.message_id - self._next_position
            self._batch.add(
                Kind.GAP,
                session=row.session_id,
                agent=row.agent_id,
                branch=row.branch,
                position=self._next_position,
                detail=f"{missing} missing",
            )
        self._next_position = row.message_id + 1
        self._count(row)
        content = decode_payload(row.payload)
        if isinstance(content, CorruptPayload):
            self._batch.add_unreadable(Kind.CORRUPT, content.text, **location(row))
            # Keep the derived columns: they may be all that is left of the message.
            return
        self._batch.plain += not _is_sealed(row)
        if columns := wrong_derived_columns(self._batch, row, self._dialect, content):
            self._batch.add(Kind.NEUTRAL, **location(row), detail=", ".join(columns))
        self._check_calls(row, content)

    def _in_batch(self, row: Any) -> bool:
        return row.session_id in self._batch.sessions

    def _check_calls(self, row: Any, content: Any) -> None:
        ids = self._dialect.tool_calls(content)
        for call in ids.results:
            waiting = self._open_calls.get(call)
            if not waiting:
                self._batch.add(self._kind_of_unmatched_result(row, call), **location(row))
            else:
                self._answered_calls[call] = None
                if len(self._answered_calls) > _MAX_ANSWERED:
                    del self._answered_calls[next(iter(self._answered_calls))]
                waiting.pop()
                if not waiting:
                    del self._open_calls[call]
        for call in ids.calls:
            self._open_calls.setdefault(call, []).append((row.message_id, row.pk))

    def _kind_of_unmatched_result(self, row: Any, call: str) -> Kind:
        # An agent that is restored while another process runs a tool may record the call as
        # interrupted; then the real result follows. Restores keep the real result.
        dialect = self._dialect
        if dialect.may_answer_twice and call in self._answered_calls:
            return Kind.ANSWERED_TWICE
        # The session was rewound between the call and its result. A fork copies the main branch
        # only, so its call is in the original session.
        rows = SessionMessage.objects.using(self._batch.using)
        if row.source is None:
            rows = rows.filter(agent=row.agent_id).exclude(branch=row.branch)
        else:
            source = rows.filter(pk=row.source)
            if not source.exists():
                return Kind.CALL_ELSEWHERE
            rows = rows.filter(agent__in=source.values("agent"))
        for part in _read(rows.order_by("branch", "message_id")):
            for other in part:
                if call in dialect.tool_calls(decode_payload(other.payload)).calls:
                    return Kind.CALL_ELSEWHERE
        return Kind.ORPHAN_RESULT

    def _end_branch(self) -> None:
        """Report the unanswered calls at the end of a branch."""
        if self._branch is not None:
            agent, branch = self._branch
            for position, key in sorted(
                {call for calls in self._open_calls.values() for call in calls}
            ):
                self._batch.add(
                    Kind.OPEN_CALL,
                    session=self._batch.agents[agent].session,
                    agent=agent,
                    branch=branch,
                    position=position,
                    row=key,
                )
            self._add_spent(self._agent.session, self._spent)
        self._spent = UsageSum()
        self._open_calls = {}
        self._answered_calls = {}

    def _count(self, row: Any) -> None:
        if row.source is not None:
            # A copy has no costs of its own, unless the original was deleted.
            if self._is_own(row):
                self._copied.add(row.session_id)
            return
        figures = tuple(getattr(row, name) for name in TokenCounts._fields)
        if row.session_id == self._agent.session:
            self._spent = self._spent.plus(1, *figures)
        else:
            self._add_spent(row.session_id, UsageSum(1).plus(0, *figures))
        counted = self._batch.counted
        if counted is not None and row.pk <= counted and self._is_own(row):
            day = day_of(row.created_at)
            self._batch.days[day] = self._batch.days.get(day, UsageSum()).plus(1, *figures)

    def _count_copies(self) -> None:
        """Count the figures of messages of which only copies are left."""
        if not self._copied:
            return
        rows = SessionMessage.objects.using(self._batch.using).filter(session__in=self._copied)
        copies = rows.order_by().filter(pk__in=without_original(rows, rows).values("pk"))
        sums = copies.values_list("session_id").annotate(
            Count("pk"), *map(Sum, TokenCounts._fields)
        )
        for session, *figures in sums:
            self._add_spent(session, UsageSum().plus(*figures))

    def _add_spent(self, session: UUID, spent: UsageSum) -> None:
        known = self._batch.spent.get(session, UsageSum())
        self._batch.spent[session] = known.plus(*spent)

    def _is_own(self, row: Any) -> bool:
        """Return whether a message was created here: imported keys have their original time."""
        return self._in_batch(row) and self._batch.sessions[row.session_id].origin is None


def wrong_derived_columns(batch: Batch, row: Any, dialect: Dialect, content: Any) -> dict[str, Any]:
    """Return the derived columns of a message that differ from its payload."""
    summary = dialect.summary(content)
    # As the row is: the command that encrypts or decrypts may not have reached it yet.
    summary = summary._replace(text="" if _is_sealed(row) else summary.text)
    # A redaction leaves the flag as it was, whatever its version tells.
    has_error = summary.has_error if row.redacted_at is None else row.has_error
    summary = summary._replace(has_error=has_error)
    figures = (row.input_tokens, row.output_tokens, row.latency_ms)
    cached = (row.cache_read_tokens, row.cache_write_tokens)
    if summary == (row.role, row.text, *figures, row.has_error, *cached):
        return {}
    expected: dict[str, Any] = {
        "role": summary.role[:ROLE_LENGTH],
        "text": summary.text,
        "has_error": has_error,
    }
    # Changed, imported and copied messages keep the figures of the original message.
    session = batch.sessions.get(row.session_id)
    original = row.revision == 0 and row.source is None and row.redacted_at is None
    if original and session is not None and session.origin is None:
        names: tuple[str, ...] = COUNT_COLUMNS if dialect.reports_usage else ()
        reported = (summary.cache_read_tokens, summary.cache_write_tokens)
        if cached == (None, None) != reported:
            # Written before these columns existed, when the input was counted without them.
            names = tuple(set(names) - {"input_tokens", *CACHE_COLUMNS})
        expected |= {name: plausible_count(getattr(summary, name)) for name in names}
    changed = {name: value for name, value in expected.items() if getattr(row, name) != value}
    if "text" in changed and exact_json.has_blobs(row.payload):
        # The text was derived before large binaries were moved out of the payload.
        try:
            (restored,) = blobs.existing_binaries(batch.using, row.session_id, [content])
        except BlobError:
            del changed["text"]
        else:
            if dialect.summary(restored).text == row.text:
                del changed["text"]
    return changed


def _is_sealed(row: Any) -> bool:
    """Return whether the payload is encrypted: then the column ``text`` is empty."""
    return codec.ENVELOPE.match(row.beginning) is not None


def location(row: Any) -> dict[str, Any]:
    """Return where a message is, as a finding names it."""
    return {
        "session": row.session_id,
        "agent": row.agent_id,
        "branch": row.branch,
        "position": row.message_id,
        "row": row.pk,
    }
