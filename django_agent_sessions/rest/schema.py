"""Descriptions in the OpenAPI document that drf-spectacular cannot derive from the code."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from drf_spectacular.extensions import (
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from django_agent_sessions.audit import MAX_REASON
from django_agent_sessions.content import detectors

from .access import API_SCOPES, SCOPE, SCOPE_OWN

V = TypeVar("V")


class SessionSchema(AutoSchema):
    """A schema that describes an operation by its docstring: the first line is the summary."""

    def get_summary(self) -> str:
        """Return the first line of the docstring without its period."""
        return str(super().get_summary() or self._lines()[0].removesuffix("."))

    def get_description(self) -> str:  # type: ignore[override] # as drf-spectacular has it
        """Return the rest of the docstring, or its first line if there is no more."""
        first, *others = self._lines()
        return "\n".join(others).strip() or first

    def resolve_serializer(
        self, serializer: Any, direction: Any, bypass_extensions: bool = False
    ) -> Any:
        """Describe the serializers that ``AGENT_SESSIONS`` chooses, in place of our own."""
        # Imported here, because the serializers import what this module describes.
        from .serializers.sessions import chosen_serializer

        given: Any = serializer() if isinstance(serializer, type) else serializer
        chosen = chosen_serializer(type(given))
        return super().resolve_serializer(
            serializer if chosen is type(given) else chosen(), direction, bypass_extensions
        )

    def _lines(self) -> list[str]:
        # Docstrings are reStructuredText, and the document is Markdown.
        return str(super().get_description() or " ").replace("``", "`").splitlines()


def describe_view(**description: Any) -> Callable[[V], V]:
    """Describe a view or a handler with the arguments of drf-spectacular's ``extend_schema``.

    That decorator alone builds on the project's ``DEFAULT_SCHEMA_CLASS``, which may not be
    drf-spectacular's. A request with a query parameter that its handler does not describe is
    rejected.
    """

    def describe(view: Any) -> Any:
        if not inspect.isclass(view):
            view.kwargs = {"schema": SessionSchema, **getattr(view, "kwargs", {})}
            view.query_parameters = frozenset(
                parameter.name
                for parameter in description.get("parameters", ())
                if parameter.location == OpenApiParameter.QUERY
            )
        return extend_schema(**description)(view)

    return describe


def operation(
    name: str, responses: Mapping[Any, Any], *, errors: Collection[int], **description: Any
) -> Callable[[V], V]:
    """Describe a handler.

    ``responses`` maps each status to its description, or to a serializer and the description.
    ``errors`` are the statuses of errors that not every request can return.
    """
    described = {
        code: OpenApiResponse(*((None, given) if isinstance(given, str) else given))
        for code, given in responses.items()
    }
    return describe_view(
        operation_id=name, responses=described | problem_responses(*errors), **description
    )


SESSION_PARAMETER = OpenApiParameter(
    "session", {"type": "string", "format": "uuid"}, "path", description="The session's id."
)

METADATA_PARAMETER = OpenApiParameter(
    "metadata",
    {"type": "object", "additionalProperties": {"type": "string"}},
    style="deepObject",
    explode=True,
    description="Texts in the metadata, as `metadata[team]=blue`; an error if it is encrypted.",
)

REASON = "reason"
"""The query parameter for the reason, of requests that have no body."""

REASON_PARAMETER = OpenApiParameter(
    REASON,
    {"type": "string", "maxLength": MAX_REASON},
    description="The reason, kept in the audit trail. The server may require one.",
)

MESSAGE_PARAMETER = OpenApiParameter(
    "message", {"type": "string", "format": "uuid"}, "path", description="The message's id."
)

AGENT_PARAMETER = OpenApiParameter(
    "agent_key",
    {"type": "string", "format": "uuid"},
    "path",
    description="The agent's primary key: `id` in the list of agents, not `agent_id`.",
)

SCOPE_PARAMETERS = [
    OpenApiParameter(
        SCOPE,
        str,
        enum=[*API_SCOPES],
        default=SCOPE_OWN,
        description=(
            "Lists have the user's own sessions, with `shared` those in which the user is a "
            "participant, and with `all` those of all users. Single sessions of both kinds are "
            "accessible without a scope. `all` requires the permissions `view_session` and "
            "`read_transcript`."
        ),
    )
]
"""The parameters of every view."""

_TAGS = r'^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$'

IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "pattern": _TAGS},
    "header",
    description="The `ETag` that was read: if it is not the current one, nothing is changed.",
)

IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    {"type": "string"},
    "header",
    description="The `ETag` that was read: if it is still the current one, the response is 304.",
)

RANGE = OpenApiParameter(
    "Range",
    {"type": "string"},
    "header",
    description="A range such as `bytes=0-1023`; `If-Range` applies it to the same version only.",
)

ETAG = OpenApiParameter(
    "ETag",
    {"type": "string"},
    "header",
    required=True,
    response=["200", "201"],
    description="The version of the response, for `If-Match` and `If-None-Match`.",
)

NOT_MODIFIED = {304: "`If-None-Match` names the current version."}


def response_header(name: str, description: str, *codes: int) -> OpenApiParameter:
    """Describe a header of the responses with these status codes."""
    return OpenApiParameter(
        name,
        {"type": "string"},
        "header",
        required=True,
        response=[str(code) for code in codes],
        description=description,
    )


class ErrorSerializer(serializers.Serializer[Any]):
    """The same error in the format of OpenAI's API."""

    message = serializers.CharField()
    type = serializers.CharField(help_text="For example `invalid_request_error`.")
    code = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """An error (RFC 9457); contains ids and field names, never message text."""

    type = serializers.CharField()
    title = serializers.CharField(help_text="The reason phrase of the status.")
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="What is wrong and what to do.")
    code = serializers.CharField(help_text="An error code for programs, such as `not_found`.")
    message = serializers.CharField(help_text="The same as `detail`, for chat clients.")
    error = ErrorSerializer()
    errors = serializers.DictField(  # type: ignore[assignment] # a field, not the property
        required=False, help_text="Lists of error texts by field or parameter."
    )


