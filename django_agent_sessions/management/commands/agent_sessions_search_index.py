"""``manage.py agent_sessions_search_index``: the full-text index of the messages, on PostgreSQL."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import OperationalError, connections

from django_agent_sessions import search
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.management.databases import add_database, database_of
from django_agent_sessions.management.stopping import StoppableCommand
from django_agent_sessions.models import SessionMessage


class _State(StrEnum):
    """How the index is."""

    ABSENT = "absent"
    UNDER_WAY = "being made"
    READY = "ready"
    INVALID = "invalid"
    OTHER = "made for another configuration"


class Command(StoppableCommand):
    """Makes, drops or describes the index; nobody who reads or writes waits for it."""

    help = (
        "Makes the full-text index that AGENT_SESSIONS['FULL_TEXT_SEARCH'] names, drops it, or "
        "says how it is. PostgreSQL only."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds what to do, and where."""
        parser.add_argument("action", choices=["create", "drop", "status"])
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Does it; a second time does nothing."""
        alias = database_of(options)
        if connections[alias].vendor != "postgresql":
            raise CommandError(
                f"{alias!r} is not PostgreSQL: messages are searched there without an index"
            )
        try:
            self._do(options["action"], alias)
        except OperationalError as error:
            # PostgreSQL's first line names what happened; those behind it, processes and tables.
            what, *_ = str(error).splitlines()
            raise CommandError(
                f"PostgreSQL gave up ({what}): wait until nobody else makes or drops an index of "
                "the messages, and run it again; an index that was left half made is made anew"
            ) from error

    def _do(self, action: str, alias: str) -> None:
        if action == "drop":
            self._drop(_Index(alias))
            return
        try:
            # Before anything is done: an index that is there must not be dropped for one that
            # cannot be made.
            configuration = search.configuration_in_database(alias)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        index = _Index(alias, configuration)
        if action == "status":
            self.stdout.write(f"The index is {index.state()}.")
        else:
            self._create(index)

    def _drop(self, index: _Index) -> None:
        state = index.state()
        if state is _State.ABSENT:
            self.stdout.write("There is no index.")
            return
        _refuse_under_way(state)
        index.drop()
        self.stdout.write("The index is dropped.")

    def _create(self, index: _Index) -> None:
        state = index.state()
        _refuse_under_way(state)
        if state is _State.READY:
            self.stdout.write("The index is there already.")
            return
        if state is not _State.ABSENT:
            self.stdout.write(f"The index is {state}: it is made anew.")
            index.drop()
        index.create()
        self.stdout.write("The index is made.")


def _refuse_under_way(state: _State) -> None:
    """Keeps a command from what would wait for whoever makes the index, who waits for it."""
    if state is _State.UNDER_WAY:
        raise CommandError(
            "somebody is making the index: wait until it is there, which the action status tells"
        )


class _Index:
    """The index, and the statements about it."""

    def __init__(self, alias: str, configuration: str | None = None) -> None:
        self._alias = alias
        self._configuration = configuration
        quote = connections[alias].ops.quote_name
        self._table = quote(SessionMessage._meta.db_table)
        self._name = quote(search.WORDS_INDEX)

    def state(self) -> _State:
        """Tells how the index is."""
        with connections[self._alias].cursor() as cursor:
            # The configuration as PostgreSQL writes it: the setting may have it with its schema,
            # or in upper case.
            cursor.execute(
                "SELECT indisvalid, pg_get_indexdef(indexrelid), %s::text::regconfig::text,"
                # It has no index yet before the first of its transactions.
                " EXISTS (SELECT FROM pg_stat_progress_create_index"
                " WHERE relid = to_regclass(%s) AND index_relid IN (0, to_regclass(%s)))"
                " FROM (SELECT) AS nothing LEFT JOIN pg_index ON indexrelid = to_regclass(%s)",
                [self._configuration, self._table, self._name, self._name],
            )
            valid, definition, configuration, under_way = cursor.fetchone()
        if under_way and not valid:
            return _State.UNDER_WAY
        if definition is None:
            return _State.ABSENT
        if configuration and f"'{configuration}'::regconfig" not in definition:
            return _State.OTHER
        # An interrupted CREATE INDEX CONCURRENTLY leaves one that costs writes and serves nobody.
        return _State.READY if valid else _State.INVALID

    def create(self) -> None:
        """Makes the index."""
        if self._configuration is None:
            raise CommandError(
                "AGENT_SESSIONS['FULL_TEXT_SEARCH'] names no configuration: set it to 'simple', "
                "or to a language such as 'english'"
            )
        with connections[self._alias].cursor() as cursor:
            cursor.execute(
                f"CREATE INDEX CONCURRENTLY {self._name} ON {self._table}"
                f" USING gin (to_tsvector('{self._configuration}'::regconfig, text))"
            )
            # The planner's figures about words: without them it takes each for a rare one.
            cursor.execute(f"ANALYZE {self._table}")

    def drop(self) -> None:
        """Drops the index, if it is there."""
        with connections[self._alias].cursor() as cursor:
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {self._name}")
