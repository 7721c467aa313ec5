"""Finding sessions by ids, owners, titles and words, at a cost that has a bound.

Nothing is counted. Of messages, the newest are looked at: with a full-text index
(``AGENT_SESSIONS["FULL_TEXT_SEARCH"]``, on PostgreSQL) all the others too, as long as not too many
match. A result says whether more match, and whether older ones were not looked at.

Who may search what was said, and the record of it, is for the callers to see to.
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

from . import bridge, conf
from .exceptions import ConfigurationError
from .models import MAIN_BRANCH, Session, SessionMessage
from .querysets import SessionQuerySet
from .transcripts import displayable

MATCHES = 250
"""How many messages, and how many sessions by each other way, one search finds at most."""

OWNERS = 50
"""How many users whose names begin alike one search finds at most."""

SCOPE = 1000
"""Among how few sessions only their own messages are searched, instead of the newest of all."""

MAX_QUERY = 500
"""Characters of a query that are looked for."""

WORDS_INDEX = "agent_sessions_message_words"
"""The name of the full-text index that ``manage.py agent_sessions_search_index`` makes."""

_CONFIGURATION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found.

    Attributes:
        sessions: Primary keys, in no order.
        truncated: More match. A query that says more finds what is missing.
        limited: Only the newest titles or messages were looked at, and there are older ones.
        messages: The newest message that was found in a session, by the session's primary key;
            only for sessions that were found by a message. One on a side branch only if none was
            found on a main one.
    """

    sessions: frozenset[UUID]
    truncated: bool = False
    limited: bool = False
    messages: Mapping[UUID, UUID] = field(default_factory=dict, hash=False)


@dataclass(slots=True)
class _Found:
    """What the steps of a search have found so far."""

    keys: set[UUID]
    truncated: bool = False
    limited: bool = False
    messages: dict[UUID, UUID] = field(default_factory=dict)

    def add(self, keys: list[UUID]) -> None:
        self.truncated = self.truncated or len(keys) > MATCHES
        self.keys.update(keys[:MATCHES])


def find_sessions(
    query: str, *, sessions: SessionQuerySet, content: bool, using: str | None = None
) -> SearchResult:
    """Finds sessions by id, owner, title and words.

    An id (the session's, the external one, or the primary key) has to be exact, the user name of
    an owner may be a beginning in upper or lower case. Titles and messages are searched for the
    text as it is, in upper or lower case; messages with a full-text index for its words, with
    ``"phrases"``, ``or`` and ``-without``.

    Args:
        query: What somebody typed.
        sessions: Among which.
        content: Whether titles and messages are searched.
        using: The alias of the database.

    Returns:
        What was found.
    """
    query = displayable(query).strip()[:MAX_QUERY]
    if not query:
        return SearchResult(frozenset())
    alias = bridge.database(using)
    sessions = sessions.using(alias)
    found = _Found(set())
    found.add(_keys(sessions.filter(_named(query)).order_by()))
    if owners := _owners(query):
        found.add(_keys(sessions.filter(owner__in=owners).recent_first()))
    if content:
        _search_titles(query, sessions, found)
        _search_messages(query, sessions, found)
    return SearchResult(frozenset(found.keys), found.truncated, found.limited, found.messages)


def find_messages(
    session: UUID, query: str, *, limit: int = 200, using: str | None = None
) -> list[UUID]:
    """Finds messages of one session whose text has the query in it, in upper or lower case.

    It looks at the session's newest ``AGENT_SESSIONS["SEARCH_CANDIDATES"]`` messages, those on
    side branches too. Of a message and its copies there it finds one, that on the main branch if
    there is one.

    Args:
        session: Primary key of the session.
        query: What somebody typed.
        limit: How many messages to find at most; the newest.
        using: The alias of the database.

    Returns:
        Primary keys of messages, the oldest first.
    """
    query = displayable(query)[:MAX_QUERY]
    if not query.strip():
        return []
    messages = SessionMessage.objects.using(bridge.database(using)).filter(session=session)
    recent, _limited = _newest(messages.order_by("-id"))
    found = recent.filter(text__icontains=query).values_list("pk", "source", "branch")
    chosen: dict[UUID, tuple[UUID, int]] = {}
    for key, source, branch in found[:limit]:
        first = source or key
        if first not in chosen or (branch == MAIN_BRANCH and chosen[first][1] != MAIN_BRANCH):
            chosen[first] = (key, branch)
    return sorted(key for key, _ in chosen.values())


def configuration(using: str | None = None) -> str | None:
    """Tells the text search configuration of the full-text index."""
    name = conf.get_settings().FULL_TEXT_SEARCH
    if name is None or connections[bridge.database(using)].vendor != "postgresql":
        return None
    # It becomes part of the statement, because the planner finds an index by the very expression.
    if not _CONFIGURATION.fullmatch(name):
        raise ConfigurationError(
            "AGENT_SESSIONS['FULL_TEXT_SEARCH'] must name a text search configuration of "
            "PostgreSQL, such as 'simple' or 'english'"
        )
    return name


