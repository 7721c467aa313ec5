"""Pages found by the key of a row at their edge: the thousandth costs what the first does.

Nothing is counted. A cursor is signed, and fits only the request that it was made for: the same
user, path and filters. Instead of a cursor, the id of a row may be given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from django.core import signing
from django.db.models import Model, QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.response import Response

from django_agent_sessions import windows
from django_agent_sessions.models import Session
from django_agent_sessions.windows import Scope, Window

from .queries import QUERY, refuse_unknown

M = TypeVar("M", bound=Model)
R = TypeVar("R")

LIMIT, CURSOR, AFTER, BEFORE, AROUND, ORDER = (
    "limit",
    "cursor",
    "after",
    "before",
    "around",
    "order",
)
"""The query parameters of pages."""

AGENT, RAW = "agent", "raw"
"""Those of a conversation besides."""

_DIGITS = 6
_SALT = "django_agent_sessions.rest.cursor"


class KeyPagination(BasePagination):
    """What both kinds of pages share."""

    default_limit: ClassVar[int] = 50
    max_limit: ClassVar[int] = 100
    places: ClassVar[tuple[str, ...]] = (AFTER,)
    """The parameters that take a row's id."""

    parameters: ClassVar[tuple[str, ...]] = ()
    """Further parameters of such a list. Those of a view's filters are known, and those that it
    names as ``query_parameters`` besides; all others are refused."""

    next_url: str | None = None
    previous_url: str | None = None

    def limit(self, request: Any) -> int:
        """Reads how many rows a page has."""
        given = request.query_params.get(LIMIT)
        if given is None:
            return self.default_limit
        # Python refuses to read thousands of digits.
        short = given.isascii() and given.isdigit() and len(given) <= _DIGITS
        limit = int(given) if short else 0
        if not 1 <= limit <= self.max_limit:
            raise ValidationError({LIMIT: [f"Give a number from 1 to {self.max_limit}."]})
        return limit

    def refuse_unknown(self, request: Any, view: Any) -> None:
        """Refuses parameters that nobody would look at."""
        filters = getattr(getattr(view, "filterset_class", None), "base_filters", {})
        also = getattr(view, "query_parameters", ())
        refuse_unknown(request, [LIMIT, CURSOR, *self.places, *self.parameters, *filters, *also])

    def given_key(self, request: Any, name: str) -> UUID | None:
        """Reads a row's id from the query."""
        given = request.query_params.get(name)
        if given is None:
            return None
        try:
            return UUID(given)
        except ValueError:
            raise ValidationError({name: ["Give the id of one of the results."]}) from None

    def read_cursor(self, request: Any) -> list[Any] | None:
        """Reads the place that a cursor stands for."""
        given = request.query_params.get(CURSOR)
        if given is None:
            return None
        try:
            mark, *place = self._loaded(given)
        except (signing.BadSignature, ValueError, TypeError):
            mark, place = "", []
        if mark != self._mark(request):
            detail = "The cursor was made for another list. Begin again without it."
            raise ValidationError({CURSOR: [detail]})
        return place

    def _loaded(self, cursor: str) -> list[Any]:
        found: list[Any] = signing.loads(cursor, salt=_SALT)
        return found

    def cursor_url(self, request: Any, *place: Any) -> str:
        """Makes the URL of the page at a place."""
        cursor = signing.dumps([self._mark(request), *place], salt=_SALT)
        kept = self._kept(request)
        if given := request.query_params.get(LIMIT):
            kept.append((LIMIT, given))
        query = urlencode([*kept, (CURSOR, cursor)])
        return str(request.build_absolute_uri(f"{request.path}?{query}"))

    def get_paginated_response(self, data: Any, **more: Any) -> Response:
        """Answers with a page."""
        links = {"next": self.next_url, "previous": self.previous_url}
        return Response({"results": data, **links, **more})

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        """Describes a page."""
        link = {"type": "string", "nullable": True, "format": "uri"}
        return {
            "type": "object",
            "required": ["results", "next", "previous"],
            "properties": {
                "results": schema,
                "next": {**link, "description": "The page after this one."},
                "previous": {**link, "description": "The page before this one."},
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """Describes the query parameters."""
        number = {"type": "integer", "minimum": 1, "maximum": self.max_limit}
        uuid = {"type": "string", "format": "uuid"}
        return [
            _parameter(LIMIT, {**number, "default": self.default_limit}, "Results on a page."),
            _parameter(CURSOR, {"type": "string"}, "From `next` or `previous`; opaque."),
            *(
                _parameter(name, uuid, f"The id of a result: the page is {name} it.")
                for name in self.places
            ),
        ]

    def _kept(self, request: Any) -> list[tuple[str, str]]:
        """Gives the parameters that say which list it is, and not which page."""
        left_out = {LIMIT, CURSOR, AFTER, BEFORE, AROUND}
        return sorted(
            (name, value)
            for name, values in request.query_params.lists()
            if name not in left_out
            for value in values
        )

    def _mark(self, request: Any) -> str:
        who = [str(request.user.pk), request.path, self._kept(request)]
        return hashlib.sha256(json.dumps(who).encode()).hexdigest()[:16]


def cut(
    found: list[R], limit: int, *, backwards: bool, from_start: bool
) -> tuple[list[R], bool, bool]:
    """Cuts a page out of what was found."""
    more, rows = len(found) > limit, found[:limit]
    return (rows[::-1], more, True) if backwards else (rows, not from_start, more)


def _parameter(name: str, schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": dict(schema),
    }


class RowPagination(KeyPagination):
    """Pages of rows in the order of their primary keys, which is the one they were made in."""

    newest_first: ClassVar[bool] = False

    def paginate_queryset(  # type: ignore[override] # it is of rows only
        self, queryset: QuerySet[M], request: Any, view: Any = None
    ) -> list[M]:
        """Reads a page."""
        self.refuse_unknown(request, view)
        limit = self.limit(request)
        side, place = AFTER, self.given_key(request, AFTER)
        if place is not None and not queryset.filter(pk=place).exists():
            # Whether it is nowhere, or somebody else's.
            raise ValidationError({AFTER: ["There is no such result in this list."]})
        if cursor := self.read_cursor(request):
            side, place = cursor[0], UUID(cursor[1])
        backwards = side == BEFORE
        rising = backwards == self.newest_first
        if place is not None:
            queryset = queryset.filter(**{"pk__gt" if rising else "pk__lt": place})
        found = list(queryset.order_by("pk" if rising else "-pk")[: limit + 1])
        rows, earlier, later = cut(found, limit, backwards=backwards, from_start=place is None)
        if rows and earlier:
            self.previous_url = self.cursor_url(request, BEFORE, rows[0].pk.hex)
        if rows and later:
            self.next_url = self.cursor_url(request, AFTER, rows[-1].pk.hex)
        return rows


class AgentPagination(RowPagination):
    """Pages of the agents of a session, or of its orchestrators; nearly always there is one."""

    default_limit = 1000
    max_limit = 1000


class SnapshotPagination(RowPagination):
    """Pages of an agent's snapshots, the newest first."""

    newest_first = True


_SEARCH = {
    "type": "object",
    "description": "With `q` only: how far the search went.",
    "required": ["truncated", "limited"],
    "properties": {
        "truncated": {"type": "boolean", "description": "There are more than it looks for."},
        "limited": {"type": "boolean", "description": "It did not look everywhere."},
    },
}


class SessionPagination(KeyPagination):
    """Pages of sessions, the most recently active first."""

    parameters = (QUERY,)

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        """Describes a page, and what a search adds to it."""
        page = super().get_paginated_response_schema(schema)
        page["properties"]["search"] = _SEARCH
        return page

    def paginate_queryset(  # type: ignore[override] # it is of sessions only
        self, queryset: QuerySet[Session], request: Any, view: Any = None
    ) -> list[Session]:
        """Reads a page."""
        sessions: Any = queryset
        self.refuse_unknown(request, view)
        limit = self.limit(request)
        backwards, place = False, self._place(request, sessions)
        if cursor := self.read_cursor(request):
            backwards, moment, key = cursor
            place = datetime.fromisoformat(moment), UUID(key)
        if place is not None:
            beyond = sessions.more_recent_than if backwards else sessions.less_recent_than
            sessions = beyond(*place)
        order = ("last_activity_at", "id") if backwards else ("-last_activity_at", "-id")
        found = list(sessions.order_by(*order)[: limit + 1])
        rows, earlier, later = cut(found, limit, backwards=backwards, from_start=place is None)
        self.previous_url = self._url(request, True, rows[:1]) if earlier else None
        self.next_url = self._url(request, False, rows[-1:]) if later else None
        return rows

    def _place(self, request: Any, sessions: Any) -> tuple[datetime, UUID] | None:
        key = self.given_key(request, AFTER)
        if key is None:
            return None
        place = sessions.filter(pk=key).values_list("last_activity_at", "pk").first()
        if place is None:
            # Whether it is nowhere, or somebody else's.
            raise ValidationError({AFTER: ["There is no such session in this list."]})
        found: tuple[datetime, UUID] = place
        return found

    def _url(self, request: Any, backwards: bool, rows: Sequence[Session]) -> str | None:
        if not rows:
            return None
        row = rows[0]
        return self.cursor_url(request, backwards, row.last_activity_at.isoformat(), row.pk.hex)


class MessagePagination(KeyPagination):
    """Pages of a conversation, in either direction, or around a message."""

    max_limit = 200
    places = (AFTER, BEFORE, AROUND)
    parameters: ClassVar[tuple[str, ...]] = (ORDER, QUERY, AGENT, RAW)

    def read(self, request: Any, scope: Scope, view: Any = None) -> Window:
        """Reads a page's messages, without their payloads."""
        self.refuse_unknown(request, view)
        limit = self.limit(request)
        order = request.query_params.get(ORDER, "asc")
        if order not in ("asc", "desc"):
            raise ValidationError({ORDER: ["Give asc or desc."]})
        falling = order == "desc"
        window = self._window(request, scope, limit, falling=falling)
        rows = window.rows
        earlier = self._url(request, BEFORE, rows[:1]) if window.earlier else None
        later = self._url(request, AFTER, rows[-1:]) if window.later else None
        self.next_url, self.previous_url = (earlier, later) if falling else (later, earlier)
        return Window(rows[::-1], window.earlier, window.later) if falling else window

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """Describes the query parameters."""
        order = {"type": "string", "enum": ["asc", "desc"], "default": "asc"}
        return [
            *super().get_schema_operation_parameters(view),
            _parameter(ORDER, order, "The oldest or the newest first."),
        ]

    def _window(self, request: Any, scope: Scope, limit: int, *, falling: bool) -> Window:
        places = {name: self.given_key(request, name) for name in self.places}
        if cursor := self.read_cursor(request):
            side, key = cursor
            places = {side: UUID(key)}
        given = {name: key for name, key in places.items() if key is not None}
        if len(given) > 1:
            raise ValidationError({name: ["Give one place only."] for name in given})
        for name, key in given.items():
            if not cursor and scope.agent is not None and not scope.has(key):
                # Whether it is nowhere, or somebody else's.
                raise ValidationError({name: ["There is no such message in this list."]})
            if name == AROUND:
                return windows.around(scope, key, count=limit)
            # What is after a message in a list that begins with the newest is older.
            later = name == AFTER if cursor or not falling else name == BEFORE
            beside = windows.after if later else windows.before
            return beside(scope, key, count=limit)
        if falling:
            return windows.ending(scope, count=limit)
        return windows.beginning(scope, count=limit)

    def _url(self, request: Any, side: str, rows: Sequence[windows.Row]) -> str | None:
        return self.cursor_url(request, side, rows[0].id.hex) if rows else None
