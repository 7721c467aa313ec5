"""Search sessions by id, owner, title and words, with bounded cost.

Nothing is counted. Only the newest messages are searched; with a full-text index
(``AGENT_SESSIONS["FULL_TEXT_SEARCH"]``, on PostgreSQL) also all others, as long as not too many
match. The result says whether there are more matches, and whether older messages were not searched.
With ``AGENT_SESSIONS["ENCRYPTION"]``, words of titles and messages cannot be searched, and a search
that finds nothing else is refused.

Callers check the permission to search content, and record the search.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import connections, router
from django.db.models import BooleanField, F, Func, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Greatest, Lower, NullIf, StrIndex, Substr

from django_agent_sessions import conf
from django_agent_sessions.content import codec
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import ConfigurationError, EncryptedSearchError
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionMessage
from django_agent_sessions.models.functions import OctetLength, TypedText
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.models.session_names import SessionName, session_key

MAX_MATCHES = 250
"""Maximum number of messages, and of sessions per other criterion, that a search finds."""

MAX_OWNERS = 50
"""Maximum number of users that a search finds by name."""

MAX_SESSIONS_IN_SCOPE = 1000
"""Up to this number of sessions, only their messages are searched, not the newest of all."""

MAX_QUERY_LENGTH = 500
"""Maximum characters of a query; the rest is ignored."""

MAX_TERMS = 10
"""Maximum number of words and phrases of a query; the rest is ignored."""

WORDS_INDEX = "agent_sessions_message_words"
"""Name of the full-text index that ``manage.py agent_sessions_search_index`` creates."""

_EXCERPT_LEAD = 60
_EXCERPT = 200
_TERM = re.compile(r'"([^"]+)"|(\S+)')
_CONFIGURATION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of a search.

    Attributes:
        sessions: Primary keys, unordered.
        truncated: Whether there are more matches; a more specific query finds them.
        limited: Whether only the newest titles or messages were searched, and there are older ones.
        messages: The newest matching message by the session's primary key, only for sessions found
            by a message. One on a side branch only if none on a main branch matches.
        encrypted: Whether words were not searched, because titles and messages are encrypted.
    """

    sessions: frozenset[UUID]
    truncated: bool = False
    limited: bool = False
    messages: Mapping[UUID, UUID] = field(default_factory=dict, hash=False)
    encrypted: bool = False


@dataclass(slots=True)
class _Collected:
    """Results collected by the steps of a search."""

    keys: set[UUID]
    truncated: bool = False
    limited: bool = False
    messages: dict[UUID, UUID] = field(default_factory=dict)

    def add(self, keys: list[UUID]) -> None:
        self.truncated = self.truncated or len(keys) > MAX_MATCHES
        self.keys.update(keys[:MAX_MATCHES])


@sync_only
def find_sessions(
    query: str, *, sessions: SessionQuerySet, content: bool, using: str | None = None
) -> SearchResult:
    """Search sessions by id, owner, title and words.

    Ids (session id, external id, primary key) must match exactly, and owners by the beginning of
    their user name, ignoring case. Titles and messages must contain each word, or each
    ``"phrase"``, as a substring, ignoring case; with a full-text index, messages are searched for
    the words as such, also with ``or`` and ``-excluded``.

    Args:
        query: The user's input.
        sessions: The sessions to search in.
        content: Whether to search titles and messages.
        using: The database alias.

    Returns:
        The result.

    Raises:
        EncryptedSearchError: Content is encrypted, and no id or owner matches.
    """
    query = displayable(query).strip()[:MAX_QUERY_LENGTH]
    if not query:
        return SearchResult(frozenset())
    alias = bridge.database(using)
    sessions = sessions.using(alias)
    result = _Collected(set())
    result.add(_keys(sessions.filter(_id_condition(query)).order_by()))
    if owners := _owners(query):
        result.add(_keys(sessions.filter(owner__in=owners).recent_first()))
    if content:
        if codec.refuses_search():
            if not result.keys:
                raise EncryptedSearchError(_ENCRYPTED)
            keys = frozenset(result.keys)
            return SearchResult(keys, result.truncated, limited=True, encrypted=True)
        _search_titles(query, sessions, result)
        _search_messages(query, sessions, result)
    return SearchResult(frozenset(result.keys), result.truncated, result.limited, result.messages)


_ENCRYPTED = (
    "Titles and messages are encrypted, so their words cannot be searched. Search for an exact id, "
    "or the beginning of an owner's name."
)


