"""A project with a database for each tenant, whose first users write; prints JSON.

See ``test_tenants``.
"""

from __future__ import annotations

import json
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import django
from django.conf import settings

tenant = ContextVar("tenant", default="default")


class Router:
    """Chooses the database of the present tenant."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        """Return the alias."""
        return tenant.get()

    db_for_write = db_for_read


def set_up(directory: Path) -> None:
    def database(name: str) -> dict[str, Any]:
        path = str(directory / f"{name}.sqlite3")
        options = {"transaction_mode": "IMMEDIATE", "timeout": 20}
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": options}

    settings.configure(
        DATABASES={"default": database("a"), "b": database("b")},
        DATABASE_ROUTERS=["tests.encryption.tenant_databases.Router"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django_agent_sessions",
        ],
        AGENT_SESSIONS={"ENCRYPTION": {"KEYS": {"one": bytes(range(32))}}},
    )
    django.setup()


def outcomes() -> dict[str, Any]:
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    from django_agent_sessions.content import codec
    from django_agent_sessions.models import DataKey, SessionMessage
    from django_agent_sessions.store import SessionStore
    from tests.encryption import tenant_databases as imported

    found: dict[str, Any] = {}
    for alias in ("default", "b"):
        imported.tenant.set(alias)
        call_command("migrate", database=alias, verbosity=0)
        store = SessionStore(owner=get_user_model().objects.create(pk=1, username=alias))
        agent = store.agents.open(store.open("s"), dialect="openai")
        store.append(agent, {"role": "user", "content": f"in {alias}"})
    # As another process, which has no key in memory.
    installed: Any = codec.installed()
    installed.forget()
    for alias in ("default", "b"):
        imported.tenant.set(alias)
        messages = [row.message["content"] for row in SessionMessage.objects.all()]
        found[alias] = [DataKey.objects.count(), messages]
    return found


if __name__ == "__main__":
    set_up(Path(sys.argv[1]))
    print(json.dumps(outcomes()))
