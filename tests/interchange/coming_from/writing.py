"""What the programs share that write a database with a package's own code.

The packages need Python 3.12. The databases in this folder were written by these programs, from the
repository's root::

    python -m tests.interchange.coming_from.write_agentic_django FOLDER
    python -m tests.interchange.coming_from.write_openai_django_sessions FOLDER

Where a package is installed, tests run its program and use the database that it writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection


def set_up(database: Path, **more: Any) -> None:
    """Starts a project of users and a package, with a new database."""
    database.unlink(missing_ok=True)
    settings.configure(
        SECRET_KEY="test",
        USE_TZ=True,
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            *more.pop("apps", ()),
        ],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": database,
                # Small pages for a small file.
                "OPTIONS": {"init_command": "PRAGMA page_size=1024"},
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        **more,
    )
    django.setup()
    call_command("migrate", verbosity=0)


def finish(database: Path, items: dict[str, Any]) -> None:
    """Writes beside the database what the package reads from it."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")
    connection.close()
    database.with_suffix(".json").write_text(json.dumps(items, indent=1) + "\n")
