"""Which messages are shown: a window around one of them, found by keys and bounded in bytes.

A conversation may have ten messages or a hundred thousand, and one of them may be 50 MB. A window
therefore reads what is small first (keys, figures, and the size of each payload, which the database
tells without reading it), and then the payloads of only those that fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import (
    BooleanField,
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
from django.utils import timezone

from django_agent_sessions import bridge, conf
from django_agent_sessions.fields import ExactJSONField
from django_agent_sessions.functions import OctetLength, same_as_redacted
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionAgent, SessionMessage
from django_agent_sessions.querysets import CONTENT_TEXT

WINDOW = 50
"""Messages of a window, unless somebody asks for another count."""

ALL = 2000
"""Messages on a page that was asked for all of them."""

ONE_PAYLOAD = 1024 * 1024
"""Bytes of the largest payload that a page reads."""

ALL_PAYLOADS = 4 * 1024 * 1024
"""Bytes of all payloads that a page reads."""

HEAD = 2000
"""Characters shown of a message whose payload is not read."""


_BEHIND_ALL = 2**31 - 1


@dataclass(slots=True)
class Row:
    """A message of a window."""

    id: UUID
    agent_id: UUID
    branch: int
    message_id: int
    role: str
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: int | None
    redacted_at: datetime | None
    redaction: UUID | None
    created_at: datetime
    updated_at: datetime
    run_id: UUID | None
    revision: int
    size: int
    """Bytes of the payload."""

    original: bool
    """Whether the original is kept beside the redacted version; only told if asked."""

    read: bool = False
    """Whether the payload is here."""

    payload: Any = None
    head: str = ""
    """How the message begins, if the payload is not here."""


@dataclass(frozen=True, slots=True)
class Window:
    """Messages in order, and whether there are others."""

    rows: list[Row]
    earlier: bool
    later: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose messages: those of a session in the order of time, or of one of its agents."""

    session: Session
    agent: SessionAgent | None = None
    only: frozenset[UUID] | None = None
    """Primary keys of the messages to choose from; ``None`` for all."""
    without: frozenset[UUID] = frozenset()
    """Primary keys of agents whose messages are left out."""
    main: bool = False
    """Whether only main branches count; an agent's own messages are always of one branch."""
    branch: int = MAIN_BRANCH
    """Number of the agent's branch."""
    alias: str = ""
    """The alias of the database, if it is not the store's: a replica."""

    @property
    def using(self) -> str:
        """The alias of the database that the messages are read from."""
        return self.alias or bridge.database()

    @property
    def messages(self) -> QuerySet[SessionMessage]:
        """The messages, in no order."""
        rows = self._conversation
        if self.only is not None:
            rows = rows.filter(pk__in=self.only)
        return rows.exclude(agent__in=self.without) if self.without else rows

    @property
    def key(self) -> str:
        """The column that orders them."""
        return "id" if self.agent is None else "message_id"

    def has(self, message: UUID) -> bool:
        """Tells whether a message is there, among those that are chosen or not."""
        return self._conversation.filter(pk=message).exists()

    def beside(self, message: UUID, side: str) -> Q:
        """Finds what is beside a message, whether or not that is still there."""
        if self.agent is None:
            return Q(**{f"id__{side}": message})
        rows, column = self._conversation, F("message_id")
        if side == "gt":
            nearest = rows.filter(pk__lte=message).order_by("-pk")
            place = Coalesce(Subquery(nearest.values("message_id")[:1]), Value(-1))
            return Q(GreaterThan(column, place))
        nearest = rows.filter(pk__gte=message).order_by("pk")
        place = Coalesce(Subquery(nearest.values("message_id")[:1]), Value(_BEHIND_ALL))
        beside = LessThan if side == "lt" else GreaterThanOrEqual
        return Q(beside(column, place))

    @property
    def _conversation(self) -> QuerySet[SessionMessage]:
        rows = SessionMessage.objects.using(self.using).filter(session=self.session)
        if self.agent is not None:
            return rows.filter(agent=self.agent, branch=self.branch)
        return rows.filter(branch=MAIN_BRANCH) if self.main else rows


def content() -> Coalesce:
    """Gives the payload that may be shown: the redacted version where there is one."""
    return Coalesce("redact_message", "message", output_field=ExactJSONField())


