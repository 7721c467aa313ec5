"""Streaming export of sessions as Markdown or JSON Lines, recorded before the first byte is sent.

The page of one session is a form, and its POST sends the file. A GET could be triggered by
prefetching, link previews or embedded URLs, and each would record an export that no user made. A
reason in a URL would also end up in server logs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from django_agent_sessions import audit
from django_agent_sessions.db import bridge
from django_agent_sessions.governance import reasons
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.permissions import REVIEWING

from .permissions import SessionPermission, may, reach, require
from .reason_form import ReasonForm, ask_reason_response, selected_reason_form

MARKDOWN, JSONL = "markdown", "jsonl"
_EXPORTED = AuditEvent.Action.EXPORTED

_REQUIRED = (SessionPermission.VIEW, SessionPermission.READ, SessionPermission.EXPORT)


class ExportForm(ReasonForm):
    """The format and the reason of an export."""

    form = forms.ChoiceField(
        label=_("Format"),
        choices=[
            (MARKDOWN, _("Markdown: the conversation, for people")),
            (JSONL, _("JSON Lines: all data, for programs")),
        ],
        widget=forms.RadioSelect,
        initial=MARKDOWN,
    )
    field_order = ("form", "reason")


def may_export(request: HttpRequest) -> bool:
    """Return whether the user may export, which requires finding and reading sessions, too."""
    return may(request, *_REQUIRED)


def export_urls(model_admin: Any) -> list[URLPattern]:
    # A reason may contain personal data; it is masked only when it is recorded.
    @sensitive_post_parameters("reason")
    @wraps(export_view)
    def page(request: HttpRequest, object_id: UUID) -> HttpResponseBase:
        return export_view(model_admin, request, object_id)

    return [
        path(
            "<uuid:object_id>/export/",
            model_admin.admin_site.admin_view(page),
            name="agent_sessions_session_export",
        )
    ]


@sensitive_variables()
def export_view(model_admin: Any, request: HttpRequest, object_id: UUID) -> HttpResponseBase:
    """Show the export form of a session, and send the file on POST."""
    require(request, *_REQUIRED)
    sessions = reach(request, *_REQUIRED).filter(model_admin.get_queryset(request))
    session = _load_session(sessions, object_id)
    if session is None or not model_admin.has_view_permission(request, session):
        raise Http404
    format_ = request.GET.get("as", MARKDOWN)
    form = ExportForm(_EXPORTED, request.POST or None, initial={"form": format_})
    if request.method != "POST" or not form.is_valid():
        return _form_response(model_admin, request, session, form)
    reason = form.cleaned_data["reason"]
    if form.cleaned_data["form"] == JSONL:
        chunks = _stream_sessions(_Export(request, JSONL, reason), [session], _jsonl)
        return _download(request, chunks, _file_name(session), "jsonl")
    chunks = _stream_sessions(_Export(request, MARKDOWN, reason), [session], _markdown)
    return _download(request, chunks, _file_name(session), "md")


@admin.action(description=_("Export as Markdown"), permissions=["export"])
def export_markdown(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponseBase:
    """Send the selected sessions as Markdown: one file, or a ZIP archive of several."""
    title = _("Export as Markdown")
    reason = _selected_reason(model_admin, request, queryset, "export_markdown", title)
    if isinstance(reason, HttpResponse):
        return reason
    export = _Export(request, MARKDOWN, reason)
    sessions = _load_sessions(request, queryset)
    first = list(itertools.islice(sessions, 2))
    sessions = itertools.chain(first, sessions)
    if len(first) == 1:
        chunks = _stream_sessions(export, sessions, _markdown)
        return _download(request, chunks, _file_name(first[0]), "md")
    return _download(request, _stream_zip(export, sessions), "conversations", "zip")


@admin.action(description=_("Export as JSON Lines"), permissions=["export"])
def export_jsonl(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponseBase:
    """Send the selected sessions as JSON Lines."""
    title = _("Export as JSON Lines")
    reason = _selected_reason(model_admin, request, queryset, "export_jsonl", title)
    if isinstance(reason, HttpResponse):
        return reason
    export = _Export(request, JSONL, reason)
    chunks = _stream_sessions(export, _load_sessions(request, queryset), _jsonl)
    return _download(request, chunks, "conversations", "jsonl")


@sensitive_variables()
def _selected_reason(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session], action: str, title: Any
) -> HttpResponse | str:
    """Return the reason of an action, or the page that asks for it if one is required."""
    form = selected_reason_form(_EXPORTED, request)
    if form.is_valid():
        reason: str = form.cleaned_data["reason"]
        return reason
    if not form.is_bound and not reasons.is_required(_EXPORTED):
        return ""
    sessions = list(reach(request, *_REQUIRED).filter(queryset))
    intro = _("These sessions are exported, and each export is recorded:")
    return ask_reason_response(
        model_admin, request, form, sessions, action=action, title=title, intro=str(intro)
    )


@dataclass(frozen=True, slots=True)
class _Export:
    """The request, format and reason of an export.

    Django's ``sensitive_variables`` cannot hide a generator's variables from error reports; the
    ``repr=False`` fields of this class do.
    """

    request: HttpRequest = field(repr=False)
    form: str
    reason: str = field(default="", repr=False)

    @sensitive_variables()
    def record(self, session: Session) -> None:
        """Record the export of a session in the audit trail."""
        audit.record(
            _EXPORTED,
            session=session.pk,
            actor=self.request.user,
            reason=self.reason,
            details={"format": self.form, "messages": session.message_count},
            using=_alias(session),
        )


# The package is imported here to keep the start of processes and commands fast.


def _download(
    request: HttpRequest, chunks: Iterator[bytes], name: str, suffix: str
) -> HttpResponseBase:
    from django_agent_sessions import serving

    return serving.streamed_download(request, chunks, name, suffix)


def _file_name(session: Session) -> str:
    from django_agent_sessions import serving

    return serving.file_name(session)


def _stream_sessions(
    export: _Export,
    sessions: Iterable[Session],
    write: Callable[[Session, HttpRequest], Iterator[str]],
) -> Iterator[bytes]:
    """Write sessions one after another; record each before its first byte is sent."""
    from django_agent_sessions import serving

    for session in sessions:
        export.record(session)
        yield from serving.encode_in_chunks(write(session, export.request))


def _stream_zip(export: _Export, sessions: Iterable[Session]) -> Iterator[bytes]:
    # Imported here to keep the start of processes and commands fast.
    import zipfile

    buffer = _ZipBuffer()
    # Sent bytes cannot be rewritten, so the sizes follow the files.
    with zipfile.ZipFile(buffer, "w") as archive:  # type: ignore[call-overload] # it need not be able to seek
        for session in sessions:
            # Two session ids may result in the same safe name; the key makes it unique.
            name = f"{_file_name(session)}_{session.pk}.md"
            info = zipfile.ZipInfo(name, timezone.now().timetuple()[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as file:
                for chunk in _stream_sessions(export, [session], _markdown):
                    file.write(chunk)
                    yield buffer.take()
    yield buffer.take()


class _ZipBuffer:
    """A write-only buffer that an archive is written to and the response is read from."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._chunks.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing; ``ZipFile`` calls it."""

    def take(self) -> bytes:
        chunks, self._chunks = self._chunks, []
        return b"".join(chunks)


