"""System checks of the storage of large binaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.core.files.storage import storages
from django.db import DatabaseError

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import ConfigurationError

from .settings import requires_valid


@register
@requires_valid("BLOB_STORAGE", "EXPORT_STORAGE")
def check_blob_storage(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that the storages of large binaries and of exports exist and are not public."""
    settings = conf.get_settings()
    return [
        *_storage_problems("BLOB_STORAGE", settings.BLOB_STORAGE),
        *_storage_problems("EXPORT_STORAGE", settings.EXPORT_STORAGE),
    ]


def _storage_problems(setting: str, alias: str | None) -> list[CheckMessage]:
    from django_agent_sessions.blobs import blob_files

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
    if blob_files.has_no_folder(storage):
        return [
            CheckWarning(
                f"AGENT_SESSIONS[{setting!r}] is {alias!r}, which names no folder: each process "
                "writes to the directory in which it was started, and does not find the files of "
                "others",
                hint="Set the storage's location to an absolute path outside of MEDIA_ROOT.",
                id="agent_sessions.W025",
            )
        ]
    if not blob_files.is_public(storage):
        return []
    return [
        CheckWarning(
            f"AGENT_SESSIONS[{setting!r}] is {alias!r}, which is public: anyone who knows a "
            "file's name can read this part of a conversation",
            hint="Use a separate storage: outside of MEDIA_ROOT, or a private bucket "
            "(querystring_auth True, no public default_acl).",
            id="agent_sessions.W004",
        )
    ]


@register
@requires_valid("BLOB_PREFIX")
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
@requires_valid("DATABASE", "BLOB_STORAGE")
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
