"""A project with two databases and this package's router; prints what works in it."""

from __future__ import annotations

import json
import sys
from typing import Any

from .two_databases import set_up


def outcomes() -> dict[str, Any]:
    from django.contrib.auth.models import User
    from django.db import connections
    from django.test import Client

    from django_agent_sessions.models import Session
    from django_agent_sessions.store import SessionStore

    ada = User.objects.create_superuser("ada")
    bob = User.objects.create_user("bob")
    SessionStore(owner=ada).open("s")
    session = Session.objects.get()
    owner = session.owner
    browser = Client(raise_request_exception=False)
    browser.force_login(ada)
    api = browser.get("/api/sessions/").status_code
    admin = browser.get("/admin/agent_sessions/session/").status_code
    orm = [row.session_id for row in Session.objects.owned_by(ada)]
    own = [row.session_id for row in User.objects.get(username="ada").owned_agent_sessions.all()]
    named = User.objects.get(pk__in=Session.objects.values_list("owner", flat=True)[::1])
    session.owner = bob
    session.save()
    assigned = Session.objects.get().owner
    return {
        "the ORM": orm,
        "the user's": own,
        "the owner": owner and owner.get_username(),
        "by name": named.get_username(),
        "assigned": assigned and assigned.get_username(),
        "API": api,
        "admin": admin,
        "tables of users there": _tables(connections["agents"], "auth_"),
        "tables of sessions here": _tables(connections["default"], "agent_sessions_"),
    }


def _tables(connection: Any, prefix: str) -> list[str]:
    names = connection.introspection.table_names()
    return sorted(name for name in names if name.startswith(prefix))


def main() -> None:
    [router] = sys.argv[1:]
    set_up(None, {"DATABASE": "agents"}, path=router)
    from django.test.utils import setup_databases, setup_test_environment, teardown_databases

    setup_test_environment()
    made = setup_databases(verbosity=0, interactive=False)
    try:
        print(json.dumps(outcomes()))
    finally:
        teardown_databases(made, verbosity=0)


if __name__ == "__main__":
    main()