@sync_only
def find_messages(
    session: SessionName, query: str, *, limit: int = 200, using: str | None = None
) -> list[UUID]:
    """Search the messages of one session for all words, or ``"phrases"``, ignoring case.

    Searches the session's newest ``AGENT_SESSIONS["SEARCH_CANDIDATES"]`` messages, including those
    on side branches. Of a message and its copies one is returned, preferably that on the main
    branch.

    Args:
        session: The session.
        query: The user's input.
        limit: Maximum number of messages; the newest are returned.
        using: The database alias.

    Returns:
        Primary keys of messages, oldest first.

    Raises:
        EncryptedSearchError: Content is encrypted.
    """
    query = displayable(query)[:MAX_QUERY_LENGTH]
    if not query.strip():
        return []
    if codec.refuses_search():
        raise EncryptedSearchError(_ENCRYPTED)
    pk = session_key(session, using)
    messages = SessionMessage.objects.using(bridge.database(using)).filter(session=pk)
    recent, _limited = _newest(messages.order_by("-id"))
    matches = recent.filter(contains_terms("text", query)).values_list("pk", "source", "branch")
    by_original: dict[UUID, tuple[UUID, int]] = {}
    for key, source, branch in matches[:limit]:
        original = source or key
        if original not in by_original or (
            branch == MAIN_BRANCH and by_original[original][1] != MAIN_BRANCH
        ):
            by_original[original] = (key, branch)
    return sorted(key for key, _ in by_original.values())


def query_terms(query: str) -> list[str]:
    """Return the words and quoted phrases of a query."""
    return [phrase or word for phrase, word in _TERM.findall(query)][:MAX_TERMS]


def contains_terms(column: str, query: str) -> Q:
    """Return the condition that a text contains all words and phrases of a query."""
    condition = Q()
    for term in query_terms(query):
        condition &= Q(**{f"{column}__icontains": term})
    return condition


def excerpt_of(query: str, column: str = "text") -> Func:
    """Return the expression for the words of a text around a match; its beginning without one.

    The match is that of the whole query if the text contains it, otherwise of its first word.
    """
    places = [
        NullIf(StrIndex(Lower(column), Lower(TypedText(text))), Value(0))
        for text in (query.strip(), *query_terms(query)[:1])
    ]
    place = Coalesce(*places, Value(1))
    return Substr(column, Greatest(place - _EXCERPT_LEAD, 1), _EXCERPT)


def configuration(using: str | None = None) -> str | None:
    """Return the text search configuration of the full-text index; None if there is no index."""
    name = conf.get_settings().FULL_TEXT_SEARCH
    if name is None or connections[bridge.database(using)].vendor != "postgresql":
        return None
    # Interpolated into the SQL, because the planner matches an index by the exact expression.
    if not _CONFIGURATION.fullmatch(name):
        raise ConfigurationError(
            "AGENT_SESSIONS['FULL_TEXT_SEARCH'] must name a text search configuration of "
            "PostgreSQL, such as 'simple' or 'english'"
        )
    return name


def configuration_in_database(using: str | None = None) -> str | None:
    """Return the text search configuration after checking that the database has it.

    Queries the database, so it is for the management command and the system check, not for
    searches.
    """
    name = configuration(using)
    if name is None:
        return None
    alias = bridge.database(using)
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT cfgname, pg_ts_config_is_visible(pg_ts_config.oid), nspname FROM pg_ts_config"
            " JOIN pg_namespace ON pg_namespace.oid = cfgnamespace"
        )
        rows = cursor.fetchall()
    available = sorted(name_in_database for name_in_database, visible, _ in rows if visible)
    # PostgreSQL folds unquoted names to lower case.
    if name.lower() not in {
        *available,
        *(f"{schema}.{name_in_database}" for name_in_database, _, schema in rows),
    }:
        raise ConfigurationError(
            f"AGENT_SESSIONS['FULL_TEXT_SEARCH'] is {name!r}, but the database {alias!r} has no "
            f"such text search configuration. Available: {', '.join(available)}"
        )
    return name


class TsVector(Func):
    """The words of a text as the full-text index has them."""

    def __init__(self, text: str, *, configuration: str) -> None:
        super().__init__(
            F(text), template=f"to_tsvector('{configuration}'::regconfig, %(expressions)s)"
        )


class _Match(Func):
    """Condition: a text has the words of a query."""

    arg_joiner = " @@ "
    template = "%(expressions)s"
    output_field = BooleanField()


def _match_condition(query: str, configuration: str | None) -> Any:
    """Return the condition on a message's text."""
    if configuration is None:
        return contains_terms("text", query)
    text_query = Func(
        TypedText(query),
        template=f"websearch_to_tsquery('{configuration}'::regconfig, %(expressions)s)",
    )
    return _Match(TsVector("text", configuration=configuration), text_query)


def _id_condition(query: str) -> Q:
    condition = Q(session_id=query) | Q(external_id=query)
    try:
        return condition | Q(pk=UUID(query))
    except ValueError:
        return condition


def _owners(query: str) -> list[Any]:
    """Find users by the beginning of their user name, ignoring case."""
    users = get_user_model()
    name = users.USERNAME_FIELD
    rows = users._default_manager.using(router.db_for_read(users))
    return [
        *rows.filter(**{f"{name}__istartswith": query}).values_list("pk", flat=True)[:MAX_OWNERS]
    ]


