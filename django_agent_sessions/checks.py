"""System checks: what would go wrong later, said at start."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.core.files.storage import FileSystemStorage, storages
from django.db import DatabaseError, connections, router
from django.db.models import Model

from . import bridge, conf
from .exceptions import ConfigurationError

_Check = Callable[..., list[CheckMessage]]


def _reading(*keys: str) -> Callable[[_Check], _Check]:
    """Keeps a check from reading values that are wrong in themselves, which is E001's to say.

    What is wrong with other keys does not keep it: whoever mends the settings sees all at once.
    """

    def decorated(check: _Check) -> _Check:
        @functools.wraps(check)
        def checked(
            app_configs: Sequence[AppConfig] | None = None, **kwargs: Any
        ) -> list[CheckMessage]:
            return check(app_configs, **kwargs) if _are_sound(*keys) else []

        return checked

    return decorated


def _are_sound(*keys: str) -> bool:
    given = _given()
    if not isinstance(given, Mapping):
        return False
    return not conf.problems({key: given[key] for key in keys if key in given})


def _given() -> object:
    return getattr(settings, conf.SETTING, {})


@register
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Checks ``AGENT_SESSIONS``: unknown keys, wrong types, an alias that does not exist."""
    found: list[CheckMessage] = [
        Error(message, hint=hint, id="agent_sessions.E001")
        for message, hint in conf.problems(_given())
    ]
    for key in filter(_are_sound, ("DATABASE", "LISTEN_DATABASE", "REPLICA_DATABASE")):
        alias = getattr(conf.get_settings(), key)
        # An empty one asks the routers, as none does; of the others it would be an alias.
        if key == "DATABASE" and not alias:
            continue
        if alias is not None and alias not in connections:
            found.append(
                Error(
                    f"AGENT_SESSIONS[{key!r}] names {alias!r}, which DATABASES does not have",
                    hint=f"DATABASES has: {', '.join(sorted(connections))}.",
                    id="agent_sessions.E002",
                )
            )
    return found


@register
@_reading("DATABASE", "REPLICA_DATABASE")
def check_replica(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Checks that a replica is read at all, and that people see what they have just written."""
    found: list[CheckMessage] = []
    if conf.get_settings().REPLICA_DATABASE is None:
        return found
    if _REMEMBERING not in settings.MIDDLEWARE:
        found.append(
            CheckWarning(
                "AGENT_SESSIONS['REPLICA_DATABASE'] is set, and nobody remembers who has just "
                "written: a session that somebody makes may be missing in the list after it",
                hint=f"Add {_REMEMBERING!r} to MIDDLEWARE.",
                id="agent_sessions.W006",
            )
        )
    primary = bridge.database()
    if primary in connections and connections[primary].settings_dict["ATOMIC_REQUESTS"]:
        found.append(
            CheckWarning(
                "AGENT_SESSIONS['REPLICA_DATABASE'] is set, and never read: every request is a "
                f"transaction on {primary!r}, which has to see what it wrote",
                hint=f"Take ATOMIC_REQUESTS from DATABASES[{primary!r}].",
                id="agent_sessions.W007",
            )
        )
    return found


_REMEMBERING = "django_agent_sessions.middleware.reading_own_writes"


@register
@_reading("DETECTORS", "REDACT_ON_WRITE")
def check_detectors(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Checks that the detectors that are named are there: a write must not find that out."""
    try:
        # Here, because their many patterns would make every start of Django longer.
        from . import detectors

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
@_reading("CONNECTION_SETUP")
def check_connection_setup(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """Checks that ``CONNECTION_SETUP`` is there: only some of the work would find that out."""
    try:
        bridge.connection_setup()
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint="Give the dotted path of a callable that takes a connection and returns a "
                'context manager, such as "project.tenants.as_tenant".',
                id="agent_sessions.E006",
            )
        ]
    return []


@register
@_reading("DATABASE", "FULL_TEXT_SEARCH")
def check_full_text_search(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """Checks that ``FULL_TEXT_SEARCH`` can be a name, where it is used."""
    # Here, because it imports the models.
    from . import search

    if bridge.database() not in connections:
        return []
    try:
        search.configuration()
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint="It may have letters, digits and underscores, and a schema before a dot. "
                "Take the setting away to search without an index.",
                id="agent_sessions.E007",
            )
        ]
    return []


