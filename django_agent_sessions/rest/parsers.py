"""Reading request bodies: JSON as strictly as the standard has it, and not more of it than fits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from django.conf import settings
from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser

from .problems import TooLarge

_MAX_DEPTH = 100


class StrictJSONParser(BaseParser):
    """Parses JSON, and refuses what two readers could take for two different things."""

    media_type = "application/json"
    max_bytes: ClassVar[int | None] = None
    """The largest body in bytes; ``None`` for Django's ``DATA_UPLOAD_MAX_MEMORY_SIZE``."""

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Parses a body."""
        if media_type is not None and "*" in media_type.partition(";")[0]:
            raise UnsupportedMediaType(media_type)
        body = self._read(stream)
        try:
            found = json.loads(
                body.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse_constant
            )
            _refuse_depth(found)
        except UnicodeDecodeError:
            raise ParseError("The body is not UTF-8.") from None
        except RecursionError:
            raise ParseError(_TOO_DEEP) from None
        except json.JSONDecodeError as error:
            place = f"line {error.lineno} column {error.colno}"
            raise ParseError(f"The body is not JSON: {error.msg} at {place}.") from None
        except ValueError:
            # An integer of more digits than Python reads.
            raise ParseError("The body holds a number that is too long.") from None
        return found

    def _read(self, stream: Any) -> bytes:
        limit = self.max_bytes
        if limit is None:
            limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if limit is None:
            return bytes(stream.read())
        body = bytes(stream.read(limit + 1))
        if len(body) > limit:
            raise TooLarge(f"The body is too large: at most {limit} bytes are read.")
        return body


_TOO_DEEP = f"The body nests too deep: at most {_MAX_DEPTH} levels are read."


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ParseError("The body names a key twice in one object.")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ParseError(f"The body holds {name}, which JSON does not have.")


def _refuse_depth(value: Any, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise ParseError(_TOO_DEEP)
    if isinstance(value, dict):
        for item in value.values():
            _refuse_depth(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _refuse_depth(item, depth + 1)
