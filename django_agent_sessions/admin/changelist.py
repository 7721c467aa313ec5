"""The list of sessions, with keyset pagination and without counts, for very large tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from django.contrib.admin.options import IncorrectLookupParameters
from django.db import connections
from django.db.models import Count, Q, QuerySet, Window
from django.db.models.functions import RowNumber
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from django_agent_sessions import audit, conf
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import EncryptedSearchError
from django_agent_sessions.models import AuditEvent, MessageFeedback, Session, SessionAgent
from django_agent_sessions.models.querysets import is_valid_in_all_time_zones
from django_agent_sessions.models.roles import owns
from django_agent_sessions.models.users import with_owners
from django_agent_sessions.queries.search import SearchResult, find_sessions
from django_agent_sessions.queries.titles import with_readable_titles

from .columns import COLUMNS_PARAMETER, SessionColumnsMixin, possible_columns
from .filters import first_feedback, leased_until, reject_nul
from .keyset_changelist import AFTER, KeysetChangeList
from .list_rows import (
    SessionRowData,
    last_messages,
    snippets,
)
from .permissions import SessionPermission, may, may_act, reach
from .review_list import reviews_of
from .run_status import run_status

BEFORE = "before"
"""The query parameter of a page that ends before a position."""

OLDEST = "oldest"
"""The query parameter of the list that begins with the session that was inactive longest."""

AGENTS = 3
"""Agents that a row names."""

WORTH_ESTIMATING = 1000
"""The smallest estimate that is shown."""


@dataclass(frozen=True, slots=True)
class SessionListCursor:
    """The sort key of a session in the list."""

    moment: datetime
    key: UUID

    @classmethod
    def of(cls, session: Session) -> SessionListCursor:
        return cls(session.last_activity_at, session.pk)

    @classmethod
    def read(cls, text: str) -> SessionListCursor:
        """Parse ``str(position)``; raise ValueError for anything else."""
        moment, key = text.split("~")
        position = cls(datetime.fromisoformat(moment), UUID(key))
        if timezone.is_aware(position.moment) != timezone.is_aware(timezone.now()):
            raise ValueError(text)
        if not is_valid_in_all_time_zones(position.moment):
            raise ValueError(text)
        return position

    def __str__(self) -> str:
        return f"{self.moment.isoformat()}~{self.key.hex}"


class SessionChangeList(KeysetChangeList):
    """Pages of sessions by last activity, with keyset pagination."""

    own_parameters: ClassVar[tuple[str, ...]] = (AFTER, BEFORE)
    shown_parameters: ClassVar[tuple[str, ...]] = (COLUMNS_PARAMETER, OLDEST)

    found: SearchResult | None = None
    """The result of the search, if the query is not empty."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Return the order that an index supports, or its reverse."""
        order = ["-last_activity_at", "-id"]
        return [column.lstrip("-") for column in order] if self.ascending else order

    @property
    def ascending(self) -> bool:
        """Whether the list begins with the session that was inactive longest."""
        return OLDEST in self.params

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        """Filter and search, independently of the page."""
        reject_nul(self.get_filters_params())
        query, self.query = self.query, ""
        try:
            sessions: Any = super().get_queryset(request, exclude_parameters)
        finally:
            self.query = query
        if not query.strip():
            return sessions
        if self.found is None:
            self.found = self._search(request, sessions)
        return sessions.filter(pk__in=self.found.sessions)

    def url_for_result(self, result: Any) -> str:
        """Link to the newest message that the search found in the session, if any."""
        url = super().url_for_result(result)
        message = self.found.messages.get(result.pk) if self.found else None
        return f"{url}?at={message}#m-{message}" if message else url

    def get_results(self, request: HttpRequest) -> None:
        """Read the page: sessions, their owners and their first agents."""
        position, backwards = self._position(request)
        rows, more = self._rows(position, backwards)
        self._viewer = request.user
        self._reviews = reviews_of(request, rows) if "review_state" in self.list_display else {}
        self._describe(rows, readable=reach(request, SessionPermission.READ).among(rows))
        earlier, later = (more, True) if backwards else (position is not None, more)
        self.show_admin_actions = True
        self.newer_url = self._url(BEFORE, rows[:1]) if earlier else ""
        self.older_url = self._url(AFTER, rows[-1:]) if later else ""
        self.show(request, rows)
        self.all_url = f"all/{self.get_query_string()}" if rows and may_act(request) else ""
        self.candidates = conf.get_settings().SEARCH_CANDIDATES
        self.help_text = self._help(request)
        self.order_url = self._toggled(OLDEST, "" if self.ascending else "1")
        self.column_links = self._column_links(request)
        is_filtered = bool(self.query or self.has_active_filters)
        everything = reach(request, SessionPermission.VIEW).is_everything and not is_filtered
        self.estimate = self._estimate() if everything and self.older_url else None

    def _toggled(self, parameter: str, value: str) -> str:
        return self.get_query_string({parameter: value} if value else {}, [parameter])

    def _column_links(self, request: HttpRequest) -> list[tuple[bool, Any, str]]:
        """Return of each column whether it is shown, its label, and the link that changes it."""
        shown, possible = self.model_admin.get_list_display(request), possible_columns()
        links = []
        for name in possible:
            label = getattr(SessionColumnsMixin, name).short_description
            names = ",".join(each for each in possible if (each in shown) != (each == name))
            links.append((name in shown, label, self._toggled(COLUMNS_PARAMETER, names or "-")))
        return links

    def _search(self, request: HttpRequest, sessions: Any) -> SearchResult:
        readable = reach(request, SessionPermission.READ)
        content = bool(readable)
        if content:
            sessions = readable.filter(sessions)
        result = self._found(sessions, content=content)
        if content:
            audit.record_checked(
                AuditEvent.Action.SEARCHED,
                actor=request.user,
                details={"found": len(result.sessions)},
                using=bridge.database(),
            )
        return result

    def _found(self, sessions: Any, *, content: bool) -> SearchResult:
        try:
            return find_sessions(self.query, sessions=sessions, content=content, using=sessions.db)
        except EncryptedSearchError:
            # The page says so.
            return SearchResult(frozenset(), encrypted=True)

    def _help(self, request: HttpRequest) -> str:
        if may(request, SessionPermission.READ):
            return _(
                "Exact id, beginning of the owner’s name, or words of title and messages. "
                "Tool arguments, JSON and reasoning are not searched."
            )
        return _("Exact id, or beginning of the owner’s name")

    def _position(self, request: HttpRequest) -> tuple[SessionListCursor | None, bool]:
        for parameter in self.own_parameters:
            if text := request.GET.get(parameter):
                try:
                    return SessionListCursor.read(text), parameter == BEFORE
                except ValueError as error:
                    raise IncorrectLookupParameters(error) from error
        return None, False

    def _rows(
        self, position: SessionListCursor | None, backwards: bool
    ) -> tuple[list[Session], bool]:
        """Return the sessions of a page, and whether more follow in that direction."""
        listed = with_owners(self.queryset.defer("metadata", "origin"))
        sessions: Any = listed.annotate(
            has_good=first_feedback(MessageFeedback.Value.GOOD),
            has_bad=first_feedback(MessageFeedback.Value.BAD),
            has_comment=first_feedback(MessageFeedback.Value.NEUTRAL),
            leased_until=leased_until(),
        )
        if position is not None:
            newer = backwards != self.ascending
            beyond = sessions.more_recent_than if newer else sessions.less_recent_than
            sessions = beyond(position.moment, position.key)
        if backwards:
            sessions = sessions.reverse()
        page = with_readable_titles(sessions[: self.list_per_page + 1])
        rows = page[: self.list_per_page]
        return (rows[::-1] if backwards else rows), len(page) > self.list_per_page

    def _describe(self, rows: list[Session], *, readable: set[Any]) -> None:
        """Set ``listed`` on each session."""
        using = self.queryset.db
        agents = _agents_by_session(rows, using)
        found = self._shown_messages(rows, readable)
        excerpts = snippets(found, self.query, using)
        keys, shown = [row.pk for row in rows], self.list_display
        last = last_messages(keys, using, readable=readable) if "last_message" in shown else {}
        status = run_status(readable, using) if "status" in shown else {}
        now = timezone.now()
        for session in rows:
            names, total, frameworks = agents.get(session.pk, ((), 0, ()))
            last_message_at, last_words = last.get(session.pk, (None, ""))
            until = session.leased_until  # type: ignore[attr-defined] # annotated
            running = until is not None and until > now
            session.is_running = running  # type: ignore[attr-defined] # for the template
            session.listed = SessionRowData(  # type: ignore[attr-defined] # for the template
                readable=session.pk in readable,
                agents=names,
                more_agents=total - len(names),
                frameworks=frameworks,
                review=self._reviews.get(session.pk, ""),
                snippet=excerpts.get(session.pk, ""),
                last_message_at=last_message_at,
                last_words=last_words,
                status=status.get(session.pk, ""),
            )

    def _shown_messages(self, rows: list[Session], readable: set[Any]) -> dict[UUID, UUID]:
        """Return the messages of which the page shows words, and record that it does."""
        messages = self.found.messages if self.found else {}
        shown = [row for row in rows if row.pk in readable and row.pk in messages]
        audit.record_each(
            AuditEvent.Action.SEARCHED,
            {row.pk: messages[row.pk] for row in shown if not owns(self._viewer, row)},
            actor=self._viewer,
            using=bridge.database(),
        )
        return {row.pk: messages[row.pk] for row in shown}

    def _url(self, parameter: str, rows: list[Session]) -> str:
        return (
            self.get_query_string({parameter: str(SessionListCursor.of(rows[0]))}) if rows else ""
        )

    def _estimate(self) -> int | None:
        """Return PostgreSQL's row estimate for the table, which is free."""
        connection = connections[self.queryset.db]
        if connection.vendor != "postgresql":
            return None
        with connection.cursor() as cursor:
            table = connection.ops.quote_name(self.opts.db_table)
            cursor.execute(
                "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(%s)", [table]
            )
            row = cursor.fetchone()
        return row[0] if row and row[0] >= WORTH_ESTIMATING else None


def _agents_by_session(
    rows: Iterable[Session], using: str
) -> dict[UUID, tuple[tuple[str, ...], int, tuple[str, ...]]]:
    """Read the first agents, their number and the dialects of sessions in one bounded statement."""
    values = (
        SessionAgent.objects.using(using)
        .filter(session__in=[session.pk for session in rows])
        .annotate(
            place=Window(RowNumber(), partition_by="session_id", order_by="id"),
            place_in_format=Window(
                RowNumber(), partition_by=["session_id", "dialect"], order_by="id"
            ),
            total=Window(Count("id"), partition_by="session_id"),
        )
        .filter(Q(place__lte=AGENTS) | Q(place_in_format=1))
        .order_by("session_id", "place")
        .values_list("session_id", "agent_id", "dialect", "place", "total")
    )
    agents: dict[UUID, tuple[tuple[str, ...], int, tuple[str, ...]]] = {}
    for session, agent, dialect, rank, total in values:
        names, _total, formats = agents.get(session, ((), 0, ()))
        if rank <= AGENTS:
            names = (*names, agent)
        if dialect not in formats:
            formats = (*formats, dialect)
        agents[session] = (names, total, formats)
    return agents
