"""Streaming export of sessions as Markdown or JSON Lines, recorded before the first byte is sent.

The page of one session is a form, and its POST sends the file. A GET could be triggered by
prefetching, link previews or embedded URLs, and each would record an export that no user made. A
reason in a URL would also end up in server logs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from django_agent_sessions import audit
from django_agent_sessions.content import exact_json
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.governance import reasons
from django_agent_sessions.models import AuditEvent, Operation, Session
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS, REVIEWING

from .pages import ReasonForm, ask_reason_response, selected_reason_form
from .permissions import may, reach

if TYPE_CHECKING:
    from .transcript.viewers import Viewer

MARKDOWN, JSONL = "markdown", "jsonl"
_EXPORTED = AuditEvent.Action.EXPORTED

_CHUNK_SIZE = 64 * 1024

_REQUIRED = OPERATION_PERMISSIONS[Operation.Kind.EXPORT]


class ExportForm(ReasonForm):
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


def export_view(viewer: Viewer) -> HttpResponseBase:
    """Show the export form of a session, and send the file on POST."""
    request, session = viewer.request, viewer.session
    format_ = request.GET.get("as", MARKDOWN)
    form = ExportForm(_EXPORTED, request.POST or None, initial={"form": format_})
    if request.method != "POST" or not form.is_valid():
        return viewer.render("export", title=_("Export conversation"), form=form)
    chosen, reason = form.cleaned_data["form"], form.cleaned_data["reason"]
    return _Export(request, chosen, reason).response([session], _file_name(session))


@admin.action(description=_("Export as Markdown"), permissions=["export"])
def export_markdown(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponseBase:
    """Send the selected sessions as Markdown: one file, or a ZIP archive of several."""
    reason = _selected_reason(model_admin, request, queryset, export_markdown)
    if isinstance(reason, HttpResponse):
        return reason
    export = _Export(request, MARKDOWN, reason)
    sessions = _load_sessions(request, queryset)
    first = list(itertools.islice(sessions, 2))
    sessions = itertools.chain(first, sessions)
    if len(first) == 1:
        return export.response(sessions, _file_name(first[0]))
    return _download(request, _stream_zip(export, sessions), "conversations", "zip")


@admin.action(description=_("Export as JSON Lines"), permissions=["export"])
def export_jsonl(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session]
) -> HttpResponseBase:
    reason = _selected_reason(model_admin, request, queryset, export_jsonl)
    if isinstance(reason, HttpResponse):
        return reason
    sessions = _load_sessions(request, queryset)
    return _Export(request, JSONL, reason).response(sessions, "conversations")


@sensitive_variables()
def _selected_reason(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Session], action: Any
) -> HttpResponse | str:
    """Return the reason of an action, or the page that asks for it if one is required."""
    form = selected_reason_form(_EXPORTED, request)
    if form.is_valid():
        reason: str = form.cleaned_data["reason"]
        return reason
    if not form.is_bound and not reasons.is_required(_EXPORTED):
        return ""
    sessions = reach(request, *_REQUIRED).filter(queryset)
    intro = _("These sessions are exported, and each export is recorded:")
    return ask_reason_response(
        model_admin,
        request,
        form,
        sessions,
        action=action,
        intro=str(intro),
    )


@dataclass(frozen=True, slots=True)
class _Problem:
    """A session, or a part of it, that an export lacks."""

    session: Session = field(repr=False)
    error: Exception
    rest: str = ""

    def as_dict(self) -> dict[str, str]:
        return {
            "session": str(self.session.pk),
            "session_id": self.session.session_id,
            "problem": f"{self.error}{self.rest}",
        }

    def __str__(self) -> str:
        session = self.session
        return f"session {session.session_id!r} ({session.pk}): {self.error}{self.rest}"


@dataclass(frozen=True, slots=True)
class _Export:
    """The request, format and reason of an export.

    Django's ``sensitive_variables`` cannot hide a generator's variables from error reports; the
    ``repr=False`` fields of this class do.
    """

    request: HttpRequest = field(repr=False)
    form: str
    reason: str = field(default="", repr=False)
    problems: list[_Problem] = field(default_factory=list, init=False, repr=False)

    def response(self, sessions: Iterable[Session], name: str) -> HttpResponseBase:
        suffix = "md" if self.form == MARKDOWN else "jsonl"
        return _download(self.request, self.stream(sessions), name, suffix)

    def stream(self, sessions: Iterable[Session]) -> Iterator[bytes]:
        """Write sessions one after another, and what is missing as the last line."""
        is_empty = True
        for session in sessions:
            for piece in self.pieces(session):
                is_empty = False
                yield piece
        if is_empty:
            self.raise_problem()
        if self.problems and self.form == JSONL:
            line = exact_json.dumps({"problems": [problem.as_dict() for problem in self.problems]})
            yield f"{line}\n".encode()

    def pieces(self, session: Session) -> Iterator[bytes]:
        """Read a session to its end, record its export, and yield it; nothing if it is unreadable.

        It is recorded before its first byte is sent.
        """
        from django_agent_sessions import serving

        with SpooledTemporaryFile(_CHUNK_SIZE) as file:
            try:
                file.writelines(serving.encode_in_chunks(self._write(session)))
            except AgentSessionsError as error:
                self.problems.append(_Problem(session, error))
                return
            self._record(session)
            file.seek(0)
            yield from iter(partial(file.read, _CHUNK_SIZE), b"")

    def raise_problem(self) -> None:
        """Raise the error of the first session that could not be read, if there is one."""
        for problem in self.problems:
            raise problem.error

    def _write(self, session: Session) -> Iterator[str]:
        # It also contains the importers.
        from django_agent_sessions import interchange

        if self.form == MARKDOWN:
            return interchange.export_markdown(session)
        reviews = may(self.request, *REVIEWING, session=session)

        def note_lost(error: Exception) -> None:
            self.problems.append(_Problem(session, error, rest="; the rest of it is here"))

        return interchange.export_sessions(
            [session], using=_alias(session), reviews=reviews, lost=note_lost
        )

    @sensitive_variables()
    def _record(self, session: Session) -> None:
        audit.record_checked(
            _EXPORTED,
            session=session.pk,
            actor=self.request.user,
            reason=self.reason,
            details={"format": self.form, "messages": session.message_count},
            using=_alias(session),
        )


# These packages are imported where they are needed to keep the start of processes fast.


def _download(
    request: HttpRequest, chunks: Iterator[bytes], name: str, suffix: str
) -> HttpResponseBase:
    from django_agent_sessions import serving

    return serving.streamed_download(request, chunks, name, suffix)


def _file_name(session: Session) -> str:
    from django_agent_sessions import serving

    return serving.file_name(session)


def _stream_zip(export: _Export, sessions: Iterable[Session]) -> Iterator[bytes]:
    import zipfile

    buffer = _ZipBuffer()

    def entry(name: str) -> IO[bytes]:
        info = zipfile.ZipInfo(name, timezone.now().timetuple()[:6])
        info.compress_type = zipfile.ZIP_DEFLATED
        file: IO[bytes] = archive.open(info, "w", force_zip64=True)
        return file

    # Sent bytes cannot be rewritten, so the sizes follow the files.
    with zipfile.ZipFile(buffer, "w") as archive:  # type: ignore[call-overload] # it need not be able to seek
        for session in sessions:
            pieces = export.pieces(session)
            if (first := next(pieces, None)) is None:
                continue
            # Two session ids may result in the same safe name; the key makes it unique.
            with entry(f"{_file_name(session)}_{session.pk}.md") as file:
                for piece in itertools.chain([first], pieces):
                    file.write(piece)
                    yield buffer.take()
        if not archive.filelist:
            export.raise_problem()
        if export.problems:
            with entry("problems.txt") as file:
                file.writelines(f"{problem}\n".encode() for problem in export.problems)
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
