"""Pages of messages around a position, found by keyset pagination and bounded in bytes.

A conversation may have a hundred thousand messages, and one of them 50 MB. A page therefore reads
small columns first (keys, counts, and the size of each payload, which the database computes), and
then only the payloads that fit. With ``MessageQuery.eager`` the first statement also reads those
payloads that are so small that all of them fit; most pages have no others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import (
    Case,
    F,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Substr
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, LessThan

from django_agent_sessions.db import bridge
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionAgent, SessionMessage
from django_agent_sessions.models.fields import ExactJSONField
from django_agent_sessions.models.functions import OctetLength, TypedText
from django_agent_sessions.models.stored_text import stored_payload

MESSAGES_PER_PAGE = 50
"""Default number of messages of a page."""

MAX_PAGE_SIZE = 2000
"""Maximum number of messages of a page that shows all."""

MAX_PAYLOAD_BYTES_SHOWN = 1024 * 1024
"""Maximum bytes of one payload on a page."""

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Maximum bytes of all payloads on a page."""

TEXT_BEGINNING_LENGTH = 2000
"""Characters shown of a message whose payload is too large."""


_LAST_POSITION = 2**31 - 1


@dataclass(slots=True)
class MessagePreview:
    """A message of a page."""

    id: UUID
    agent_id: UUID
    branch: int
    message_id: int
    role: str
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    latency_ms: int | None
    model: str
    redacted_at: datetime | None
    redaction: UUID | None
    created_at: datetime
    updated_at: datetime
    run_id: UUID | None
    revision: int
    author: str
    size: int
    """Size of the payload in bytes."""

    payload: Any = None
    read: bool = False
    """Whether the payload is shown."""

    fetched: bool = False
    """Whether the payload was read with the row."""

    head: str = ""
    """Beginning of the text, if the payload was not read."""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages in order, and whether there are earlier and later ones."""

    rows: list[MessagePreview]
    has_earlier: bool
    later: bool


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """The messages to page through: of a session in order of time, or of one agent."""

    session: Session | None
    """None for messages of any session, which ``only`` names."""
    agent: SessionAgent | None = None
    only: frozenset[UUID] | None = None
    """Primary keys of the messages to include; ``None`` for all."""
    without: frozenset[UUID] = frozenset()
    """Primary keys of agents whose messages are excluded."""
    main: bool = False
    """Whether to include main branches only. With ``agent``, ``branch`` decides instead."""
    branch: int = MAIN_BRANCH
    """Number of the agent's branch."""
    eager: bool = False
    """Whether to read small payloads with their rows."""
    using: str = field(default_factory=bridge.database)
    """The alias of the database to read from."""

    @property
    def messages(self) -> QuerySet[SessionMessage]:
        """A queryset of the messages, unordered."""
        rows = self._conversation
        if self.only is not None:
            rows = rows.filter(pk__in=self.only)
        return rows.exclude(agent__in=self.without) if self.without else rows

    @property
    def key(self) -> str:
        """The column to order by."""
        return "id" if self.agent is None else "message_id"

    def has(self, message: UUID) -> bool:
        """Return whether a message exists in the conversation, whatever ``only`` says."""
        return self._conversation.filter(pk=message).exists()

    def condition_beside(self, message: UUID, side: str) -> Q:
        """Return a condition for the messages on one side of a message, which may be deleted."""
        if self.agent is None:
            return Q(**{f"id__{side}": message})
        rows, column = self._conversation, F("message_id")
        if side == "gt":
            nearest = rows.filter(pk__lte=message).order_by("-pk")
            position = Coalesce(Subquery(nearest.values("message_id")[:1]), Value(-1))
            return Q(GreaterThan(column, position))
        nearest = rows.filter(pk__gte=message).order_by("pk")
        position = Coalesce(Subquery(nearest.values("message_id")[:1]), Value(_LAST_POSITION))
        compare = LessThan if side == "lt" else GreaterThanOrEqual
        return Q(compare(column, position))

    @property
    def _conversation(self) -> QuerySet[SessionMessage]:
        rows = SessionMessage.objects.using(self.using)
        rows = rows.none() if self.session is None and self.only is None else rows.all()
        if self.session is not None:
            rows = rows.filter(session=self.session)
        if self.agent is not None:
            return rows.filter(agent=self.agent, branch=self.branch)
        return rows.filter(branch=MAIN_BRANCH) if self.main else rows


