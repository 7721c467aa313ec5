"""``python -m tests.upgrades.released``: the database that a release leaves to later versions.

With ``write``, before a release, it makes ``tests/upgrades/<version>.sqlite3.xz`` and, beside it,
what is read from it. With ``read``, it prints what this version reads from ``UPGRADED_DATABASE``.
Only what the documentation publishes is called, so that later versions can run it too.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ITEMS: list[Any] = [
    {"role": "user", "content": "Where to?"},
    {"role": "assistant", "content": "To Lisbon, ça va?"},
]


def main() -> None:
    if sys.argv[1:] == ["read"]:
        _set_up()
        print(json.dumps(_read(), indent=1, sort_keys=True))
        return
    from django_agent_sessions import __version__

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "released.sqlite3")
        os.environ["UPGRADED_DATABASE"] = str(file)
        _set_up()
        _write()
        found = json.dumps(_read(), indent=1, sort_keys=True) + "\n"
        (HERE / f"{__version__}.json").write_text(found, encoding="utf-8")
        (HERE / f"{__version__}.sqlite3.xz").write_bytes(lzma.compress(file.read_bytes()))


def _set_up() -> None:
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.upgrades.settings"
    django.setup()


def _write() -> None:
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection

    from django_agent_sessions.adapters.openai_agents import DjangoSession
    from tests.rest.planted import plant

    call_command("migrate", verbosity=0)
    ada = get_user_model().objects.create_user("ada")
    plant(ada)
    asyncio.run(DjangoSession("chat", owner=ada).add_items(ITEMS))
    _agent(ada, "Here it is.")("Show me the map.")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.execute("VACUUM")


def _agent(owner: Any, *steps: str) -> Any:
    from strands import Agent

    from django_agent_sessions.adapters.strands import DjangoSessionManager
    from tests.adapters.strands.scripted import ScriptedModel

    manager = DjangoSessionManager("travel", owner=owner)
    return Agent(model=ScriptedModel(steps), session_manager=manager, callback_handler=None)


def _read() -> dict[str, Any]:
    from django.contrib.auth import get_user_model

    from django_agent_sessions.adapters.openai_agents import DjangoSession
    from django_agent_sessions.models import AuditEvent, MessageFeedback, Session, Snapshot
    from django_agent_sessions.store import SessionStore

    ada = get_user_model().objects.get(username="ada")
    trail = sorted(AuditEvent.objects.values_list("action", flat=True))
    store = SessionStore(owner=ada)
    [planted] = store.agents.list(store.get("planted"))
    return {
        "agent": planted.data.state,
        "audit": trail,
        "comments": sorted(MessageFeedback.objects.values_list("comment", flat=True)),
        "messages": [repr(found.content) for found in store.messages.list(planted)],
        "restored": repr(_agent(ada).messages),
        "items": asyncio.run(DjangoSession("chat", owner=ada).get_items()),
        "sessions": {row.session_id: [row.title, row.metadata] for row in Session.objects.all()},
        "snapshots": Snapshot.objects.count(),
    }


if __name__ == "__main__":
    main()
