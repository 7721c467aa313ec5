"""A process that stores messages beside others.

``python -m tests.rest.chat.assistant_ui.worker SESSION COUNT NAMED``
"""

from __future__ import annotations

import sys
from uuid import UUID

import django

django.setup()

from django_agent_sessions.models import Session
from django_agent_sessions.rest.chat.assistant_ui.thread_writer import ThreadWriter
from django_agent_sessions.store import SessionStore


def main(session: str, count: int, named: bool) -> None:
    row = Session.objects.get(pk=UUID(session))
    keeper = ThreadWriter(SessionStore(owner=row.owner), row)
    print("ready")
    sys.stdin.readline()
    parent = None
    for number in range(count):
        content = {"role": "user", "parts": [{"type": "text", "text": f"words {number}"}]}
        if named:
            content["id"] = f"m-{number}"
        parent = keeper.keep(parent, "ai-sdk/v6", content)
        print(parent)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "named")
