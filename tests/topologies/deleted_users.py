"""Delete users of a project with two databases; prints what is left. See ``owner_removal``."""

from __future__ import annotations

import json
import sys
from typing import Any

from .two_databases import set_up


def outcomes() -> dict[str, Any]:
    from django.contrib.auth.models import User
    from django.db import transaction
    from django.test import override_settings

    from django_agent_sessions import audit
    from django_agent_sessions.models import AuditEvent, Session
    from django_agent_sessions.testing import make_session

    root = User.objects.create_superuser("root")

    def deleted(name: str) -> tuple[list[Any], list[Any]]:
        user = User.objects.create_user(name)
        row = make_session("Hello", owner=user, session_id="s", using="agents")
        with transaction.atomic():
            # The actor's block ends before the commit.
            with audit.acting(root):
                user.delete()
            assert Session.objects.using("agents").get(pk=row.pk).owner_id is not None
        left = Session.objects.using("agents").values_list("session_id", "owner")
        events = AuditEvent.objects.using("agents").filter(session=row.pk)
        return list(left), list(events.order_by("pk").values_list("action", "actor"))

    settings = {"DATABASE": "agents", "KEEP_SESSIONS_OF_DELETED_USERS": True}
    with override_settings(AGENT_SESSIONS=settings):
        kept, events = deleted("ada")
    Session.objects.using("agents").all().delete()
    gone, events_of_deletion = deleted("bob")
    return {
        "kept": kept,
        "events": events,
        "deleted": gone,
        "events of deletion": events_of_deletion,
    }


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
