"""What the OpenAPI document says beside what it finds in the code."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.extensions import (
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from django_agent_sessions import detectors

from .access import EVERYBODY, OWN, SCOPE

V = TypeVar("V")


class SessionSchema(AutoSchema):
    """Describes a view by its docstrings: the first line is the summary of an operation."""

    def get_summary(self) -> str:
        """Gives the first line of the description, without its period."""
        return str(super().get_summary() or self._lines()[0].removesuffix("."))

    def get_description(self) -> str:  # type: ignore[override] # as drf-spectacular has it
        """Gives the lines behind it, or itself if there are none."""
        first, *others = self._lines()
        return "\n".join(others).strip() or first

    def _lines(self) -> list[str]:
        # The names in docstrings are set as reStructuredText has it, and the document is Markdown.
        return str(super().get_description() or " ").replace("``", "`").splitlines()


def described(**description: Any) -> Callable[[V], V]:
    """Describes a view or a handler; takes what drf-spectacular's ``extend_schema`` takes.

    That one builds on the project's ``DEFAULT_SCHEMA_CLASS``, which need not be drf-spectacular's.
    """

    def describe(view: Any) -> Any:
        if not inspect.isclass(view):
            view.kwargs = {"schema": SessionSchema, **getattr(view, "kwargs", {})}
        return extend_schema(**description)(view)

    return describe


ID = OpenApiParameter(
    "session", {"type": "string", "format": "uuid"}, "path", description="The session's id."
)
"""The session in a path."""

MESSAGE_ID = OpenApiParameter(
    "message", {"type": "string", "format": "uuid"}, "path", description="The message's id."
)
"""The message in a path."""

AGENT_KEY = OpenApiParameter(
    "agent_key",
    {"type": "string", "format": "uuid"},
    "path",
    description="The agent's primary key: `id` in the list of agents, not `agent_id`.",
)
"""The agent in a path that is about its branches."""

SCOPED = [
    OpenApiParameter(
        SCOPE,
        str,
        enum=[OWN, EVERYBODY],
        default=OWN,
        description=(
            "Whose sessions; those of all need the permissions `view_session` and "
            "`read_transcript`."
        ),
    )
]
"""The parameter that every view has."""

_TAGS = r'^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$'

IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "pattern": _TAGS},
    "header",
    description="The `ETag` that was read: if there is another one now, nothing is changed.",
)
"""The header that guards a change."""

IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    {"type": "string"},
    "header",
    description="The `ETag` that was read: if it is still that one, the answer is 304.",
)
"""The header that spares an answer."""

RANGE = OpenApiParameter(
    "Range",
    {"type": "string"},
    "header",
    description="Which part, such as `bytes=0-1023`; with `If-Range` only of what was read before.",
)
"""The header that asks for a part of a file."""

ETAG = OpenApiParameter(
    "ETag",
    {"type": "string"},
    "header",
    required=True,
    response=["200", "201"],
    description="The answer in one word, for `If-Match` and `If-None-Match`.",
)
"""The header that names what was answered."""

UNCHANGED = {304: OpenApiResponse(description="It is what `If-None-Match` says.")}
"""The answer to who has it already."""


def headed(name: str, description: str, *codes: int) -> OpenApiParameter:
    """Describes a header of answers."""
    return OpenApiParameter(
        name,
        {"type": "string"},
        "header",
        required=True,
        response=[str(code) for code in codes],
        description=description,
    )


def answer(shape: Any, description: str) -> OpenApiResponse:
    """Describes an answer."""
    return OpenApiResponse(shape, description=description)


class ErrorSerializer(serializers.Serializer[Any]):
    """The same error, where clients of OpenAI's API look."""

    message = serializers.CharField()
    type = serializers.CharField(help_text="Such as `invalid_request_error`.")
    code = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """An error (RFC 9457): what to do, with ids and field names, and nothing that was said."""

    type = serializers.CharField()
    title = serializers.CharField(help_text="The status in words.")
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="What to do.")
    code = serializers.CharField(help_text="A short name for programs, such as `not_found`.")
    message = serializers.CharField(help_text="The same as `detail`, where chat clients look.")
    error = ErrorSerializer()
    errors = serializers.DictField(  # type: ignore[assignment] # a field, and no property
        required=False, help_text="What is wrong with which field or parameter: lists of texts."
    )


_MEANINGS = {
    400: "Something in the request is not as it can be.",
    401: "Nobody is logged in.",
    403: "Nobody is logged in, or a CSRF token is missing.",
    404: "There is no such thing, or it is not yours.",
    405: "It has no such method.",
    406: "It cannot be given in a format that is accepted.",
    409: "It cannot be done as things are.",
    411: "The length of the body is missing, and the server needs it.",
    412: "It has changed since it was read.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    416: "It is shorter than the part that is asked for begins.",
    429: "You asked too often.",
    503: "The storage of the file does not answer: try again after `Retry-After`.",
}
_ALWAYS = (400, 401, 403, 406, 429)
_WITH_BODY = (400, 411, 413, 415)


def problems(*codes: int) -> dict[Any, OpenApiResponse]:
    """Describes errors."""
    every = {*codes, *_ALWAYS, *(_WITH_BODY if 413 in codes else ())}
    return {
        (code, "application/problem+json"): OpenApiResponse(
            ProblemSerializer, description=_MEANINGS[code]
        )
        for code in sorted(every)
    }


def only_sessions(endpoints: Any, **kwargs: Any) -> Any:
    """Keeps the views of this API; a preprocessing hook of drf-spectacular."""
    from .base import SessionAPI

    return [
        endpoint
        for endpoint in endpoints
        if isinstance(getattr(endpoint[3], "cls", None), type)
        and issubclass(endpoint[3].cls, SessionAPI)
    ]


class DetectorFieldExtension(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call] # its metaclass has no types
    """Names the detectors that the project has."""

    target_class = "django_agent_sessions.rest.serializers.redaction.DetectorField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:
        """Describes a name."""
        return {"type": "string", "enum": [*detectors.names()]}


class StrictSerializerExtension(OpenApiSerializerExtension):  # type: ignore[no-untyped-call] # its metaclass has no types
    """Says that requests with unknown fields are refused."""

    target_class = "django_agent_sessions.rest.serializers.fields.StrictSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> Any:
        """Describes a request."""
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        for described in schema.get("properties", {}).values():
            # Generators of types take what has a default for what is always there.
            if (default := described.pop("default", None)) is not None:
                said = described.get("description", "")
                described["description"] = f"{said} By default `{json.dumps(default)}`.".strip()
        return {**schema, "additionalProperties": False}
