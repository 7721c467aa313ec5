"""Keyset pagination: page 1,000 costs as much as page 1, and nothing is counted.

A cursor is signed and bound to its request: the same user, path and filters. Instead of a cursor,
a request may name the id of a row.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlencode
from uuid import UUID

from django.core import signing
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.response import Response

from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePage, MessageQuery
from django_agent_sessions.queries.search import MAX_QUERY_LENGTH
from django_agent_sessions.queries.titles import with_readable_titles
from django_agent_sessions.values.records import BranchRecord

from .converters import parse_uuid

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

QUERY = "q"
"""The query parameter of searches."""

_DIGITS = 6
_RESULT = "one of the results"
_SALT = "django_agent_sessions.rest.cursor"


class KeysetPagination(BasePagination):
    """Pages of rows in the order of some columns, by default in the order of creation."""

    order: ClassVar[tuple[str, ...]] = ("pk",)
    """The columns of the order, which are unique together."""

    newest_first: ClassVar[bool] = False
    result_name: ClassVar[str] = "result"
    """What errors call a row."""

    default_limit: ClassVar[int] = 50
    max_limit: ClassVar[int] = 100
    places: ClassVar[tuple[str, ...]] = (AFTER,)
    """The query parameters that take a row's id."""

    next_url: str | None = None
    previous_url: str | None = None

    def limit(self, request: Any) -> int:
        """Return the requested page size."""
        return page_size(request, self.default_limit, self.max_limit)

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any]:
        limit = self.limit(request)
        side, position = AFTER, self._position_of_id(request, queryset)
        if cursor := self.read_cursor(request):
            side, *position = cursor
        backwards = side == BEFORE
        ascending = backwards == self.newest_first
        candidates = self.rows_beyond(queryset, position, ascending, limit + 1)
        # There is one row more than a page if there are more rows.
        rows, more = candidates[:limit], len(candidates) > limit
        if backwards:
            rows.reverse()
        if rows and (more if backwards else position is not None):
            self.previous_url = self._row_url(request, BEFORE, rows[0])
        if rows and (more or backwards):
            self.next_url = self._row_url(request, AFTER, rows[-1])
        return rows

    def rows_beyond(
        self, rows: Any, position: Sequence[Any] | None, ascending: bool, count: int
    ) -> list[Any]:
        """Return the first rows after a position, or the first of all, in one direction."""
        if position is not None:
            rows = self.filter_beyond(rows, position, ascending)
        order = (name if ascending else f"-{name}" for name in self.order)
        return self.fetch(rows.order_by(*order)[:count])

    def fetch(self, rows: Any) -> list[Any]:
        """Return the rows of a queryset."""
        return list(rows)

    def filter_beyond(self, rows: Any, position: Sequence[Any], ascending: bool) -> Any:
        """Return the rows after a position; of one column here."""
        return rows.filter(**{f"{self.order[0]}__{'gt' if ascending else 'lt'}": position[0]})

    def _position_of_id(self, request: Any, rows: Any) -> Sequence[Any] | None:
        key = id_parameter(request, AFTER, _RESULT) if AFTER in self.places else None
        if key is None:
            return None
        position: Sequence[Any] | None = rows.filter(pk=key).values_list(*self.order).first()
        if position is None:
            # The same whether it does not exist or belongs to another user.
            raise ValidationError({AFTER: [f"The list does not contain this {self.result_name}."]})
        return position

    def _row_url(self, request: Any, side: str, row: Any) -> str:
        return self.cursor_url(request, side, *(getattr(row, name) for name in self.order))

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
        """Return the URL of the page at a position: numbers, keys and times."""
        values = [self._fingerprint(request), *map(_as_json, position)]
        cursor = signing.dumps(values, salt=_SALT)
        parameters = self._list_parameters(request)
        if limit := request.query_params.get(LIMIT):
            parameters.append((LIMIT, limit))
        query = urlencode([*parameters, (CURSOR, cursor)])
        return str(request.build_absolute_uri(f"{request.path}?{query}"))

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.next_url, "previous": self.previous_url})

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


