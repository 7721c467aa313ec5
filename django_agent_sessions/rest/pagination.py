"""Keyset pagination: page 1,000 costs as much as page 1, and nothing is counted.

A cursor is signed and bound to its request: the same user, path and filters. Instead of a cursor,
a request may name the id of a row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from django.core import signing
from django.db.models import Model, QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.response import Response

from django_agent_sessions.models import Session
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePage, MessageQuery
from django_agent_sessions.values.records import BranchRecord

from .query_parameters import QUERY, reject_unknown_parameters

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
"""Further query parameters of a conversation."""

_DIGITS = 6
_SALT = "django_agent_sessions.rest.cursor"


class KeysetPagination(BasePagination):
    """The base of all paginators of the API."""

    default_limit: ClassVar[int] = 50
    max_limit: ClassVar[int] = 100
    places: ClassVar[tuple[str, ...]] = (AFTER,)
    """The query parameters that take a row's id."""

    parameters: ClassVar[tuple[str, ...]] = ()
    """Further query parameters of such a list.

    The view's filters and its ``query_parameters`` are accepted as well; all others are rejected.
    """

    next_url: str | None = None
    previous_url: str | None = None

    def limit(self, request: Any) -> int:
        """Return the requested page size."""
        value = request.query_params.get(LIMIT)
        if value is None:
            return self.default_limit
        # Python refuses to parse thousands of digits.
        is_number = value.isascii() and value.isdigit() and len(value) <= _DIGITS
        limit = int(value) if is_number else 0
        if not 1 <= limit <= self.max_limit:
            raise ValidationError({LIMIT: [f"Must be an integer from 1 to {self.max_limit}."]})
        return limit

    def reject_unknown_parameters(self, request: Any, view: Any) -> None:
        """Raise ``ValidationError`` for query parameters that this list does not read."""
        filters = getattr(getattr(view, "filterset_class", None), "base_filters", {})
        view_parameters = getattr(view, "query_parameters", ())
        reject_unknown_parameters(
            request, [LIMIT, CURSOR, *self.places, *self.parameters, *filters, *view_parameters]
        )

    def id_parameter(self, request: Any, name: str) -> UUID | None:
        """Return the row's id in a query parameter, or ``None``."""
        value = request.query_params.get(name)
        if value is None:
            return None
        try:
            return UUID(value)
        except ValueError:
            raise ValidationError({name: ["Must be the id of one of the results."]}) from None

    def read_cursor(self, request: Any) -> list[Any] | None:
        """Return the cursor's position, or ``None``; raise if it is of another request."""
        cursor = request.query_params.get(CURSOR)
        if cursor is None:
            return None
        try:
            fingerprint, *position = self._load_cursor(cursor)
        except (signing.BadSignature, ValueError, TypeError):
            fingerprint, position = "", []
        if fingerprint != self._fingerprint(request):
            detail = "The cursor belongs to another list. Start again without it."
            raise ValidationError({CURSOR: [detail]})
        return position

    def _load_cursor(self, cursor: str) -> list[Any]:
        values: list[Any] = signing.loads(cursor, salt=_SALT)
        return values

    def cursor_url(self, request: Any, *position: Any) -> str:
        """Return the URL of the page at a position."""
        cursor = signing.dumps([self._fingerprint(request), *position], salt=_SALT)
        parameters = self._list_parameters(request)
        if limit := request.query_params.get(LIMIT):
            parameters.append((LIMIT, limit))
        query = urlencode([*parameters, (CURSOR, cursor)])
        return str(request.build_absolute_uri(f"{request.path}?{query}"))

    def get_paginated_response(self, data: Any, **more: Any) -> Response:
        links = {"next": self.next_url, "previous": self.previous_url}
        return Response({"results": data, **links, **more})

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
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
        number = {"type": "integer", "minimum": 1, "maximum": self.max_limit}
        uuid = {"type": "string", "format": "uuid"}
        return [
            _parameter(LIMIT, {**number, "default": self.default_limit}, "Results per page."),
            _parameter(CURSOR, {"type": "string"}, "Opaque; from `next` or `previous`."),
            *(
                _parameter(name, uuid, f"The id of a result: return the page {name} it.")
                for name in self.places
            ),
        ]

    def _list_parameters(self, request: Any) -> list[tuple[str, str]]:
        """Return the parameters that identify the list, without those that identify the page."""
        page_parameters = {LIMIT, CURSOR, AFTER, BEFORE, AROUND}
        return sorted(
            (name, value)
            for name, values in request.query_params.lists()
            if name not in page_parameters
            for value in values
        )

    def _fingerprint(self, request: Any) -> str:
        identity = [str(request.user.pk), request.path, self._list_parameters(request)]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


