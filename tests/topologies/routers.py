"""Routers of projects with two databases: where their tables are, and where rows go."""

from __future__ import annotations

from django.db.models import Model

APPS_OF_USERS = {"admin", "auth", "contenttypes", "sessions"}


class RowsElsewhere:
    """Sends the sessions to a database of their own; all tables are made in both."""

    def db_for_read(self, model: type[Model], **hints: object) -> str | None:
        """Tells where the rows of a model are."""
        return "agents" if model._meta.app_label == "agent_sessions" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        """Has nothing to say of tables."""
        return None


class SessionsOnlyElsewhere(RowsElsewhere):
    """The tables of the sessions are made there only, and whatever else in both."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        """Tells where tables are made."""
        return db == "agents" if app_label == "agent_sessions" else None


class Apart(RowsElsewhere):
    """Each table is made in one database only."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        """Tells where tables are made."""
        return db == ("agents" if app_label == "agent_sessions" else "default")


class UsersOnlyHere(RowsElsewhere):
    """The tables of the sessions are made in both, and whatever else in one."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        """Tells where tables are made."""
        return None if app_label == "agent_sessions" else db == "default"


class Unmanaged(RowsElsewhere):
    """Django makes no table in the database of the sessions: somebody else does."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        """Tells where tables are made."""
        return None if db == "default" else False


class UsersToo:
    """Sessions and users are elsewhere, together."""

    def db_for_read(self, model: type[Model], **hints: object) -> str:
        """Tells where the rows of a model are."""
        there = {"agent_sessions", *APPS_OF_USERS}
        return "agents" if model._meta.app_label in there else "default"

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        """Tells where tables are made."""
        return db == ("agents" if app_label in {"agent_sessions", *APPS_OF_USERS} else "default")


class ReadsElsewhere:
    """Reads everything from a replica, in which no table is made."""

    def db_for_read(self, model: type[Model], **hints: object) -> str:
        """Tells where rows are read."""
        return "agents"

    def db_for_write(self, model: type[Model], **hints: object) -> str:
        """Tells where rows are written."""
        return "default"

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        """Tells where tables are made."""
        return db == "default"


class ReplicaRouter:
    """The router of docs/how-to/topologies.md."""

    def db_for_read(self, model: type[Model], **hints: object) -> str | None:
        """Tells where rows are read."""
        return "replica" if model._meta.app_label == "agent_sessions" else None

    def db_for_write(self, model: type[Model], **hints: object) -> str | None:
        """Tells where rows are written."""
        return "default" if model._meta.app_label == "agent_sessions" else None

    def allow_relation(self, first: Model, second: Model, **hints: object) -> bool:
        """Lets rows of both refer to each other."""
        return True

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        """Tells where tables are made."""
        return False if db == "replica" else None