def _search_titles(query: str, sessions: SessionQuerySet, result: _Collected) -> None:
    oldest = _first_excluded(sessions.recent_first().values_list("last_activity_at", flat=True))
    if oldest is not None:
        sessions = sessions.filter(last_activity_at__gte=oldest)
        result.limited = True
    result.add(_keys(sessions.filter(contains_terms("title", query)).recent_first()))


def _search_messages(query: str, sessions: SessionQuerySet, result: _Collected) -> None:
    """Search the newest messages; with an index also the others if there are few matches."""
    messages, chosen = _messages_of(sessions)
    index_configuration = configuration(sessions.db)
    condition = _match_condition(query, index_configuration)
    recent, limited = _newest(messages.order_by("-id"))
    pairs = _locations(recent.filter(condition, chosen))
    is_truncated = len(pairs) > MAX_MATCHES
    if index_configuration and not is_truncated:
        # Unordered, as the index returns them; `truncated` says whether there are more.
        pairs = list({*pairs, *_locations(_matches_in(messages.filter(condition), chosen))})
        is_truncated = len(pairs) > MAX_MATCHES
    result.truncated = result.truncated or is_truncated
    # The index finds all but where its candidates are those of all sessions.
    is_complete = bool(index_configuration and not chosen)
    result.limited = result.limited or (limited and not is_complete)
    # Primary keys are ordered by time.
    pairs.sort(key=lambda pair: (pair[2] == MAIN_BRANCH, pair[1].int))
    newest = {session: message for session, message, _ in pairs[-MAX_MATCHES:]}
    keys = _keys(sessions.filter(pk__in=newest).order_by(), limit=len(newest))
    result.keys.update(keys)
    result.messages = {key: newest[key] for key in keys}


def _messages_of(sessions: SessionQuerySet) -> tuple[QuerySet[SessionMessage], Q]:
    """Return the messages to search, and an additional condition on them.

    For few sessions these are the sessions' own messages, so that a user with few sessions finds
    matches although the newest messages of all belong to others. Messages of other users do not
    count towards limits, because the number of matches would reveal their content.
    """
    messages = SessionMessage.objects.using(sessions.db)
    if not sessions.query.where:
        return messages, Q()
    keys = _keys(sessions.order_by(), limit=MAX_SESSIONS_IN_SCOPE)
    if len(keys) > MAX_SESSIONS_IN_SCOPE:
        return messages, Q(session__in=sessions.order_by().values("pk"))
    return messages.filter(session__in=keys), Q()


def _matches_in(messages: QuerySet[SessionMessage], chosen: Q) -> QuerySet[SessionMessage]:
    """Filter matches by the chosen sessions, within the number of candidates."""
    if not chosen:
        return messages.order_by()
    candidates = messages.order_by().values("pk")[: conf.get_settings().SEARCH_CANDIDATES]
    matches = SessionMessage.objects.using(messages.db).filter(chosen, pk__in=candidates)
    return matches.order_by()


def _newest(messages: QuerySet[SessionMessage]) -> tuple[QuerySet[SessionMessage], bool]:
    """Return the newest candidates, limited in number and bytes, and whether there are others."""
    oldest = _first_over(messages)
    return (messages, False) if oldest is None else (messages.filter(id__gt=oldest), True)


def _first_over(messages: QuerySet[SessionMessage]) -> UUID | None:
    """Return the newest message that is not a candidate; ``None`` if all are."""
    settings = conf.get_settings()
    count, room = settings.SEARCH_CANDIDATES, settings.SEARCH_BYTES
    if room is None:
        oldest: UUID | None = _first_excluded(messages.values_list("id", flat=True))
        return oldest
    sizes: Any = messages.values_list("id", OctetLength("text"))[: count + 1]
    # SQLite reads the texts, and only as many as are looked at.
    read = sizes.iterator() if connections[messages.db].vendor == "sqlite" else sizes
    key: UUID
    for number, (key, size) in enumerate(read):
        room -= size
        # The newest one is always searched.
        if number >= count or (number and room < 0):
            return key
    return None


def _first_excluded(values: QuerySet[Any, Any]) -> Any:
    """Return the first value after the candidates; ``None`` if there are no more."""
    count = conf.get_settings().SEARCH_CANDIDATES
    return next(iter(values[count : count + 1]), None)


def _keys(sessions: QuerySet[Session], limit: int = MAX_MATCHES) -> list[UUID]:
    """Read keys, one more than the limit, to detect that there are more."""
    return [*sessions.values_list("pk", flat=True)[: limit + 1]]


def _locations(messages: QuerySet[SessionMessage]) -> list[tuple[UUID, UUID, int]]:
    """Read sessions, keys and branches of messages, one more than the limit."""
    return [*messages.values_list("session_id", "pk", "branch")[: MAX_MATCHES + 1]]
