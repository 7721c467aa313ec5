"""System checks of the settings and the databases."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.core.files.storage import storages
from django.db import DatabaseError, connections, router
from django.db.models import Model

from django_agent_sessions import conf
from django_agent_sessions.content import dialects
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import ConfigurationError

_Check = Callable[..., list[CheckMessage]]


def _requires_valid(*keys: str) -> Callable[[_Check], _Check]:
    """Skip a check if one of the keys that it reads is invalid, which ``E001`` reports.

    Invalid values of other keys do not skip it, so that all problems are reported at once.
    """

    def decorated(check: _Check) -> _Check:
        @functools.wraps(check)
        def checked(
            app_configs: Sequence[AppConfig] | None = None, **kwargs: Any
        ) -> list[CheckMessage]:
            return check(app_configs, **kwargs) if conf.are_valid(*keys) else []

        return checked

    return decorated


@register
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check ``AGENT_SESSIONS`` for unknown keys, wrong types and unknown aliases."""
    problems: list[CheckMessage] = [
        Error(message, hint=hint, id="agent_sessions.E001")
        for message, hint in conf.problems(conf.raw_settings())
    ]
    for key in filter(conf.are_valid, ("DATABASE", "LISTEN_DATABASE", "REPLICA_DATABASE")):
        alias = getattr(conf.get_settings(), key)
        # An empty DATABASE asks the routers, like None; the other keys must name an alias.
        if key == "DATABASE" and not alias:
            continue
        if alias is not None and alias not in connections:
            problems.append(
                Error(
                    f"AGENT_SESSIONS[{key!r}] is {alias!r}, which is not an alias in DATABASES",
                    hint=f"The aliases in DATABASES are: {', '.join(sorted(connections))}.",
                    id="agent_sessions.E002",
                )
            )
    return problems


@register
@_requires_valid("DATABASE", "REPLICA_DATABASE")
def check_replica(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the replica is read at all, and that users see their own writes."""
    problems: list[CheckMessage] = []
    if conf.get_settings().REPLICA_DATABASE is None:
        return problems
    if _MIDDLEWARE not in settings.MIDDLEWARE:
        problems.append(
            CheckWarning(
                "AGENT_SESSIONS['REPLICA_DATABASE'] is set without the middleware that lets users "
                "read their own writes: a new session may be missing from its user's list",
                hint=f"Add {_MIDDLEWARE!r} to MIDDLEWARE.",
                id="agent_sessions.W006",
            )
        )
    primary = bridge.database()
    if primary in connections and connections[primary].settings_dict["ATOMIC_REQUESTS"]:
        problems.append(
            CheckWarning(
                "AGENT_SESSIONS['REPLICA_DATABASE'] is set, but the replica is never used: every "
                f"request is a transaction on {primary!r} and must read its own writes",
                hint=f"Remove ATOMIC_REQUESTS from DATABASES[{primary!r}].",
                id="agent_sessions.W007",
            )
        )
    return problems


_MIDDLEWARE = "django_agent_sessions.serving.middleware.reading_own_writes"


@register
@_requires_valid("DETECTORS", "REDACT_ON_WRITE")
def check_detectors(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the configured detectors exist, so that no write fails because of them."""
    try:
        # Imported here because compiling their patterns would slow down every start of Django.
        from django_agent_sessions.content import detectors

        detectors.names()
        detectors.load(conf.get_settings().REDACT_ON_WRITE)
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint="See AGENT_SESSIONS['DETECTORS'] and AGENT_SESSIONS['REDACT_ON_WRITE'].",
                id="agent_sessions.E003",
            )
        ]
    return []


@register
@_requires_valid("DIALECTS")
def check_dialects(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the configured message formats exist; without them transcripts show JSON."""
    problems: list[CheckMessage] = []
    for path in conf.get_settings().DIALECTS:
        try:
            dialects.load(path)
        except Exception as error:
            problems.append(
                Error(
                    f"AGENT_SESSIONS['DIALECTS'] has {path!r}, which cannot be loaded: {error}",
                    hint="Set it to the dotted paths of subclasses of "
                    "django_agent_sessions.content.dialects.Dialect.",
                    id="agent_sessions.E009",
                )
            )
    return problems


@register
@_requires_valid("CONNECTION_SETUP")
def check_connection_setup(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that ``CONNECTION_SETUP`` can be imported: only some calls would fail without it."""
    try:
        bridge.connection_setup()
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint="Set it to the dotted path of a callable that takes a connection and returns "
                'a context manager, such as "project.tenants.as_tenant".',
                id="agent_sessions.E006",
            )
        ]
    return []