def configuration_in_database(using: str | None = None) -> str | None:
    """Tells the text search configuration of the full-text index, which the database does have.

    It asks the database, and so is for the command and for a check, not for a search.
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
    known = sorted(there for there, visible, _ in rows if visible)
    # As PostgreSQL reads a name that is not quoted.
    if name.lower() not in {*known, *(f"{schema}.{there}" for there, _, schema in rows)}:
        raise ConfigurationError(
            f"AGENT_SESSIONS['FULL_TEXT_SEARCH'] is {name!r}, and {alias!r} has no text search "
            f"configuration of this name. It has: {', '.join(known)}"
        )
    return name


class Words(Func):
    """The words of a text, as the full-text index holds them."""

    def __init__(self, text: str, *, configuration: str) -> None:
        super().__init__(
            F(text), template=f"to_tsvector('{configuration}'::regconfig, %(expressions)s)"
        )


class _Match(Func):
    """Whether a text has the words of a query."""

    arg_joiner = " @@ "
    template = "%(expressions)s"
    output_field = BooleanField()


def _matching(query: str, configuration: str | None) -> Any:
    """Makes the condition on a message."""
    if configuration is None:
        return Q(text__icontains=query)
    asked = Func(
        Value(query),
        template=f"websearch_to_tsquery('{configuration}'::regconfig, %(expressions)s)",
    )
    return _Match(Words("text", configuration=configuration), asked)


def _named(query: str) -> Q:
    named = Q(session_id=query) | Q(external_id=query)
    try:
        return named | Q(pk=UUID(query))
    except ValueError:
        return named


def _owners(query: str) -> list[Any]:
    """Finds users by the exact name, or the beginning of it, whatever its case."""
    users = get_user_model()
    name = users.USERNAME_FIELD
    rows = users._default_manager.using(router.db_for_read(users))
    return [*rows.filter(**{f"{name}__istartswith": query}).values_list("pk", flat=True)[:OWNERS]]


def _search_titles(query: str, sessions: SessionQuerySet, found: _Found) -> None:
    oldest = _place(sessions.recent_first().values_list("last_activity_at", flat=True))
    if oldest is not None:
        sessions = sessions.filter(last_activity_at__gte=oldest)
        found.limited = True
    found.add(_keys(sessions.filter(title__icontains=query).recent_first()))


def _search_messages(query: str, sessions: SessionQuerySet, found: _Found) -> None:
    """Looks at the newest messages, and with an index at the others if too few of them match."""
    messages, chosen = _messages_of(sessions)
    named = configuration(sessions.db)
    condition = _matching(query, named)
    recent, limited = _newest(messages.order_by("-id"))
    pairs = _places(recent.filter(condition, chosen))
    many = len(pairs) > MATCHES
    if named and not many:
        # No order: whichever the index gives first. If these are not all, that is said.
        others = _places(_matched(messages.filter(condition), chosen))
        many = len(others) > MATCHES
        pairs += others
    found.truncated = found.truncated or many
    found.limited = found.limited or (limited and not named)
    # Keys are made in time: the greatest is the newest.
    pairs.sort(key=lambda pair: (pair[2] == MAIN_BRANCH, pair[1].int))
    newest = {session: message for session, message, _ in pairs}
    keys = _keys(sessions.filter(pk__in=newest).order_by(), limit=len(newest))
    found.keys.update(keys)
    found.messages = {key: newest[key] for key in keys}


def _messages_of(sessions: SessionQuerySet) -> tuple[QuerySet[SessionMessage], Q]:
    """Takes the messages of these sessions if they are few, else all and the condition on theirs.

    Otherwise somebody with a handful of sessions would find nothing where the newest messages of
    all are other people's. Those of others neither count nor crowd out: how many match would tell
    what was said in them.
    """
    messages = SessionMessage.objects.using(sessions.db)
    if not sessions.query.where:
        return messages, Q()
    keys = _keys(sessions.order_by(), limit=SCOPE)
    if len(keys) > SCOPE:
        return messages, Q(session__in=sessions.order_by().values("pk"))
    return messages.filter(session__in=keys), Q()


def _matched(messages: QuerySet[SessionMessage], chosen: Q) -> QuerySet[SessionMessage]:
    """Keeps those of the chosen sessions, among no more matches than are looked at."""
    if not chosen:
        return messages.order_by()
    candidates = messages.order_by().values("pk")[: conf.get_settings().SEARCH_CANDIDATES]
    found = SessionMessage.objects.using(messages.db).filter(chosen, pk__in=candidates)
    return found.order_by()


def _newest(messages: QuerySet[SessionMessage]) -> tuple[QuerySet[SessionMessage], bool]:
    """Keeps the newest candidates, and tells whether that leaves any out."""
    oldest = _place(messages.values_list("id", flat=True))
    return (messages, False) if oldest is None else (messages.filter(id__gt=oldest), True)


def _place(values: QuerySet[Any, Any]) -> Any:
    """Reads the first value that is no candidate; ``None`` if all are."""
    place = conf.get_settings().SEARCH_CANDIDATES
    return next(iter(values[place : place + 1]), None)


def _keys(sessions: QuerySet[Session], limit: int = MATCHES) -> list[UUID]:
    """Reads keys, one more than asked for, which tells that there are more."""
    return [*sessions.values_list("pk", flat=True)[: limit + 1]]


def _places(messages: QuerySet[SessionMessage]) -> list[tuple[UUID, UUID, int]]:
    """Reads the sessions, keys and branches of messages, of one more than asked for."""
    return [*messages.values_list("session_id", "pk", "branch")[: MATCHES + 1]]
