"""Single items of a transcript on demand: raw JSON, media, long texts and states.

Content of users and models never gets a content type that a browser would execute: pages embed
images only, text is ``text/plain``, and anything else is a download.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from django_agent_sessions import blobs, serving
from django_agent_sessions.content import dialects, exact_json
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.paths import Path, path_from_json
from django_agent_sessions.exceptions import BlobError, BlobNotFoundError
from django_agent_sessions.models import (
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.models.stored_text import (
    PAYLOAD_TEXT,
    StoredText,
    payload_beginning,
    stored_metadata,
)

from . import sidebar
from .json_tree import tree
from .viewers import Viewer

PRETTY = 4 * 1024 * 1024
"""Bytes of the largest payload that is shown in full."""

HEAD = 200_000
"""Characters that are shown of a larger payload."""


def raw(viewer: Viewer, message: UUID) -> HttpResponse:
    """Return a message's payload as JSON, with ``download`` as a file."""
    rows = _message_row(viewer, message).annotate(
        stored=PAYLOAD_TEXT, beginning=payload_beginning(HEAD)
    )
    if viewer.request.GET.get("download"):
        text = exact_json.without_hashes(_get_or_404(rows.values_list("stored", flat=True)))
        viewer.record(message, page="download")
        return serving.attachment(text.encode(), "application/json", f"message-{message}.json")
    size = _get_or_404(rows.annotate(size=OctetLength("message")).values_list("size", flat=True))
    viewer.record(message, page="raw")
    return _json_response(rows, size)


def media(viewer: Viewer, message: UUID) -> HttpResponseBase:
    """Return the binary at ``path`` in a message."""
    payload, dialect = _read_payload(viewer, message)
    content_and_type = dialects.get(dialect).binary_at(payload, _path_parameter(viewer.request))
    if content_and_type is None:
        raise Http404
    viewer.record(message, page="media")
    content, media_type = content_and_type
    try:
        source = (
            blobs.find_blob(viewer.using, viewer.session.pk, content)
            if isinstance(content, BlobRef)
            else content
        )
        return serving.serve_media(
            viewer.request,
            source,
            media_type,
            str(message),
            download=bool(viewer.request.GET.get("download")),
        )
    except serving.UnsatisfiableRangeError as error:
        return HttpResponse(status=416, headers={"Content-Range": error.content_range})
    except BlobNotFoundError:
        return _text_response(_("The file is missing from its storage, or damaged there."), 404)
    except BlobError:
        response = _text_response(
            _("The storage of the file is unavailable. Try again in a minute."), 503
        )
        response["Retry-After"] = "60"
        return response


def text(viewer: Viewer, message: UUID) -> HttpResponse:
    """Return the full text at ``path`` in a message."""
    payload, dialect = _read_payload(viewer, message)
    if isinstance(payload, CorruptPayload):
        content: str | None = exact_json.without_hashes(payload.text)
    else:
        part = dialects.get(dialect).part_at(payload, _path_parameter(viewer.request))
        content = None if part is None else part.text
    if content is None:
        raise Http404
    viewer.record(message, page="text")
    return _text_response(content)


def state(viewer: Viewer, kind: str, row: UUID) -> HttpResponse:
    """Return a state beside the messages, with ``download`` as a file."""
    column, rows = _state_row(viewer, kind, row)
    if column == "metadata":
        rows = rows.annotate(stored=stored_metadata(), beginning=stored_metadata(HEAD))
    else:
        stored, beginning = StoredText(column), StoredText(column, length=HEAD)
        rows = rows.annotate(stored=stored, beginning=beginning)
    size = _get_or_404(rows.annotate(size=OctetLength("stored")).values_list("size", flat=True))
    viewer.record(row, page="state", column=column)
    if viewer.request.GET.get("download"):
        text = _get_or_404(rows.values_list("stored", flat=True))
        return serving.attachment(text.encode(), "application/json", f"{column}-{row}.json")
    if viewer.request.GET.get("fragment"):
        stored = rows.values_list("stored", flat=True)
        html = tree(decode_payload(_get_or_404(stored))) if size <= PRETTY else ""
        context = {"tree": html, "size": size}
        return TemplateResponse(viewer.request, "agent_sessions/admin/_state_tree.html", context)
    return _json_response(rows, size)


def _state_row(viewer: Viewer, kind: str, row: UUID) -> tuple[str, QuerySet[Any]]:
    if kind == "metadata":
        return "metadata", Session.objects.using(viewer.using).filter(pk=viewer.session.pk)
    model: type[Model] = SessionMultiAgent if kind == "orchestrator" else SessionAgent
    column = "state" if kind == "orchestrator" else kind
    if kind != "orchestrator" and kind not in sidebar.STATE_LABELS:
        raise Http404
    try:
        model._meta.get_field(column)
    except FieldDoesNotExist:
        raise Http404 from None
    rows = model._default_manager.using(viewer.using)
    return column, rows.filter(pk=row, session=viewer.session)


# --- rows and answers ------------------------------------------------------------------------


def _message_row(viewer: Viewer, message: UUID) -> QuerySet[SessionMessage]:
    # The session's URL must not reveal messages of other sessions.
    return SessionMessage.objects.using(viewer.using).filter(pk=message, session=viewer.session)


def _get_or_404(values: Any) -> Any:
    return get_object_or_404(values)


def _json_response(rows: QuerySet[Any], size: int) -> HttpResponse:
    """Return the annotation ``stored``, indented, or ``beginning`` if it is large."""
    if size <= PRETTY:
        text = exact_json.without_hashes(_get_or_404(rows.values_list("stored", flat=True)))
        return _text_response(_indent_json(text))
    head = exact_json.without_hashes(_get_or_404(rows.values_list("beginning", flat=True)))
    note = _("The first %(count)s characters of %(size)s bytes. Download it to see the rest.")
    return _text_response(f"{note % {'count': HEAD, 'size': size}}\n\n{head}")


def _read_payload(viewer: Viewer, message: UUID) -> tuple[Any, str]:
    rows = _message_row(viewer, message).annotate(stored=PAYLOAD_TEXT)
    stored, dialect = _get_or_404(rows.values_list("stored", "agent__dialect"))
    return decode_payload(stored), dialect


def _path_parameter(request: HttpRequest) -> Path:
    try:
        return path_from_json(request.GET.get("path", "[]"))
    except ValueError:
        raise Http404 from None


def _indent_json(stored: str) -> str:
    """Indent JSON without decoding binaries; return invalid JSON unchanged."""
    try:
        return json.dumps(json.loads(stored), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return stored


def _text_response(text: str, status: int = 200) -> HttpResponse:
    return serving.set_content_security_headers(
        HttpResponse(displayable(text), content_type="text/plain; charset=utf-8", status=status)
    )