def around(scope: Scope, message: UUID, *, count: int = WINDOW, originals: bool = False) -> Window:
    """Reads the window with a message in its middle, whether or not it is still there."""
    half = count // 2
    before, earlier = _some(scope, scope.beside(message, "lt"), half, False, originals)
    after, later = _some(scope, scope.beside(message, "gte"), count - half, True, originals)
    return Window([*before, *after], earlier, later)


def before(scope: Scope, message: UUID, *, count: int = WINDOW, originals: bool = False) -> Window:
    """Reads the window that ends right before a message."""
    rows, earlier = _some(scope, scope.beside(message, "lt"), count, False, originals)
    return Window(rows, earlier, True)


def after(scope: Scope, message: UUID, *, count: int = WINDOW, originals: bool = False) -> Window:
    """Reads the window that begins right after a message."""
    rows, later = _some(scope, scope.beside(message, "gt"), count, True, originals)
    return Window(rows, True, later)


def ending(scope: Scope, *, count: int = WINDOW, originals: bool = False) -> Window:
    """Reads the last window."""
    rows, earlier = _some(scope, Q(), count, False, originals)
    return Window(rows, earlier, False)


def beginning(scope: Scope, *, count: int = WINDOW, originals: bool = False) -> Window:
    """Reads the first window."""
    rows, later = _some(scope, Q(), count, True, originals)
    return Window(rows, False, later)


def onwards(scope: Scope, position: int, *, count: int = WINDOW, originals: bool = False) -> Window:
    """Reads the window of an agent's messages that begins at a position."""
    rows, later = _some(scope, Q(message_id__gte=position), count, True, originals)
    return Window(rows, position > 0, later)


def _some(
    scope: Scope, place: Q, count: int, forwards: bool, originals: bool
) -> tuple[list[Row], bool]:
    """Reads messages in one direction; and tells whether there are more of them."""
    order = scope.key if forwards else f"-{scope.key}"
    found = [
        Row(*values)
        for values in scope.messages.filter(place)
        .annotate(size=OctetLength(CONTENT_TEXT), original=_original(originals))
        .order_by(order)
        .values_list(
            "id",
            "agent_id",
            "branch",
            "message_id",
            "role",
            "input_tokens",
            "output_tokens",
            "latency_ms",
            "redacted_at",
            "redaction",
            "created_at",
            "updated_at",
            "run_id",
            "revision",
            "size",
            "original",
        )[: count + 1]
    ]
    rows = found[:count]
    return (rows if forwards else rows[::-1]), len(found) > count


def _original(asked: bool) -> Any:
    if not asked:
        return Value(False, output_field=BooleanField())
    term = timedelta(seconds=conf.get_settings().REDACTION_ORIGINAL_TTL)
    kept = Q(redacted_at__gt=timezone.now() - term, redact_message__isnull=False)
    return Case(
        When(kept & ~Q(same_as_redacted()), then=Value(True)),
        default=Value(False),
        output_field=BooleanField(),
    )


def fill(scope: Scope, rows: list[Row], middle: UUID | None = None, *, whole: bool = False) -> None:
    """Reads the payloads of those messages that a page may hold, nearest to the middle first."""
    places = [place for place, row in enumerate(rows) if row.id == middle]
    centre = places[0] if places else len(rows) - 1
    room = ALL_PAYLOADS
    for _distance, row in sorted(
        ((abs(place - centre), row) for place, row in enumerate(rows)), key=lambda pair: pair[0]
    ):
        row.read = whole or row.size <= min(ONE_PAYLOAD, room)
        room -= row.size if row.read else 0
    outside = [row.id for row in rows if not row.read]
    heads = When(pk__in=outside, then=Substr("text", 1, HEAD))
    payloads = When(pk__in=outside, then=Value(None))
    found = (
        scope.messages.filter(pk__in=[row.id for row in rows])
        .annotate(
            content=Case(payloads, default=content(), output_field=ExactJSONField(null=True)),
            head=Case(heads, default=Value(""), output_field=TextField()),
        )
        .values_list("pk", "content", "head")
    )
    by_key = {key: (payload, head) for key, payload, head in found}
    rows[:] = [row for row in rows if row.id in by_key]
    for row in rows:
        row.payload, row.head = by_key[row.id]
