"""A project with two databases: what works in it, printed as JSON. See ``test_apart``."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
from django.conf import settings


def set_up(router: str | None, sessions: dict[str, Any], *, path: str = "") -> None:
    here = settings.DATABASES["default"]
    there = copy.deepcopy(here)
    name = here["NAME"]
    there["NAME"] = f"{name}_agents"
    if "sqlite3" in here["ENGINE"]:
        there["NAME"] = str(Path(name).with_name("agents.sqlite3"))
    there["TEST"]["NAME"] = there["NAME"]
    settings.DATABASES["agents"] = there
    path = f"tests.topologies.routers.{router}" if router else path
    settings.DATABASE_ROUTERS = [path] if path else []
    settings.AGENT_SESSIONS = sessions
    django.setup()


def outcomes() -> dict[str, str]:
    from django.contrib.auth import get_user_model
    from django.test import Client
    from django.urls import reverse

    from django_agent_sessions.db import bridge
    from django_agent_sessions.governance import sharing
    from django_agent_sessions.governance.legal_hold import release
    from django_agent_sessions.interchange import export_sessions
    from django_agent_sessions.models import Participant, Session, SessionMessage
    from django_agent_sessions.store import SessionStore

    users = get_user_model().objects
    ada, root = users.create_user("ada"), users.create_superuser("root")
    alias = bridge.database()
    browser = Client(raise_request_exception=False)
    browser.force_login(root)

    def says(store: SessionStore, name: str) -> int:
        agent = store.agents.open(store.open(name), dialect="openai")
        store.append(agent, {"role": "user", "content": "hello"})
        return SessionMessage.objects.using(alias).filter(session__session_id=name).count()

    def page() -> int:
        key = Session.objects.using(alias).get(session_id="nobodys").pk
        return browser.get(reverse("admin:agent_sessions_session_change", args=[key])).status_code

    def names() -> str:
        answer = browser.get("/admin/agent_sessions/session/")
        named = " with names" if b">ada</a>" in answer.content else ""
        return f"{answer.status_code}{named}"

    def listed(user: Any, scope: str) -> int:
        reader = Client(raise_request_exception=False)
        reader.force_login(user)
        return len(reader.get("/api/sessions/", {"scope": scope}).json()["results"])

    def exported() -> str:
        row = Session.objects.using(alias).get(session_id="somebodys")
        line = json.loads("".join(export_sessions([row])))
        return str(line["session"]["owner"]["username"])

    def shared() -> int:
        row = Session.objects.using(alias).get(session_id="nobodys")
        sharing.add_participant(row.pk, ada, "reader")
        return listed(ada, "shared")

    def confirmation() -> str:
        answer = browser.get(reverse("admin:auth_user_delete", args=[ada.pk]))
        named = " with sessions" if b"somebodys" in answer.content else ""
        return f"{answer.status_code}{named}"

    def delete_held() -> None:
        rows = Session.objects.using(alias).filter(session_id="somebodys")
        rows.update(legal_hold=True)
        try:
            ada.delete()
        finally:
            for row in rows:
                release(row.pk, reason="closed", using=alias)

    return {
        "nobody's": outcome(lambda: says(SessionStore(), "nobodys")),
        "somebody's": outcome(lambda: says(SessionStore(owner=ada), "somebodys")),
        "list": outcome(names),
        "page": outcome(page),
        "export": outcome(exported),
        "own": outcome(lambda: listed(ada, "own")),
        "shared": outcome(shared),
        "confirmation": outcome(confirmation),
        "held": outcome(delete_held),
        "user": outcome(lambda: len(ada.delete()) and users.filter(username="ada").count()),
        "sessions": outcome(Session.objects.using(alias).count),
        "participants": outcome(Participant.objects.using(alias).count),
    }


def outcome(function: Callable[[], object]) -> str:
    try:
        return str(function())
    except Exception as error:
        return type(error).__name__


def main() -> None:
    router, sessions = json.loads(sys.argv[1])
    set_up(router, sessions)
    from django.test.utils import setup_databases, setup_test_environment, teardown_databases

    setup_test_environment()
    made = setup_databases(verbosity=0, interactive=False)
    try:
        print(json.dumps(outcomes()))
    finally:
        teardown_databases(made, verbosity=0)


if __name__ == "__main__":
    main()