def _parameter(name: str, schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": dict(schema),
    }


def _as_json(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    return value.isoformat() if isinstance(value, datetime) else value


class AgentPagination(KeysetPagination):
    """Pages of the agents or orchestrators of a session; nearly always there is one page."""

    default_limit = 1000
    max_limit = 1000


class SnapshotPagination(KeysetPagination):
    """Pages of an agent's snapshots, newest first."""

    newest_first = True


class BranchPagination(KeysetPagination):
    """Pages of an agent's branches, which are few and in memory, ordered by number."""

    order = ("number",)
    places = ()

    def rows_beyond(
        self,
        rows: Sequence[BranchRecord],
        position: Sequence[int] | None,
        ascending: bool,
        count: int,
    ) -> list[BranchRecord]:
        ordered = rows if ascending else rows[::-1]
        if position is not None:
            beyond = operator.gt if ascending else operator.lt
            ordered = [row for row in ordered if beyond(row.number, position[0])]
        return list(ordered[:count])


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

    order = ("last_activity_at", "id")
    newest_first = True
    result_name = "session"

    search: dict[str, bool] | None = None
    """How complete the search was, if there was one."""

    def filter_beyond(self, rows: Any, position: Sequence[Any], ascending: bool) -> Any:
        return (rows.more_recent_than if ascending else rows.less_recent_than)(*position)

    def fetch(self, rows: Any) -> list[Any]:
        return with_readable_titles(rows)

    def get_paginated_response(self, data: Any) -> Response:
        response = super().get_paginated_response(data)
        if self.search is not None:
            response.data["search"] = self.search
        return response

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        page = super().get_paginated_response_schema(schema)
        page["properties"]["search"] = _SEARCH
        return page


class MessagePagination(KeysetPagination):
    """Pages of a conversation in either direction, or around a message."""

    order = ("id",)
    max_limit = 200
    places = (AFTER, BEFORE, AROUND)

    def read(self, request: Any, scope: MessageQuery) -> MessagePage:
        """Return a page's messages in the requested order, without their payloads."""
        limit = self.limit(request)
        order = request.query_params.get(ORDER, "asc")
        if order not in ("asc", "desc"):
            raise ValidationError({ORDER: ["Must be asc or desc."]})
        descending = order == "desc"
        window = self._window(request, scope, limit, falling=descending)
        rows = window.rows
        earlier = self._row_url(request, BEFORE, rows[0]) if rows and window.has_earlier else None
        later = self._row_url(request, AFTER, rows[-1]) if rows and window.later else None
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
        parameters = {name: id_parameter(request, name, _RESULT) for name in self.places}
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


def page_size(request: Any, default: int, most: int) -> int:
    """Return the requested page size; more than ``most`` is an error."""
    value = request.query_params.get(LIMIT)
    if value is None:
        return default
    # Python refuses to parse thousands of digits.
    is_number = value.isascii() and value.isdigit() and len(value) <= _DIGITS
    limit = int(value) if is_number else 0
    if not 1 <= limit <= most:
        raise ValidationError({LIMIT: [f"Must be an integer from 1 to {most}."]})
    return limit


def id_parameter(request: Any, name: str, what: str) -> UUID | None:
    """Return the row's id in a query parameter, or ``None``; ``what`` names the row in errors."""
    value = request.query_params.get(name)
    if value is None:
        return None
    key = parse_uuid(value)
    if key is None:
        raise ValidationError({name: [f"Must be the id of {what}."]})
    return key


def search_query(request: Any) -> str:
    """Return the search query; empty for all rows."""
    query: str = request.query_params.get(QUERY, "")
    if len(query) > MAX_QUERY_LENGTH:
        raise ValidationError({QUERY: [f"Must have at most {MAX_QUERY_LENGTH} characters."]})
    return query.strip()


def boolean_parameter(request: Any, name: str) -> bool:
    """Return the value of a boolean parameter, which is false by default."""
    value = request.query_params.get(name, "false")
    if value not in ("true", "false"):
        raise ValidationError({name: ["Must be true or false."]})
    return bool(value == "true")
