"""The vendor of a database."""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper


def database_vendor(connection: BaseDatabaseWrapper) -> str:
    """Return Django's name of the vendor, with MariaDB told apart from MySQL."""
    # Only MySQL's backend has the attribute, so the type of all backends does not declare it.
    if connection.vendor == "mysql" and connection.mysql_is_mariadb:  # type: ignore[attr-defined] # see above
        return "mariadb"
    return connection.vendor
