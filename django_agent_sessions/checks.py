"""System checks: what would go wrong later, said at start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import connections, router

from . import conf


def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Checks ``AGENT_SESSIONS``: unknown keys, wrong types, an alias that does not exist."""
    given = getattr(settings, conf.SETTING, {})
    found: list[CheckMessage] = [
        Error(message, hint=hint, id="agent_sessions.E001")
        for message, hint in conf.problems(given)
    ]
    if not found and (alias := conf.get_settings().DATABASE) and alias not in connections:
        found.append(
            Error(
                f"AGENT_SESSIONS['DATABASE'] names {alias!r}, which DATABASES does not have",
                hint=f"DATABASES has: {', '.join(sorted(connections))}.",
                id="agent_sessions.E002",
            )
        )
    return found


def check_storage(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Checks where the sessions are kept: SQLite's locking, and owners in another database."""
    from django.contrib.auth import get_user_model

    from .models import Session

    alias = conf.get_settings().DATABASE or router.db_for_write(Session)
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
    users = router.db_for_write(get_user_model())
    if users != alias:
        found.append(
            CheckWarning(
                f"The sessions are in {alias!r} and the users in {users!r}: a session's owner "
                "is a foreign key, which cannot cross databases",
                hint="Keep both in one database, or use sessions without owners and a migration "
                "of your own that drops the constraint.",
                id="agent_sessions.W002",
            )
        )
    return found
