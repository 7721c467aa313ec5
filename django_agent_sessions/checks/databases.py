"""System checks of the databases."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, router
from django.db.models import Model, TextField
from django.db.models.functions import Substr

from django_agent_sessions import conf
from django_agent_sessions.db import bridge, connection_state
from django_agent_sessions.exceptions import ConfigurationError

from .settings import requires_valid

_OLDEST_SQLITE = (3, 35)

ROUTER_PATH = "django_agent_sessions.db.routers.SessionsRouter"
"""The router of this package, for the hint."""


def _asking_database(check: Callable[..., list[CheckMessage]]) -> Callable[..., list[CheckMessage]]:
    """Call a check with the alias of the database of sessions, if Django asks that database."""

    @functools.wraps(check)
    def run(
        app_configs: Sequence[AppConfig] | None,
        databases: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> list[CheckMessage]:
        alias = bridge.database()
        if alias not in (databases or ()):
            return []
        try:
            return check(alias, **kwargs)
        except DatabaseError:
            # The database is unavailable, which the command itself reports.
            return []

    return run


@register
@requires_valid("DATABASE", "FULL_TEXT_SEARCH")
def check_full_text_search(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that ``FULL_TEXT_SEARCH`` is a valid name, if PostgreSQL uses it."""
    # Imported here because it imports the models.
    from django_agent_sessions.queries import search

    if bridge.database() not in connections:
        return []
    try:
        search.configuration()
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint="Use letters, digits and underscores, optionally with a schema before a dot, "
                "or remove the setting to search without an index.",
                id="agent_sessions.E007",
            )
        ]
    return []


@register(Tags.database)
@requires_valid("DATABASE", "FULL_TEXT_SEARCH")
@_asking_database
def check_full_text_configuration(alias: str, **kwargs: Any) -> list[CheckMessage]:
    """Check that PostgreSQL has the configuration that ``FULL_TEXT_SEARCH`` names.

    Queries the database, and so runs with ``migrate`` and ``check --database``. A warning, because
    an error would stop the migration that creates a configuration of the project.
    """
    from django_agent_sessions.queries import search

    if check_full_text_search(None):
        return []
    try:
        search.configuration_in_database(alias)
    except ConfigurationError as error:
        return [
            CheckWarning(
                str(error),
                hint="Use an existing configuration or create this one: until then every search "
                "fails.",
                id="agent_sessions.W008",
            )
        ]
    return []


@register(Tags.database)
@requires_valid("DATABASE")
@_asking_database
def check_character_sets(alias: str, **kwargs: Any) -> list[CheckMessage]:
    """Check that MariaDB and MySQL store every character and compare ids exactly.

    Queries the database, and so runs with ``migrate`` and ``check --database``. A warning, because
    an error would stop the migrations of the whole project.
    """
    # Imported here because it imports the models.
    from django_agent_sessions.sql import charsets

    charset = charsets.inspect_charsets(alias)
    statements = "\n".join(["Run at a time of low traffic:", *charset.statements])
    found = [
        (
            "W010",
            charset.connection,
            f"The connection to {alias!r} uses {charset.connection}, {_NO_EMOJI}",
            "Set OPTIONS = {'charset': 'utf8mb4'}.",
        ),
        (
            "W010",
            charset.database,
            f"The database {alias!r} creates tables with {charset.database}, {_NO_EMOJI}",
            "Before the first migrate, run: ALTER DATABASE … CHARACTER SET utf8mb4.",
        ),
        (
            "W010",
            charset.columns,
            f"Columns in {alias!r} do not use utf8mb4, {_NO_EMOJI}: {', '.join(charset.columns)}",
            statements,
        ),
        (
            "W011",
            charset.ids,
            f"Ids in {alias!r} are not compared exactly, so that two different ids can be equal: "
            f"{', '.join(charset.ids)}",
            statements,
        ),
    ]
    return [
        CheckWarning(what, hint=hint, id=f"agent_sessions.{number}")
        for number, unsuitable, what, hint in found
        if unsuitable
    ]