def page_around(
    scope: MessageQuery, message: UUID, *, count: int = MESSAGES_PER_PAGE
) -> MessagePage:
    """Read the page with a message in its middle, which may be deleted."""
    half = count // 2
    before, earlier = _read(scope, scope.condition_beside(message, "lt"), half, False)
    after, later = _read(scope, scope.condition_beside(message, "gte"), count - half, True)
    return MessagePage([*before, *after], earlier, later)


def page_before(
    scope: MessageQuery, message: UUID, *, count: int = MESSAGES_PER_PAGE
) -> MessagePage:
    """Read the page that ends right before a message."""
    rows, earlier = _read(scope, scope.condition_beside(message, "lt"), count, False)
    return MessagePage(rows, earlier, True)


def page_after(
    scope: MessageQuery, message: UUID, *, count: int = MESSAGES_PER_PAGE
) -> MessagePage:
    """Read the page that begins right after a message."""
    rows, later = _read(scope, scope.condition_beside(message, "gt"), count, True)
    return MessagePage(rows, True, later)


def last_page(scope: MessageQuery, *, count: int = MESSAGES_PER_PAGE) -> MessagePage:
    """Read the last page."""
    rows, earlier = _read(scope, Q(), count, False)
    return MessagePage(rows, earlier, False)


def first_page(scope: MessageQuery, *, count: int = MESSAGES_PER_PAGE) -> MessagePage:
    """Read the first page."""
    rows, later = _read(scope, Q(), count, True)
    return MessagePage(rows, False, later)


def page_from_position(
    scope: MessageQuery, position: int, *, count: int = MESSAGES_PER_PAGE
) -> MessagePage:
    """Read the page of an agent's messages that begins at a position."""
    rows, later = _read(scope, Q(message_id__gte=position), count, True)
    return MessagePage(rows, position > 0, later)


def _read(
    scope: MessageQuery, condition: Q, count: int, forwards: bool
) -> tuple[list[MessagePreview], bool]:
    """Read messages in one direction; return them and whether there are more."""
    order = scope.key if forwards else f"-{scope.key}"
    messages = scope.messages.filter(condition).annotate(size=OctetLength("message"))
    columns = _COLUMNS
    if scope.eager:
        # One in so many fits however large the others are, with those on the other side.
        small = MAX_PAGE_BYTES // (2 * count)
        messages = messages.annotate(content=_payload_if(Q(size__lte=small)))
        columns = [*columns, "content"]
    fetched = [
        MessagePreview(*values)
        for values in messages.order_by(order).values_list(*columns)[: count + 1]
    ]
    if scope.eager:
        for row in fetched:
            row.fetched = row.size <= small
    rows = fetched[:count]
    return (rows if forwards else rows[::-1]), len(fetched) > count


_COLUMNS = [
    "id",
    "agent_id",
    "branch",
    "message_id",
    "role",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "latency_ms",
    "model",
    "redacted_at",
    "redaction",
    "created_at",
    "updated_at",
    "run_id",
    "revision",
    "author",
    "size",
]


def _payload_if(condition: Q) -> Case:
    return Case(
        When(condition, then=stored_payload()),
        default=Value(None),
        output_field=ExactJSONField(null=True),
    )


def read_payloads(
    scope: MessageQuery,
    rows: list[MessagePreview],
    middle: UUID | None = None,
    *,
    whole: bool = False,
) -> None:
    """Read the payloads that fit into a page, those nearest to the middle first."""
    indexes = [index for index, row in enumerate(rows) if row.id == middle]
    centre = indexes[0] if indexes else len(rows) - 1
    bytes_left = MAX_PAGE_BYTES
    for _distance, row in sorted(
        ((abs(index - centre), row) for index, row in enumerate(rows)), key=lambda pair: pair[0]
    ):
        row.read = whole or row.size <= min(MAX_PAYLOAD_BYTES_SHOWN, bytes_left)
        bytes_left -= row.size if row.read else 0
    missing = [row for row in rows if not (row.read and row.fetched)]
    if not missing:
        return
    contents = (
        scope.messages.filter(pk__in=[row.id for row in missing])
        .annotate(
            content=_payload_if(Q(pk__in=[row.id for row in missing if row.read])),
            head=Case(
                When(
                    pk__in=[row.id for row in missing if not row.read],
                    then=Substr("text", 1, TEXT_BEGINNING_LENGTH),
                ),
                default=TypedText(""),
                output_field=TextField(),
            ),
        )
        .values_list("pk", "content", "head")
    )
    by_key = {key: (payload, head) for key, payload, head in contents}
    gone = {row.id for row in missing} - by_key.keys()
    rows[:] = [row for row in rows if row.id not in gone]
    for row in missing:
        row.payload, row.head = by_key.get(row.id, (None, ""))
