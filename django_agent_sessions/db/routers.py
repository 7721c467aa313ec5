"""A database router for a project that keeps its sessions in a database of their own."""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS, router
from django.db.models import Model

from django_agent_sessions import conf

APP_LABEL = "agent_sessions"


class SessionsRouter:
    """Sends the rows of this app to ``AGENT_SESSIONS["DATABASE"]``, and creates its tables there.

    ::

        DATABASE_ROUTERS = ["django_agent_sessions.db.routers.SessionsRouter"]

    Only the tables of this app are created in that database, unless it is ``default``. A router
    that permits others there comes before this one in the list.
    """

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        """Return the alias for the rows of a model; None leaves the choice to other routers."""
        if model._meta.app_label == APP_LABEL:
            return conf.get_settings().DATABASE
        if _is_ours(hints.get("instance")):
            # Of a session's owner, Django would ask the database of the session.
            return router.db_for_read(model)
        return None

    def db_for_write(self, model: type[Model], **hints: Any) -> str | None:
        """Return the alias for new rows of a model."""
        if model._meta.app_label == APP_LABEL:
            return conf.get_settings().DATABASE
        return router.db_for_write(model) if _is_ours(hints.get("instance")) else None

    def allow_relation(self, left: Model, right: Model, **hints: Any) -> bool | None:
        """Permit relations of rows of this app with users in another database."""
        return True if _is_ours(left) or _is_ours(right) else None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        """Return whether tables of an app are created in a database."""
        settings = conf.get_settings()
        if settings.DATABASE is None:
            return None
        if app_label == APP_LABEL:
            # The last two are other aliases of a database, or have the tables for the keys only.
            others = (settings.LISTEN_DATABASE, (settings.ENCRYPTION or {}).get("KEY_DATABASE"))
            return db in (settings.DATABASE, *others)
        return False if db == settings.DATABASE != DEFAULT_DB_ALIAS else None


def _is_ours(row: object) -> bool:
    return isinstance(row, Model) and row._meta.app_label == APP_LABEL