@register(Tags.database)
@_reading("DATABASE", "FULL_TEXT_SEARCH")
def check_full_text_configuration(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Checks that PostgreSQL has the configuration that ``FULL_TEXT_SEARCH`` names.

    It asks the database, and so runs with ``migrate`` and ``check --database``. It is a warning,
    because an error would stop the very migration that makes a configuration of the project's own.
    """
    from . import search

    alias = bridge.database()
    if alias not in (databases or ()) or check_full_text_search(None):
        return []
    try:
        search.configuration_in_database(alias)
    except ConfigurationError as error:
        return [
            CheckWarning(
                str(error),
                hint="Name one that is there, or make this one: until then every search fails.",
                id="agent_sessions.W008",
            )
        ]
    except DatabaseError:
        # It is away, and whatever comes next says so.
        return []
    return []


@register(Tags.database)
@_reading("DATABASE")
def check_character_sets(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Checks that MariaDB and MySQL take every letter, and compare ids exactly.

    It asks the database, and so runs with ``migrate`` and ``check --database``. It warns, because
    an error would stop the migrations of the whole project.
    """
    # Here, because it imports the models.
    from . import charsets

    alias = bridge.database()
    if alias not in (databases or ()):
        return []
    try:
        found = charsets.look(alias)
    except DatabaseError:
        # It is away, and whatever comes next says so.
        return []
    statements = "\n".join(["Run, when there is little to do:", *found.statements])
    told: list[tuple[str, str, str]] = []
    if found.connection:
        told.append(
            (
                "W010",
                f"The connection to {alias!r} speaks {found.connection}, {_TOO_FEW_LETTERS}",
                "Set OPTIONS = {'charset': 'utf8mb4'}.",
            )
        )
    if found.database:
        told.append(
            (
                "W010",
                f"The database {alias!r} makes tables in {found.database}, {_TOO_FEW_LETTERS}",
                "Before the first migrate: ALTER DATABASE … CHARACTER SET utf8mb4.",
            )
        )
    if found.columns:
        columns = ", ".join(found.columns)
        told.append(
            (
                "W010",
                f"Tables of {alias!r} are not in utf8mb4, {_TOO_FEW_LETTERS}: {columns}",
                statements,
            )
        )
    if found.ids:
        columns = ", ".join(found.ids)
        told.append(
            (
                "W011",
                f"Ids in {alias!r} are not compared exactly, so that two of them can be taken for "
                f"one: {columns}",
                statements,
            )
        )
    return [CheckWarning(what, hint=hint, id=f"agent_sessions.{n}") for n, what, hint in told]


_TOO_FEW_LETTERS = "in which a message with an emoji is refused, or loses it without strict mode"


@register
@_reading("BLOB_STORAGE")
def check_blob_storage(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """Checks where the large binaries of messages go: that it is there, and not for everybody."""
    from .blobs.files import storage_of

    alias = conf.get_settings().BLOB_STORAGE
    if alias is None:
        return []
    try:
        storage: Any = storage_of(alias)
    except ConfigurationError as error:
        return [
            Error(
                str(error),
                hint=f"STORAGES has: {', '.join(sorted(storages.backends))}.",
                id="agent_sessions.E004",
            )
        ]
    if not _is_public(storage):
        return []
    return [
        CheckWarning(
            f"AGENT_SESSIONS['BLOB_STORAGE'] is {alias!r}, whose files anybody may fetch who knows "
            "their names: they are parts of conversations",
            hint="Use a storage of its own: outside of MEDIA_ROOT, or a private bucket "
            "(querystring_auth True, no public default_acl).",
            id="agent_sessions.W004",
        )
    ]


@register
@_reading("BLOB_PREFIX")
def check_blob_prefix(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Checks that ``BLOB_PREFIX`` is a folder in the storage, whatever the storage is."""
    prefix = conf.get_settings().BLOB_PREFIX
    parts = prefix.strip("/").split("/")
    odd = "\\" in prefix or not prefix.isprintable() or len(prefix) > _MAX_PREFIX
    if not odd and (parts == [""] or not {"", ".", ".."} & set(parts)):
        return []
    return [
        Error(
            f"AGENT_SESSIONS['BLOB_PREFIX'] is {prefix!r}, which no storage takes for a folder in "
            "it: a message with a large binary could not be written",
            hint='Give names of folders with "/" between them, such as "agent_sessions"; "" is '
            f"the storage's own folder. They may have {_MAX_PREFIX} characters.",
            id="agent_sessions.E005",
        )
    ]


_MAX_PREFIX = 150


@register(Tags.database)
@_reading("DATABASE", "BLOB_STORAGE")
def check_blobs_left(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Checks that nobody takes ``BLOB_STORAGE`` away from under what is stored there.

    It asks the database, and so runs with ``migrate`` and ``check --database``.
    """
    from .models import Blob

    alias = bridge.database()
    if conf.get_settings().BLOB_STORAGE is not None or alias not in (databases or ()):
        return []
    try:
        left = Blob.objects.using(alias).exists()
    except DatabaseError:
        # Before the first migration.
        return []
    if not left:
        return []
    return [
        CheckWarning(
            "AGENT_SESSIONS['BLOB_STORAGE'] is not set, but messages refer to binaries in a "
            "storage: what is popped, cleared or replaced now leaves its files behind",
            hint="Set it again; to store no more binaries, raise BLOB_MIN_BYTES instead.",
            id="agent_sessions.W005",
        )
    ]


def _is_public(storage: Any) -> bool:
    if isinstance(storage, FileSystemStorage):
        media = os.path.abspath(settings.MEDIA_ROOT) if settings.MEDIA_ROOT else None
        return media is not None and Path(storage.location).is_relative_to(media)
    acl = getattr(storage, "default_acl", None) or ""
    return getattr(storage, "querystring_auth", True) is False or acl.startswith("public")


@register(Tags.models)
@_reading("DATABASE", "FULL_TEXT_SEARCH", "MAX_CONNECTIONS")
def check_storage(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Checks where the sessions are kept: SQLite's locking, the pool, owners, full-text search."""
    alias = bridge.database()
    if alias not in connections:
        return []
    found: list[CheckMessage] = []
    configuration = connections[alias].settings_dict
    if connections[alias].vendor == "sqlite" and (
        configuration.get("OPTIONS", {}).get("transaction_mode", "") or ""
    ).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        found.append(
            CheckWarning(
                f"The sessions are in the SQLite database {alias!r}, whose transactions do not "
                "take the write lock at their start: two writers at once fail with "
                "'database is locked'",
                hint="Set OPTIONS = {'transaction_mode': 'IMMEDIATE', 'timeout': 20, "
                "'init_command': 'PRAGMA journal_mode=WAL;'}.",
                id="agent_sessions.W001",
            )
        )
    if connections[alias].vendor == "postgresql":
        found += _about_pool(alias, configuration.get("OPTIONS", {}).get("pool"))
    found += _about_owners(alias)
    if conf.get_settings().FULL_TEXT_SEARCH and connections[alias].vendor != "postgresql":
        found.append(
            CheckWarning(
                f"AGENT_SESSIONS['FULL_TEXT_SEARCH'] is set, but the sessions are in {alias!r}, "
                "which is not PostgreSQL: the newest messages are searched, without an index",
                hint="Take the setting away, or keep the sessions in PostgreSQL.",
                id="agent_sessions.W003",
            )
        )
    return found


def _about_pool(alias: str, pool: Any) -> list[CheckMessage]:
    """Looks at psycopg's pool: requests hold its connections while their agents wait for one."""
    if not pool:
        return []
    options = pool if isinstance(pool, Mapping) else {}
    size = options.get("max_size") or options.get("min_size", _PSYCOPGS_POOL)
    ours = conf.get_settings().MAX_CONNECTIONS
    if size > ours:
        return []
    return [
        CheckWarning(
            f"The pool of {alias!r} has {size} connections, and agents may take {ours} of them: as "
            "many requests at once can hold all, each waiting for its agent, which waits for one",
            hint="Set OPTIONS = {'pool': {'max_size': …}} to the requests that a process serves at "
            f"once and MAX_CONNECTIONS ({ours}) together.",
            id="agent_sessions.W009",
        )
    ]


# What psycopg makes the size of a pool that says none.
_PSYCOPGS_POOL = 4


def _about_owners(alias: str) -> list[CheckMessage]:
    """Looks at where the users are: a session's owner is a foreign key to one.

    It asks the routers and no database. What they say of a table is right where they let Django
    make the other one in the same place; else somebody makes the tables without Django.
    """
    from django.contrib.auth import get_user_model

    from .models import Session

    user = get_user_model()
    users = router.db_for_write(user)
    if users == alias:
        return []
    apart = f"The sessions are in {alias!r} and the users in {users!r}"
    broken = []
    if _keeps_out(user, alias, beside=Session):
        broken.append(f"{alias!r} has no table of users, without which no session is written")
    if _keeps_out(Session, users, beside=user):
        broken.append(f"{users!r} has no table of sessions, without which no user is deleted")
    if broken:
        return [
            Error(
                f"{apart}, and the routers keep their tables apart: {'; '.join(broken)}",
                hint="Keep both in one database: a session's owner is a foreign key. In two, only "
                "sessions without owners work, and only where allow_migrate of your routers lets "
                "the tables of all apps be made in both.",
                id="agent_sessions.E008",
            )
        ]
    return [
        CheckWarning(
            f"{apart}: a session's owner is a foreign key, which cannot cross databases",
            hint="Keep both in one database. In two, only sessions without owners work.",
            id="agent_sessions.W002",
        )
    ]


def _keeps_out(model: type[Model], alias: str, *, beside: type[Model]) -> bool:
    """Tells whether a database is to have the one table and not the other."""
    return router.allow_migrate_model(alias, beside) and not router.allow_migrate_model(
        alias, model
    )