_NO_EMOJI = (
    "which cannot store emoji: a message with emoji is rejected, or loses them if strict "
    "mode is off"
)


@register(Tags.database)
@requires_valid("DATABASE")
@_asking_database
def check_triggers(alias: str, **kwargs: Any) -> list[CheckMessage]:
    """Check that PostgreSQL's triggers protect the audit trail and sessions under legal hold.

    Queries the database, and so runs with ``migrate`` and ``check --database``. A warning, because
    an error would stop the migrations of the whole project.
    """
    from django_agent_sessions.sql.triggers import TRIGGERS, trigger_problem

    return [
        CheckWarning(
            f"The trigger {trigger.name} that protects {trigger.protects} in {alias!r} is "
            f"{problem}: users with access by SQL can change or delete them",
            hint="Run manage.py agent_sessions_check --fix as the owner of the tables, and find "
            f"out who did it: {trigger.protects} are not reliable for the time without the "
            "trigger.",
            id="agent_sessions.W013",
        )
        for trigger in TRIGGERS
        if (problem := trigger_problem(alias, trigger))
    ]


@register(Tags.database)
@requires_valid("DATABASE", "ENCRYPTION")
def check_decryption(
    app_configs: Sequence[AppConfig] | None,
    databases: Sequence[str] | None = None,
    **kwargs: Any,
) -> list[CheckMessage]:
    """Check that the settings have the keys of what is encrypted.

    Queries the database, and so runs with ``migrate`` and ``check --database``. A warning, because
    an error would stop the migrations of the whole project.
    """
    alias, asked = bridge.database(), databases or ()
    problem = hint = ""
    try:
        if conf.get_settings().ENCRYPTION is not None:
            missing = ", ".join(map(repr, _missing_master_keys(asked)))
            hint = "Add it again, and run agent_sessions_encrypt rewrap before removing it."
            problem = missing and (
                f"AGENT_SESSIONS['ENCRYPTION']['KEYS'] has no master key {missing}, which wraps "
                "data keys: what they encrypt cannot be read"
            )
        elif alias in asked and _has_encrypted_messages(alias):
            hint = "Set it again. To stop encrypting, first run agent_sessions_encrypt decrypt."
            problem = (
                f"Messages in {alias!r} are encrypted, and AGENT_SESSIONS['ENCRYPTION'] is not "
                "set: they cannot be read, and new ones are stored as plain text"
            )
    except DatabaseError:
        # The database is unavailable, which the command itself reports.
        return []
    return [CheckWarning(problem, hint=hint, id="agent_sessions.W027")] if problem else []


def _has_encrypted_messages(alias: str) -> bool:
    """Return whether one of the oldest or newest messages is encrypted: others are not read."""
    from django_agent_sessions.content import codec
    from django_agent_sessions.models import SessionMessage
    from django_agent_sessions.models.stored_text import StoredText

    stored = StoredText("message", keyed=False, output_field=TextField())
    beginnings = SessionMessage.objects.using(alias).values_list(Substr(stored, 1, 8), flat=True)
    return any(
        codec.ENVELOPE.match(text)
        for order in ("pk", "-pk")
        for text in beginnings.order_by(order)[:_SAMPLE]
    )


def _missing_master_keys(asked: Sequence[str]) -> list[str]:
    """Return the master keys that wrap data keys and that the settings lack."""
    from django_agent_sessions.content import codec
    from django_agent_sessions.models import DataKey

    keys: Any = getattr(codec.installed(), "keys", None)
    if keys is None or keys.alias not in asked:
        return []
    try:
        known = keys.masters().keys
        rows = DataKey.objects.using(keys.alias).exclude(master__in=list(known))
        return sorted(rows.order_by().values_list("master", flat=True).distinct())
    except ConfigurationError:
        # `E014` reports it.
        return []


