"""Which database it is."""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper


def vendor_of(connection: BaseDatabaseWrapper) -> str:
    """Names the database as Django does, and MariaDB apart from MySQL."""
    # Only MySQL's backend has the attribute, which the type of all backends does not know.
    if connection.vendor == "mysql" and connection.mysql_is_mariadb:  # type: ignore[attr-defined] # see above
        return "mariadb"
    return connection.vendor