_DESCRIPTIONS = {
    400: "The request is invalid.",
    401: "The request is not authenticated.",
    403: "The request is not authenticated, or the CSRF token is missing.",
    404: "It does not exist, or it belongs to another user.",
    405: "The method is not allowed.",
    406: "No accepted format is available.",
    409: "The current state does not allow the request.",
    411: "The server requires the length of the body.",
    412: "It was modified since it was read.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    416: "The range starts after the end of the file.",
    422: "The search takes more time or memory than one request may use; nothing was changed.",
    429: "Too many requests.",
    503: "The storage of the file is unavailable: try again after `Retry-After`.",
}
_ALWAYS = (400, 401, 403, 406, 429)
_WITH_BODY = (400, 411, 413, 415)


def problem_responses(*codes: int) -> dict[Any, OpenApiResponse]:
    """Describe error responses: these status codes, and those that every request can return."""
    every = {*codes, *_ALWAYS, *(_WITH_BODY if 413 in codes else ())}
    return {
        (code, "application/problem+json"): OpenApiResponse(
            ProblemSerializer, description=_DESCRIPTIONS[code]
        )
        for code in sorted(every)
    }


def keep_session_views(endpoints: Any, **kwargs: Any) -> Any:
    """Keep the endpoints of this API's views; a preprocessing hook of drf-spectacular."""
    from .base import SessionAPI

    return [
        endpoint
        for endpoint in endpoints
        if isinstance(getattr(endpoint[3], "cls", None), type)
        and issubclass(endpoint[3].cls, SessionAPI)
    ]


class DetectorFieldExtension(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call] # its metaclass has no types
    """The schema of a detector's name: the project's detectors."""

    target_class = "django_agent_sessions.rest.redaction.DetectorField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:
        return {"type": "string", "enum": [*detectors.names()]}


class StrictSerializerExtension(OpenApiSerializerExtension):  # type: ignore[no-untyped-call] # its metaclass has no types
    """The schema of a request that rejects unknown fields."""

    target_class = "django_agent_sessions.rest.serializers.fields.StrictSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> Any:
        # drf-spectacular describes `target_class`: the base class of the one that matched.
        self.target_class = self.target
        schema: Any = super().map_serializer(auto_schema, direction)
        for field in schema.get("properties", {}).values():
            # Type generators treat a field with a default as one that is always present.
            if (default := field.pop("default", None)) is not None:
                description = field.get("description", "")
                field["description"] = f"{description} Default: `{json.dumps(default)}`.".strip()
        return {**schema, "additionalProperties": False}


