"""Errors as problem details (RFC 9457).

Beyond the members of the standard, ``message`` and ``error`` repeat the text where common chat
clients look for it.
"""

from __future__ import annotations

import logging
import math
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import Error
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import set_rollback

from django_agent_sessions.db.db_errors import is_unavailable
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    BlobError,
    BlobNotFoundError,
    DestroyedKeyError,
    EncryptedSearchError,
    EncryptionError,
    InvalidIdError,
    LegalHoldError,
    PayloadError,
    QuotaExceededError,
    ReasonError,
    ReasonRequiredError,
    RedactionScopeError,
    SessionBusyError,
    SessionConflictError,
    SessionNotFoundError,
    UnreadableStateError,
    WorkLimitError,
)

logger = logging.getLogger("django_agent_sessions")

CONTENT_TYPE = "application/problem+json"

_NOT_FOUND = "Not found: it does not exist, or it belongs to another user."

_FILE_MISSING = (
    "The message's file is missing or damaged in its storage. Ask the operator of this site to "
    "restore it."
)
_KEY_DESTROYED = (
    "The content is encrypted, and its data key was destroyed: it cannot be read any more. The "
    "session can still be deleted."
)
_RETRY_AFTER = "60"

_PACKAGE_ERRORS: tuple[tuple[type[AgentSessionsError], int, str], ...] = (
    (SessionNotFoundError, status.HTTP_404_NOT_FOUND, "not_found"),
    (LegalHoldError, status.HTTP_409_CONFLICT, "legal_hold"),
    (SessionBusyError, status.HTTP_409_CONFLICT, "busy"),
    (SessionConflictError, status.HTTP_409_CONFLICT, "conflict"),
    (QuotaExceededError, status.HTTP_413_REQUEST_ENTITY_TOO_LARGE, "quota_exceeded"),
    (InvalidIdError, status.HTTP_400_BAD_REQUEST, "invalid_id"),
    (PayloadError, status.HTTP_400_BAD_REQUEST, "invalid_payload"),
    (ReasonRequiredError, status.HTTP_400_BAD_REQUEST, "reason_required"),
    (ReasonError, status.HTTP_400_BAD_REQUEST, "invalid_reason"),
    (WorkLimitError, status.HTTP_422_UNPROCESSABLE_ENTITY, "too_much_work"),
    (RedactionScopeError, status.HTTP_400_BAD_REQUEST, "invalid_scope"),
    (UnreadableStateError, status.HTTP_409_CONFLICT, "unreadable_state"),
)


class PreconditionFailed(exceptions.APIException):
    """``If-Match`` names another version than the current one."""

    status_code = status.HTTP_412_PRECONDITION_FAILED
    default_detail = "The object was modified. Read it again, then retry your change."
    default_code = "precondition_failed"


class ReferenceNotFound(exceptions.NotFound):
    """A field names an object that does not exist, within one that the user reaches."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.errors = {field: [detail]}


class Conflict(exceptions.APIException):
    """The current state does not allow the request."""

    status_code = status.HTTP_409_CONFLICT
    default_detail = "The current state does not allow this request."
    default_code = "conflict"


class LengthRequired(exceptions.APIException):
    """The body has no length and cannot be read without one."""

    status_code = status.HTTP_411_LENGTH_REQUIRED
    default_detail = "Send the length of the body (Content-Length)."
    default_code = "length_required"


class BodyTooLarge(exceptions.APIException):
    """The body is larger than the limit."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = "The body is too large."
    default_code = "too_large"


class RangeNotSatisfiable(exceptions.APIException):
    """The requested range starts after the end of the file."""

    status_code = status.HTTP_416_REQUESTED_RANGE_NOT_SATISFIABLE
    default_detail = (
        "The range starts after the end of the file. Request a range within the "
        "file, or the whole file."
    )
    default_code = "range_not_satisfiable"

    def __init__(self, content_range: str) -> None:
        super().__init__()
        self.content_range = content_range


class Unavailable(exceptions.APIException):
    """The cache is unavailable, without which the request cannot be answered."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = "Requests cannot be answered at the moment. Try again soon."
    default_code = "unavailable"
    wait = 5


def problem_response(
    code: int,
    detail: str,
    kind: str,
    *,
    title: str = "",
    errors: Any = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return an error response; ``kind`` is its ``code``, and ``detail`` has no content."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title or HTTPStatus(code).phrase,
        "status": code,
        "detail": detail,
        "code": kind,
        "message": detail,
        "error": {"message": detail, "type": _error_type(code), "code": kind},
    }
    if errors is not None:
        body["errors"] = errors
    return Response(body, status=code, headers=headers, content_type=CONTENT_TYPE)


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the response to an exception, ``None`` for a bug.

    A project may use it as REST framework's ``EXCEPTION_HANDLER``.
    """
    response = _response_to(error)
    if response is not None:
        set_rollback()
    return response