_SAMPLE = 100


@register(Tags.models)
@requires_valid("DATABASE")
def check_routers(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the ORM reads and writes sessions where ``DATABASE`` says that they are."""
    # Imported here because it imports the models.
    from django_agent_sessions.models import Session
    from django_agent_sessions.models.users import same_database

    alias = conf.get_settings().DATABASE
    if alias is None or alias not in connections:
        return []
    written, read = router.db_for_write(Session), router.db_for_read(Session)
    # Other reads may be from a replica.
    used = {written, read} if read == DEFAULT_DB_ALIAS else {written}
    if all(same_database(each, alias) for each in used):
        return []
    return [
        CheckWarning(
            f"The store writes sessions to {alias!r} (AGENT_SESSIONS['DATABASE']), but the ORM "
            f"reads {read!r} and writes {written!r}: Session.objects and a user's "
            "owned_agent_sessions show other rows than the API and the admin",
            hint=f"Set DATABASE_ROUTERS = ['{ROUTER_PATH}'], or let your router return {alias!r} "
            "for the app label 'agent_sessions'.",
            id="agent_sessions.W015",
        )
    ]


@register(Tags.database)
@requires_valid("DATABASE")
def check_sessions_left_behind(
    app_configs: Sequence[AppConfig] | None,
    databases: Sequence[str] | None = None,
    **kwargs: Any,
) -> list[CheckMessage]:
    """Check that ``default`` has no sessions from before ``DATABASE`` named another database.

    Queries the database, and so runs with ``migrate`` and ``check --database default``.
    """
    # Imported here because it imports the models.
    from django_agent_sessions.models import Session
    from django_agent_sessions.models.users import same_database

    alias = conf.get_settings().DATABASE
    if alias is None or DEFAULT_DB_ALIAS not in (databases or ()):
        return []
    if same_database(alias, DEFAULT_DB_ALIAS) or not _has_rows(Session, DEFAULT_DB_ALIAS):
        return []
    return [
        CheckWarning(
            f"The sessions are in {alias!r} (AGENT_SESSIONS['DATABASE']), but {DEFAULT_DB_ALIAS!r} "
            "has sessions too, which no redaction, erasure or deletion reaches",
            hint="With the settings of before, copy them with manage.py dumpdata agent_sessions, "
            "and drop their tables with manage.py migrate agent_sessions zero.",
            id="agent_sessions.W024",
        )
    ]


def _has_rows(model: type[Model], alias: str) -> bool:
    """Return whether a database has the model's table, with rows; False if it is unavailable."""
    try:
        tables = connections[alias].introspection.table_names()
        return model._meta.db_table in tables and model._default_manager.using(alias).exists()
    except DatabaseError:
        # Which the command itself reports.
        return False


@register(Tags.models)
@requires_valid("DATABASE", "FULL_TEXT_SEARCH", "MAX_CONNECTIONS")
def check_storage(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the database of the sessions: locks, isolation, pool, full-text search."""
    alias = bridge.database()
    if alias not in connections:
        return []
    problems: list[CheckMessage] = []
    if not connection_state.commits(alias):
        problems.append(
            Error(
                f"The sessions are in {alias!r}, on which Django commits nothing: messages would "
                "be lost, so every write is refused",
                hint="Remove 'AUTOCOMMIT': False from DATABASES, or name another alias of the "
                "database, without it, in AGENT_SESSIONS['DATABASE'].",
                id="agent_sessions.E011",
            )
        )
    configuration = connections[alias].settings_dict
    if connections[alias].vendor == "sqlite":
        problems += _check_sqlite_version(alias)
    if connections[alias].vendor == "sqlite" and (
        configuration.get("OPTIONS", {}).get("transaction_mode", "") or ""
    ).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        problems.append(
            CheckWarning(
                f"The sessions are in the SQLite database {alias!r}, whose transactions do not "
                "acquire the write lock when they begin: concurrent writers fail with "
                "'database is locked'",
                hint="Set OPTIONS = {'transaction_mode': 'IMMEDIATE', 'timeout': 20, "
                "'init_command': 'PRAGMA journal_mode=WAL;'}.",
                id="agent_sessions.W001",
            )
        )
    if connections[alias].vendor == "postgresql":
        problems += _check_pool(alias, configuration.get("OPTIONS", {}).get("pool"))
        problems += _check_isolation(alias, configuration.get("OPTIONS", {}))
    if conf.get_settings().FULL_TEXT_SEARCH and connections[alias].vendor != "postgresql":
        problems.append(
            CheckWarning(
                f"AGENT_SESSIONS['FULL_TEXT_SEARCH'] is set, but the sessions are in {alias!r}, "
                "which is not PostgreSQL: only the newest messages are searched, without an index",
                hint="Remove the setting, or keep the sessions in PostgreSQL.",
                id="agent_sessions.W003",
            )
        )
    return problems


def _check_sqlite_version(alias: str) -> list[CheckMessage]:
    """Check that SQLite has ``RETURNING``, without which no message can be written."""
    # Imported here because a Python for servers may be built without it.
    import sqlite3

    if sqlite3.sqlite_version_info >= _OLDEST_SQLITE:
        return []
    oldest = ".".join(map(str, _OLDEST_SQLITE))
    return [
        Error(
            f"The sessions are in the SQLite database {alias!r}, and this Python has SQLite "
            f"{sqlite3.sqlite_version}: no message can be written",
            hint=f"Use a Python with SQLite {oldest} or newer, or another database.",
            id="agent_sessions.E017",
        )
    ]


def _check_isolation(alias: str, options: Mapping[str, Any]) -> list[CheckMessage]:
    """Check that a transaction of PostgreSQL that waited for a session's row sees it as it is."""
    # Imported here because it loads PostgreSQL's driver.
    from django.db.backends.postgresql.psycopg_any import IsolationLevel

    strict: dict[Any, str] = {level: level.name.replace("_", " ") for level in IsolationLevel}
    del strict[IsolationLevel.READ_UNCOMMITTED], strict[IsolationLevel.READ_COMMITTED]
    given = str(options.get("options", "")).upper()
    level = strict.get(options.get("isolation_level")) or next(
        # As in "-c default_transaction_isolation=repeatable\\ read".
        (name for name in strict.values() if f"ISOLATION={name.split()[0]}" in given),
        None,
    )
    if level is None:
        return []
    return [
        CheckWarning(
            f"The transactions of {alias!r} are {level}: one that began before a redaction may "
            "write the redacted text again, and concurrent writers fail more often",
            hint="Remove the isolation level from OPTIONS: READ COMMITTED is Django's default. Set "
            "a stricter one only in the transactions that need it.",
            id="agent_sessions.W012",
        )
    ]


def _check_pool(alias: str, pool: Any) -> list[CheckMessage]:
    """Check psycopg's pool: requests hold connections while their agents wait for one."""
    if not pool:
        return []
    options = pool if isinstance(pool, Mapping) else {}
    size = options.get("max_size") or options.get("min_size", _PSYCOPG_POOL_SIZE)
    agent_connections = conf.get_settings().MAX_CONNECTIONS
    if size > agent_connections:
        return []
    return [
        CheckWarning(
            f"The pool of {alias!r} has {size} connections, and agents may use "
            f"{agent_connections} of them: concurrent requests can hold all connections while "
            "their agents wait for one, which is a deadlock",
            hint="Set OPTIONS = {'pool': {'max_size': …}} to the number of concurrent requests per "
            f"process plus MAX_CONNECTIONS ({agent_connections}).",
            id="agent_sessions.W009",
        )
    ]


# psycopg's default pool size.


_PSYCOPG_POOL_SIZE = 4
