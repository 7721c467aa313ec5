"""The bodies of requests: those without a length, and a strict and bounded JSON parser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from django_agent_sessions.content.json_values import has_more_values

from .problems import BodyTooLarge, LengthRequired

_MAX_DEPTH = 100


class StrictJSONParser(BaseParser):
    """A JSON parser that rejects what parsers read differently, such as duplicate keys."""

    media_type = "application/json"
    max_bytes: ClassVar[int | None] = None
    """The largest body in bytes; ``None`` for Django's ``DATA_UPLOAD_MAX_MEMORY_SIZE``."""

    max_values: ClassVar[int] = 150_000
    """The largest number of members and items in a body: each takes much more than its bytes."""

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        if media_type is not None and "*" in media_type.partition(";")[0]:
            raise UnsupportedMediaType(media_type)
        body = self._read(stream)
        if has_more_values(body, self.max_values):
            raise BodyTooLarge(
                f"The body has too many values: at most {self.max_values} are accepted."
            )
        try:
            value = json.loads(
                body.decode("utf-8"),
                object_pairs_hook=_unique_keys,
                parse_constant=_reject_constant,
            )
            _check_depth(value)
        except UnicodeDecodeError:
            raise ParseError("The body is not encoded in UTF-8.") from None
        except RecursionError:
            raise ParseError(_TOO_DEEP) from None
        except json.JSONDecodeError as error:
            place = f"line {error.lineno} column {error.colno}"
            raise ParseError(f"The body is not valid JSON: {error.msg} at {place}.") from None
        except ValueError:
            # An integer with more digits than Python parses.
            raise ParseError("The body contains a number with too many digits.") from None
        return value

    def _read(self, stream: Any) -> bytes:
        limit = self.max_bytes
        if limit is None:
            limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if limit is None:
            return bytes(stream.read())
        body = bytes(stream.read(limit + 1))
        if len(body) > limit:
            raise BodyTooLarge(f"The body is too large: at most {limit} bytes are accepted.")
        return body


_TOO_DEEP = f"The body is nested too deeply: at most {_MAX_DEPTH} levels are accepted."


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ParseError("An object in the body has a duplicate key.")
    return value


def _reject_constant(name: str) -> NoReturn:
    raise ParseError(f"The body contains {name}, which is not valid JSON.")


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise ParseError(_TOO_DEEP)
    if isinstance(value, dict):
        for item in value.values():
            _check_depth(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_depth(item, depth + 1)


class SessionRequest(Request):
    """A request that reads chunked bodies, which REST framework treats as empty.

    Under ASGI a body without a length is read. WSGI has no portable way to read it, so a length is
    required there.
    """

    def _load_stream(self) -> None:
        super()._load_stream()  # type: ignore[misc] # missing in the stubs
        if self._stream is not None or self.META.get("CONTENT_LENGTH"):
            return
        if isinstance(self._request, ASGIRequest):
            if beginning := self._request.read(1):
                self._stream: Any = _PrefixedStream(beginning, self._request)
        elif self.META.get("HTTP_TRANSFER_ENCODING"):
            raise LengthRequired


class _PrefixedStream:
    """A stream whose beginning was read already, to see whether there is a body."""

    def __init__(self, beginning: bytes, rest: Any) -> None:
        self._beginning, self._rest = beginning, rest

    def read(self, size: int = -1) -> bytes:
        beginning, self._beginning = self._beginning, b""
        if size < 0:
            return beginning + bytes(self._rest.read())
        return beginning + bytes(self._rest.read(max(0, size - len(beginning))))