# interchange is imported where it is needed: it also contains the importers, which would slow down
# the start of processes and commands.


def _markdown(session: Session, request: HttpRequest) -> Iterator[str]:
    from django_agent_sessions.interchange import export_markdown

    return export_markdown(session)


def _jsonl(session: Session, request: HttpRequest) -> Iterator[str]:
    from django_agent_sessions.interchange import export_sessions

    reviews = may(request, *REVIEWING, session=session)
    return export_sessions([session], using=_alias(session), reviews=reviews)


def _load_sessions(request: HttpRequest, queryset: QuerySet[Session]) -> Iterator[Session]:
    from django_agent_sessions.interchange.row_pages import each_session

    for key in each_session(reach(request, *_REQUIRED).filter(queryset)):
        session = _load_session(queryset.model._default_manager.using(queryset.db), key)
        if session is not None:
            yield session


def _load_session(rows: Any, key: UUID) -> Session | None:
    sessions = rows.select_related(None).only("session_id", "message_count")
    session: Session | None = sessions.filter(pk=key).first()
    return session


def _alias(session: Session) -> str:
    return session._state.db or bridge.database()


def _form_response(
    model_admin: Any, request: HttpRequest, session: Session, form: ExportForm
) -> HttpResponse:
    site = model_admin.admin_site
    request.current_app = site.name
    context = {
        **site.each_context(request),
        "title": _("Export conversation"),
        "subtitle": session.session_id,
        "opts": model_admin.opts,
        "original": session,
        "session_url": reverse(f"{site.name}:agent_sessions_session_change", args=[session.pk]),
        "form": form,
    }
    response = TemplateResponse(request, "agent_sessions/admin/export.html", context)
    patch_cache_control(response, private=True, no_store=True)
    return response