def split_page(
    candidates: list[R], limit: int, *, backwards: bool, from_start: bool
) -> tuple[list[R], bool, bool]:
    """Return a page's rows in the list's order, and whether there are rows before and after them.

    The candidates are one row more than a page if there are more rows. ``backwards``: they were
    read towards the start of the list; ``from_start``: they were read from there.
    """
    more, rows = len(candidates) > limit, candidates[:limit]
    return (rows[::-1], more, True) if backwards else (rows, not from_start, more)


def _parameter(name: str, schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": dict(schema),
    }


class RowPagination(KeysetPagination):
    """Pages of rows in the order of their primary keys, which is the order of creation."""

    newest_first: ClassVar[bool] = False

    def paginate_queryset(  # type: ignore[override] # only for querysets of models
        self, queryset: QuerySet[M], request: Any, view: Any = None
    ) -> list[M]:
        self.reject_unknown_parameters(request, view)
        limit = self.limit(request)
        side, key = AFTER, self.id_parameter(request, AFTER)
        if key is not None and not queryset.filter(pk=key).exists():
            # The same whether it does not exist or belongs to another user.
            raise ValidationError({AFTER: ["The list does not contain this result."]})
        if cursor := self.read_cursor(request):
            side, key = cursor[0], UUID(cursor[1])
        backwards = side == BEFORE
        ascending = backwards == self.newest_first
        if key is not None:
            queryset = queryset.filter(**{"pk__gt" if ascending else "pk__lt": key})
        candidates = list(queryset.order_by("pk" if ascending else "-pk")[: limit + 1])
        rows, earlier, later = split_page(
            candidates, limit, backwards=backwards, from_start=key is None
        )
        if rows and earlier:
            self.previous_url = self.cursor_url(request, BEFORE, rows[0].pk.hex)
        if rows and later:
            self.next_url = self.cursor_url(request, AFTER, rows[-1].pk.hex)
        return rows


class AgentPagination(RowPagination):
    """Pages of the agents or orchestrators of a session; nearly always there is one page."""

    default_limit = 1000
    max_limit = 1000


class SnapshotPagination(RowPagination):
    """Pages of an agent's snapshots, newest first."""

    newest_first = True


_SEARCH = {
    "type": "object",
    "description": "With `q` only: whether the search was complete.",
    "required": ["truncated", "limited"],
    "properties": {
        "truncated": {"type": "boolean", "description": "There are more matches than returned."},
        "limited": {"type": "boolean", "description": "Not all messages were searched."},
    },
}


class SessionPagination(KeysetPagination):
    """Pages of sessions, most recently active first."""

    parameters = (QUERY,)

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        page = super().get_paginated_response_schema(schema)
        page["properties"]["search"] = _SEARCH
        return page

    def paginate_queryset(  # type: ignore[override] # only for sessions
        self, queryset: QuerySet[Session], request: Any, view: Any = None
    ) -> list[Session]:
        sessions: Any = queryset
        self.reject_unknown_parameters(request, view)
        limit = self.limit(request)
        backwards, position = False, self._position_after(request, sessions)
        if cursor := self.read_cursor(request):
            backwards, moment, key = cursor
            position = datetime.fromisoformat(moment), UUID(key)
        if position is not None:
            filter_rows = sessions.more_recent_than if backwards else sessions.less_recent_than
            sessions = filter_rows(*position)
        order = ("last_activity_at", "id") if backwards else ("-last_activity_at", "-id")
        candidates = list(sessions.order_by(*order)[: limit + 1])
        rows, earlier, later = split_page(
            candidates, limit, backwards=backwards, from_start=position is None
        )
        self.previous_url = self._url(request, True, rows[:1]) if earlier else None
        self.next_url = self._url(request, False, rows[-1:]) if later else None
        return rows

    def _position_after(self, request: Any, sessions: Any) -> tuple[datetime, UUID] | None:
        key = self.id_parameter(request, AFTER)
        if key is None:
            return None
        position = sessions.filter(pk=key).values_list("last_activity_at", "pk").first()
        if position is None:
            # The same whether it does not exist or belongs to another user.
            raise ValidationError({AFTER: ["The list does not contain this session."]})
        typed: tuple[datetime, UUID] = position
        return typed

    def _url(self, request: Any, backwards: bool, rows: Sequence[Session]) -> str | None:
        if not rows:
            return None
        row = rows[0]
        return self.cursor_url(request, backwards, row.last_activity_at.isoformat(), row.pk.hex)


