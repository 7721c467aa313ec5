"""Export of one session or many, as Markdown or JSON Lines: streamed, and recorded before it is.

The page of one session is a form, and its POST sends the file. A GET would do for the file, but
not for the audit trail: browsers prefetch links, chat programs unfold them, and any page may embed
an address, and each would write that somebody exported what nobody did. And a reason in a URL would
be in every log.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
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

from django_agent_sessions import audit, bridge, serving
from django_agent_sessions.models import AuditEvent, Session

from .permissions import Allowed, may, require

MARKDOWN, JSONL = "markdown", "jsonl"

_NEEDED = (Allowed.VIEW, Allowed.READ, Allowed.EXPORT)


class ExportForm(forms.Form):
    """As what to export, and why."""

    form = forms.ChoiceField(
        label=_("Format"),
        choices=[
            (MARKDOWN, _("Markdown, for people: the conversation as it was said")),
            (JSONL, _("JSON Lines, for programs: everything, exactly")),
        ],
        widget=forms.RadioSelect,
        initial=MARKDOWN,
    )
    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=2000,
        help_text=_("It is kept in the audit trail; do not repeat what was said."),
    )


def may_export(request: HttpRequest) -> bool:
    """Tells whether a user may export: that takes reading, too, and finding sessions."""
    return may(request, *_NEEDED)


def export_urls(model_admin: Any) -> list[URLPattern]:
    """Gives the page for the export of a session."""

    # A reason may say what it should not, and is masked only when it is recorded.
    @sensitive_post_parameters("reason")
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
    """Asks as what to export a session, and sends the file."""
    require(request, *_NEEDED)
    session = _row(model_admin.get_queryset(request), object_id)
    if session is None or not model_admin.has_view_permission(request, session):
        raise Http404
    chosen = request.GET.get("as", MARKDOWN)
    form = ExportForm(request.POST or None, initial={"form": chosen})
    if request.method != "POST" or not form.is_valid():
        return _form_page(model_admin, request, session, form)
    reason = form.cleaned_data["reason"]
    if form.cleaned_data["form"] == JSONL:
        pieces = _each(_Export(request, JSONL, reason), [session], _json_line)
        return serving.download(request, pieces, serving.file_name(session), "jsonl")
    pieces = _each(_Export(request, MARKDOWN, reason), [session], _markdown)
    return serving.download(request, pieces, serving.file_name(session), "md")


@admin.action(description=_("Export as Markdown"), permissions=["export"])
def export_markdown(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponseBase:
    """Sends the chosen sessions as Markdown: one as a file, several as an archive of files."""
    sessions = _rows(queryset)
    first = list(itertools.islice(sessions, 2))
    sessions = itertools.chain(first, sessions)
    if len(first) == 1:
        pieces = _each(_Export(request, MARKDOWN), sessions, _markdown)
        return serving.download(request, pieces, serving.file_name(first[0]), "md")
    return serving.download(request, _zipped(request, sessions), "conversations", "zip")


@admin.action(description=_("Export as JSON Lines"), permissions=["export"])
def export_jsonl(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponseBase:
    """Sends the chosen sessions as JSON Lines, one a line."""
    pieces = _each(_Export(request, JSONL), _rows(queryset), _json_line)
    return serving.download(request, pieces, "conversations", "jsonl")


@dataclass(frozen=True, slots=True)
class _Export:
    """Who exports as what, and why.

    Django cannot hide a generator's variables from reports of errors: the reason is in here.
    """

    request: HttpRequest = field(repr=False)
    form: str
    reason: str = field(default="", repr=False)

    @sensitive_variables()
    def record(self, session: Session) -> None:
        """Records that a session is about to leave."""
        audit.record(
            AuditEvent.Action.EXPORTED,
            session=session.pk,
            actor=self.request.user,
            reason=self.reason,
            details={"format": self.form, "messages": session.message_count},
            using=_alias(session),
        )


def _each(
    export: _Export, sessions: Iterable[Session], write: Callable[[Session], Iterator[str]]
) -> Iterator[bytes]:
    """Writes sessions one after the other; each is recorded before its first byte leaves."""
    for session in sessions:
        export.record(session)
        yield from serving.encoded(write(session))


def _zipped(request: HttpRequest, sessions: Iterable[Session]) -> Iterator[bytes]:
    # Here, because the start of each process and command would wait for it.
    import zipfile

    sink, export = _Sink(), _Export(request, MARKDOWN)
    # It cannot go back in what was sent: sizes stand behind the files.
    with zipfile.ZipFile(sink, "w") as archive:  # type: ignore[call-overload] # it need not be able to seek
        for session in sessions:
            # Two ids may become one safe name; the key makes it unique.
            name = f"{serving.file_name(session)}_{session.pk}.md"
            info = zipfile.ZipInfo(name, timezone.now().timetuple()[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as file:
                for piece in _each(export, [session], _markdown):
                    file.write(piece)
                    yield sink.taken()
    yield sink.taken()


class _Sink:
    """What an archive is written into, to be taken out piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """There is nothing behind it."""

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


# What writes a session is imported where it is needed: it can read sessions too, and the start of
# each process and command would wait for what that takes.


def _markdown(session: Session) -> Iterator[str]:
    from django_agent_sessions.interchange import export_markdown

    return export_markdown(session)


def _json_line(session: Session) -> Iterator[str]:
    from django_agent_sessions.interchange import export_sessions

    return export_sessions([session], using=_alias(session))


def _rows(queryset: QuerySet[Session]) -> Iterator[Session]:
    from django_agent_sessions.interchange.rows import each_session

    for key in each_session(queryset):
        session = _row(queryset.model._default_manager.using(queryset.db), key)
        if session is not None:
            yield session


def _row(rows: Any, key: UUID) -> Session | None:
    found = rows.select_related(None).only("session_id", "message_count")
    session: Session | None = found.filter(pk=key).first()
    return session


def _alias(session: Session) -> str:
    return session._state.db or bridge.database()


def _form_page(
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