_DESCRIPTION = """\
The user's own conversations with AI agents, whatever agent framework wrote them. The API
treats a session of another user as one that does not exist.

* Lists are paginated. `next` and `previous` are the URLs of the neighboring pages; there is no
  total count.
* Timestamps are in UTC with milliseconds, such as `2026-01-02T03:04:05.678Z`.
* Errors are problem details (`application/problem+json`): `detail` says what to do, `errors`
  which field is wrong and why. Errors never contain message text.
* A request with a query parameter, or a body with a field, that is not described here is
  rejected.
"""

DOCUMENT: dict[str, Any] = {
    "TITLE": "Agent sessions",
    "DESCRIPTION": _DESCRIPTION,
    "VERSION": "1",
    "PREPROCESSING_HOOKS": ["django_agent_sessions.rest.schema.keep_session_views"],
    # Enum values stay inline: they explain themselves.
    "POSTPROCESSING_HOOKS": [],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "TAGS": [
        {"name": "Sessions", "description": "List, create, change, export and delete sessions."},
        {"name": "Messages", "description": "Messages as parts that are the same for all SDKs."},
        {"name": "Agents", "description": "Agents and orchestrators of a session."},
        {"name": "Feedback", "description": "Ratings of messages, and comments on them."},
        {"name": "Sharing", "description": "Participants of a session, and links that show it."},
        {"name": "Branches", "description": "Rewinds, branches, snapshots and forks."},
        {"name": "Redaction", "description": "Remove content permanently, with a reason."},
    ],
}
"""Custom settings for ``SpectacularAPIView`` and the command ``spectacular``."""


def _request(name: str, value: dict[str, Any]) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


CREATE = [
    _request("New session", {"title": "A trip to Lisbon"}),
    _request(
        "Session of a client's thread",
        {"external_id": "thread-4711", "title": "A trip", "metadata": {"channel": "web"}},
    ),
]

CHANGE = [
    _request("Rename", {"title": "Lisbon in May"}),
    _request("Archive", {"archived": True}),
    _request("Set the expiry", {"expires_at": "2027-01-01T00:00:00Z"}),
]

REDACT_SESSION = [
    _request("Preview", {"find": "4111 1111 1111 1111", "dry_run": True}),
    _request("Redact a text", {"find": "4111 1111 1111 1111", "reason": "Ticket 5120"}),
    _request("Redact with detectors", {"detectors": ["email"], "reason": "Ticket 5120"}),
]

REDACT_MESSAGE = [
    _request("Whole message", {"reason": "Ticket 5120"}),
    _request("One part", {"path": ["content", 0], "reason": "Ticket 5120"}),
    _request(
        "Range of a text",
        {"path": ["content", 0], "start": 11, "end": 30, "reason": "Ticket 5120"},
    ),
]

FEEDBACK = [
    _request("Good", {"value": 1}),
    _request("Bad, with a comment", {"value": -1, "comment": "Lisbon is not in Spain."}),
]

PARTICIPANT = [_request("Reader", {"user": "17", "role": "reader"})]
SHARE_LINK = [_request("A week", {"seconds": 604800})]

RESTORE = [_request("Restore", {"reason": "Ticket 5120"})]

FORK = [
    _request("Whole conversation", {}),
    _request(
        "Up to a message",
        {
            "at": "01998f3c-0000-7000-8000-000000000000",
            "title": "What if we had gone to Porto?",
            "external_id": "thread-4712",
        },
    ),
]

REWIND = [
    _request("To a message by its id", {"to": "01998f3c-0000-7000-8000-000000000000"}),
    _request("To the third message", {"to": 2, "name": "Lisbon"}),
    _request("Before the first message", {"to": -1}),
]

CREATE_BRANCH = [
    _request("Copy of the main branch", {"name": "Porto"}),
    _request("Another branch up to its third message", {"source": 1, "at": 2, "name": "Porto"}),
]