class MessagePagination(KeysetPagination):
    """Pages of a conversation in either direction, or around a message."""

    max_limit = 200
    places = (AFTER, BEFORE, AROUND)
    parameters: ClassVar[tuple[str, ...]] = (ORDER, QUERY, AGENT, RAW)

    def read(self, request: Any, scope: MessageQuery, view: Any = None) -> MessagePage:
        """Return a page's messages in the requested order, without their payloads."""
        self.reject_unknown_parameters(request, view)
        limit = self.limit(request)
        order = request.query_params.get(ORDER, "asc")
        if order not in ("asc", "desc"):
            raise ValidationError({ORDER: ["Must be asc or desc."]})
        descending = order == "desc"
        window = self._window(request, scope, limit, falling=descending)
        rows = window.rows
        earlier = self._url(request, BEFORE, rows[:1]) if window.has_earlier else None
        later = self._url(request, AFTER, rows[-1:]) if window.later else None
        self.next_url, self.previous_url = (earlier, later) if descending else (later, earlier)
        return MessagePage(rows[::-1], window.has_earlier, window.later) if descending else window

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        order = {"type": "string", "enum": ["asc", "desc"], "default": "asc"}
        return [
            *super().get_schema_operation_parameters(view),
            _parameter(ORDER, order, "Oldest or newest first."),
        ]

    def _window(
        self, request: Any, scope: MessageQuery, limit: int, *, falling: bool
    ) -> MessagePage:
        parameters = {name: self.id_parameter(request, name) for name in self.places}
        if cursor := self.read_cursor(request):
            side, key = cursor
            parameters = {side: UUID(key)}
        keys = {name: key for name, key in parameters.items() if key is not None}
        if len(keys) > 1:
            raise ValidationError({name: ["Use only one of these."] for name in keys})
        for name, key in keys.items():
            if not cursor and scope.agent is not None and not scope.has(key):
                # The same whether it does not exist or belongs to another user.
                raise ValidationError({name: ["The list does not contain this message."]})
            if name == AROUND:
                return message_pages.page_around(scope, key, count=limit)
            # In a list with the newest first, `after` means older messages.
            later = name == AFTER if cursor or not falling else name == BEFORE
            read_window = message_pages.page_after if later else message_pages.page_before
            return read_window(scope, key, count=limit)
        if falling:
            return message_pages.last_page(scope, count=limit)
        return message_pages.first_page(scope, count=limit)

    def _url(
        self, request: Any, side: str, rows: Sequence[message_pages.MessagePreview]
    ) -> str | None:
        return self.cursor_url(request, side, rows[0].id.hex) if rows else None


class BranchMessagePagination(MessagePagination):
    """Pages of one branch of a conversation."""

    parameters = (ORDER, RAW)


class BranchPagination(KeysetPagination):
    """Pages of an agent's branches, ordered by number."""

    places = ()

    def read(
        self, request: Any, branches: Callable[[], Sequence[BranchRecord]], view: Any = None
    ) -> Sequence[BranchRecord]:
        self.reject_unknown_parameters(request, view)
        limit = self.limit(request)
        side, number = self.read_cursor(request) or (AFTER, -1)
        records = branches()
        earlier = [branch for branch in records if branch.number < number]
        later = [branch for branch in records if branch.number > number]
        rows = earlier[-limit:] if side == BEFORE else later[:limit]
        if rows and rows[0].number != records[0].number:
            self.previous_url = self.cursor_url(request, BEFORE, rows[0].number)
        if rows and rows[-1].number != records[-1].number:
            self.next_url = self.cursor_url(request, AFTER, rows[-1].number)
        return rows