def _response_to(error: Exception) -> Response | None:
    if isinstance(error, ReferenceNotFound):
        return problem_response(
            error.status_code, str(error.detail), "not_found", errors=error.errors
        )
    if isinstance(error, Http404 | exceptions.NotFound):
        return problem_response(status.HTTP_404_NOT_FOUND, _NOT_FOUND, "not_found")
    if isinstance(error, PermissionDenied):
        return problem_response(
            status.HTTP_403_FORBIDDEN,
            "You do not have permission to do this.",
            "permission_denied",
        )
    if isinstance(error, RequestDataTooBig):
        return problem_response(
            BodyTooLarge.status_code, BodyTooLarge.default_detail, BodyTooLarge.default_code
        )
    if isinstance(error, BlobNotFoundError):
        return problem_response(
            status.HTTP_404_NOT_FOUND, _FILE_MISSING, "file_missing", title="The file is missing"
        )
    if isinstance(error, BlobError):
        return problem_response(
            status.HTTP_503_SERVICE_UNAVAILABLE,
            "The file's storage is unavailable. Try again in a minute.",
            "storage_unavailable",
            headers={"Retry-After": _RETRY_AFTER},
        )
    if isinstance(error, Error) and is_unavailable(error):
        # Its text may contain hosts and, on PostgreSQL, content.
        logger.error("the database is not available: %s", type(error).__name__)
        return problem_response(
            status.HTTP_503_SERVICE_UNAVAILABLE,
            "The database is unavailable. Try again in a minute.",
            "database_unavailable",
            headers={"Retry-After": _RETRY_AFTER},
        )
    if isinstance(error, EncryptedSearchError):
        return problem_response(status.HTTP_400_BAD_REQUEST, str(error), "encrypted_search")
    if isinstance(error, EncryptionError):
        # Its text names keys, which is for the log.
        logger.error("content cannot be decrypted: %s", error)
        if isinstance(error, DestroyedKeyError):
            return problem_response(status.HTTP_410_GONE, _KEY_DESTROYED, "key_destroyed")
        return problem_response(
            status.HTTP_503_SERVICE_UNAVAILABLE,
            "The content is encrypted and cannot be read now.",
            "not_decryptable",
        )
    if isinstance(error, AgentSessionsError):
        for kind, code, name in _PACKAGE_ERRORS:
            if isinstance(error, kind):
                detail = _NOT_FOUND if code == status.HTTP_404_NOT_FOUND else str(error)
                errors = {"reason": [detail]} if isinstance(error, ReasonError) else None
                return problem_response(code, detail, name, errors=errors)
        return None
    if isinstance(error, exceptions.APIException):
        return _framework_problem(error)
    return None


def _framework_problem(error: exceptions.APIException) -> Response:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if content_range := getattr(error, "content_range", None):
        headers["Content-Range"] = content_range
    wait = getattr(error, "wait", None)
    if wait:
        headers["Retry-After"] = str(math.ceil(wait))
    if isinstance(error, exceptions.ValidationError):
        errors = error.detail
        return problem_response(
            error.status_code,
            _first_error(errors),
            "invalid",
            errors=_as_mapping(errors),
            headers=headers,
        )
    codes = error.get_codes()
    kind = codes if isinstance(codes, str) else error.default_code
    return problem_response(error.status_code, _first_error(error.detail), kind, headers=headers)


def _first_error(errors: Any, name: str = "") -> str:
    """Return the first of several errors, with its field."""
    if isinstance(errors, dict):
        key, value = next(iter(errors.items()), ("", "The request is invalid."))
        inner = f"{name}.{key}" if name else str(key)
        return _first_error(value, "" if key in ("non_field_errors", "detail") else inner)
    if isinstance(errors, list):
        first = next((error for error in errors if error), "The request is invalid.")
        return _first_error(first, name)
    return f"{name}: {errors}" if name else str(errors)


def _as_mapping(errors: Any) -> Any:
    return errors if isinstance(errors, dict) else {"non_field_errors": errors}


def _error_type(code: int) -> str:
    return {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        429: "rate_limit_error",
    }.get(code, "invalid_request_error" if code < 500 else "server_error")
