"""Create, drop or inspect the full-text index of the messages on PostgreSQL."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import OperationalError, connections

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.management.options import add_database, get_database
from django_agent_sessions.management.terminal import StoppableCommand
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.queries import search


class _State(StrEnum):
    """The state of the index."""

    ABSENT = "absent"
    UNDER_WAY = "being created"
    READY = "ready"
    INVALID = "invalid"
    OTHER = "built for another configuration"


class Command(StoppableCommand):
    """``manage.py agent_sessions_search_index``: does not block reads or writes."""

    help = (
        "Creates, drops or inspects the full-text index for AGENT_SESSIONS['FULL_TEXT_SEARCH']. "
        "PostgreSQL only."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["create", "drop", "status"])
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the action; repeating it has no effect."""
        alias = get_database(options)
        if connections[alias].vendor != "postgresql":
            raise CommandError(
                f"database {alias!r} is not PostgreSQL: search does not use an index there"
            )
        try:
            self._run(options["action"], alias)
        except OperationalError as error:
            # The first line is the error; the others name processes and tables.
            first_line, *_ = str(error).splitlines()
            raise CommandError(
                f"PostgreSQL failed ({first_line}): wait until no other process creates or drops "
                "an index of the messages, and run the command again; it replaces an incomplete "
                "index"
            ) from error

    def _run(self, action: str, alias: str) -> None:
        if action == "drop":
            self._drop(_Index(alias))
            return
        try:
            # Check first: a valid index must not be dropped for one that cannot be created.
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
            self.stdout.write("The index does not exist.")
            return
        _require_no_build(state)
        index.drop()
        self.stdout.write("The index was dropped.")

    def _create(self, index: _Index) -> None:
        state = index.state()
        _require_no_build(state)
        if state is _State.READY:
            self.stdout.write("The index already exists.")
            return
        if state is not _State.ABSENT:
            self.stdout.write(f"The index is {state}: it will be replaced.")
            index.drop()
        index.create()
        self.stdout.write("The index was created.")


def _require_no_build(state: _State) -> None:
    """Require that no build is in progress, which would deadlock with this command."""
    if state is _State.UNDER_WAY:
        raise CommandError(
            "another process is creating the index: wait until the action status reports ready"
        )


class _Index:
    """The index and the statements about it."""

    def __init__(self, alias: str, configuration: str | None = None) -> None:
        self._alias = alias
        self._configuration = configuration
        quote = connections[alias].ops.quote_name
        self._table = quote(SessionMessage._meta.db_table)
        self._name = quote(search.WORDS_INDEX)

    def state(self) -> _State:
        with connections[self._alias].cursor() as cursor:
            # PostgreSQL normalizes the configuration: the setting may have a schema or capitals.
            cursor.execute(
                "SELECT indisvalid, pg_get_indexdef(indexrelid), %s::text::regconfig::text,"
                # In the first transaction of a build, index_relid is 0.
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
        # An interrupted CREATE INDEX CONCURRENTLY leaves an invalid index that slows down writes.
        return _State.READY if valid else _State.INVALID

    def create(self) -> None:
        if self._configuration is None:
            raise CommandError(
                "AGENT_SESSIONS['FULL_TEXT_SEARCH'] is not set: set it to 'simple' or to a "
                "language such as 'english'"
            )
        with connections[self._alias].cursor() as cursor:
            cursor.execute(
                f"CREATE INDEX CONCURRENTLY {self._name} ON {self._table}"
                f" USING gin (to_tsvector('{self._configuration}'::regconfig, text))"
            )
            # Without statistics the planner assumes that each word is rare.
            cursor.execute(f"ANALYZE {self._table}")

    def drop(self) -> None:
        with connections[self._alias].cursor() as cursor:
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {self._name}")