@register
@_requires_valid("DATABASE", "FULL_TEXT_SEARCH")
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
@_requires_valid("DATABASE", "FULL_TEXT_SEARCH")
def check_full_text_configuration(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that PostgreSQL has the configuration that ``FULL_TEXT_SEARCH`` names.

    Queries the database, and so runs with ``migrate`` and ``check --database``. A warning, because
    an error would stop the migration that creates a configuration of the project.
    """
    from django_agent_sessions.queries import search

    alias = bridge.database()
    if alias not in (databases or ()) or check_full_text_search(None):
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
    except DatabaseError:
        # The database is unavailable, which the command itself reports.
        return []
    return []


@register(Tags.database)
@_requires_valid("DATABASE")
def check_character_sets(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that MariaDB and MySQL store every character and compare ids exactly.

    Queries the database, and so runs with ``migrate`` and ``check --database``. A warning, because
    an error would stop the migrations of the whole project.
    """
    # Imported here because it imports the models.
    from django_agent_sessions.sql import charsets

    alias = bridge.database()
    if alias not in (databases or ()):
        return []
    try:
        charset = charsets.inspect_charsets(alias)
    except DatabaseError:
        # The database is unavailable, which the command itself reports.
        return []
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


@register
@_requires_valid("BLOB_STORAGE")
def check_blob_storage(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that the storage of large binaries exists and is not public."""
    from django_agent_sessions.blobs import blob_files

    alias = conf.get_settings().BLOB_STORAGE
    if alias is None:
        return []
    try:
        storage = blob_files.get_storage(alias)
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint=f"The aliases in STORAGES are: {', '.join(sorted(storages.backends))}.",
                id="agent_sessions.E004",
            )
        ]
    if not blob_files.is_public(storage):
        return []
    return [
        CheckWarning(
            f"AGENT_SESSIONS['BLOB_STORAGE'] is {alias!r}, which is public: anyone who knows a "
            "file's name can read this part of a conversation",
            hint="Use a separate storage: outside of MEDIA_ROOT, or a private bucket "
            "(querystring_auth True, no public default_acl).",
            id="agent_sessions.W004",
        )
    ]


@register
@_requires_valid("BLOB_PREFIX")
def check_blob_prefix(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that ``BLOB_PREFIX`` is a folder in any kind of storage."""
    from django_agent_sessions.blobs import blob_files

    prefix = conf.get_settings().BLOB_PREFIX
    if blob_files.is_valid_prefix(prefix):
        return []
    return [
        Error(
            f"AGENT_SESSIONS['BLOB_PREFIX'] is {prefix!r}, which is not a valid folder in a "
            "storage: messages with large binaries could not be written",
            hint='Use folder names separated by "/", such as "agent_sessions", or "" for the root '
            f"of the storage; at most {blob_files.MAX_PREFIX_LENGTH} characters.",
            id="agent_sessions.E005",
        )
    ]


@register(Tags.database)
@_requires_valid("DATABASE", "BLOB_STORAGE")
def check_orphaned_blobs(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that ``BLOB_STORAGE`` is not removed while messages refer to files in a storage.

    Queries the database, and so runs with ``migrate`` and ``check --database``.
    """
    from django_agent_sessions.models import Blob

    alias = bridge.database()
    if conf.get_settings().BLOB_STORAGE is not None or alias not in (databases or ()):
        return []
    try:
        exists = Blob.objects.using(alias).exists()
    except DatabaseError:
        # Before the first migration.
        return []
    if not exists:
        return []
    return [
        CheckWarning(
            "AGENT_SESSIONS['BLOB_STORAGE'] is not set, but messages refer to binaries in a "
            "storage: deleting or replacing such a message leaves its files as orphans",
            hint="Set it again; to store no further binaries, increase BLOB_MIN_BYTES instead.",
            id="agent_sessions.W005",
        )
    ]


@register(Tags.models)
@_requires_valid("DATABASE", "FULL_TEXT_SEARCH", "MAX_CONNECTIONS")
def check_storage(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the database of the sessions: SQLite's locking, the pool, owners, full-text search."""
    alias = bridge.database()
    if alias not in connections:
        return []
    problems: list[CheckMessage] = []
    configuration = connections[alias].settings_dict
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
    problems += _check_user_database(alias)
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


def _check_user_database(alias: str) -> list[CheckMessage]:
    """Check that users and sessions share a database: a session's owner is a foreign key.

    Asks the routers, not the databases. Their answer about a table is right only if they let Django
    create the other table in the same database; otherwise the tables are created without Django.
    """
    from django.contrib.auth import get_user_model

    from django_agent_sessions.models import Session

    user = get_user_model()
    users = router.db_for_write(user)
    if users == alias:
        return []
    prefix = f"The sessions are in {alias!r} and the users in {users!r}"
    problems = []
    if _is_excluded(user, alias, beside=Session):
        problems.append(f"{alias!r} has no table of users, so sessions cannot be written")
    if _is_excluded(Session, users, beside=user):
        problems.append(f"{users!r} has no table of sessions, so users cannot be deleted")
    if problems:
        return [
            Error(
                f"{prefix}, and the routers separate their tables: {'; '.join(problems)}",
                hint="Keep both in one database: a session's owner is a foreign key. With two "
                "databases only sessions without owners work, and only if allow_migrate of your "
                "routers creates the tables of all apps in both.",
                id="agent_sessions.E008",
            )
        ]
    return [
        CheckWarning(
            f"{prefix}: a session's owner is a foreign key, which cannot cross databases",
            hint="Keep both in one database. With two, only sessions without owners work.",
            id="agent_sessions.W002",
        )
    ]


def _is_excluded(model: type[Model], alias: str, *, beside: type[Model]) -> bool:
    """Return whether the routers create the table ``beside`` in a database, but not this one."""
    return router.allow_migrate_model(alias, beside) and not router.allow_migrate_model(
        alias, model
    )
