"""A strict and bounded JSON parser for request bodies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from django.conf import settings
from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser

from .problems import BodyTooLarge

_MAX_DEPTH = 100


class StrictJSONParser(BaseParser):
    """A JSON parser that rejects what parsers read differently, such as duplicate keys."""

    media_type = "application/json"
    max_bytes: ClassVar[int | None] = None
    """The largest body in bytes; ``None`` for Django's ``DATA_UPLOAD_MAX_MEMORY_SIZE``."""

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        if media_type is not None and "*" in media_type.partition(";")[0]:
            raise UnsupportedMediaType(media_type)
        body = self._read(stream)
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
