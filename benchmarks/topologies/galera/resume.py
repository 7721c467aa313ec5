"""Goes on with every session at one node, by the SDK that it belongs to; prints how many."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import django

django.setup()

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore

from .journal import labelled
from .writer import talk


def go_on(session: Session, name: str) -> None:
    """Restores a session, adds a turn, and looks whether all of it is there.

    Raises:
        AssertionError: It is not.
    """
    store = SessionStore()
    agent = store.agents.open(store.open(session.session_id), dialect="")
    before = len(store.payloads(agent))
    if agent.dialect == "openai":
        items: Any = [{"role": "user", "content": labelled(f"{name}:0u")}]
        conversation = DjangoSession(session.session_id)
        asyncio.run(conversation.add_items(items))
        after, more = len(asyncio.run(conversation.get_items())), 1
    else:
        after, more = talk(session.session_id, f"{name}:0u"), 2
    # Strands repairs a turn that was cut off: it may add a message, and takes none away.
    assert after >= before + more, f"{session.session_id}: {before} and {more} are {after}"


def main() -> None:
    """Goes on with all of them."""
    sessions = list(Session.objects.order_by("pk"))
    for session in sessions:
        go_on(session, sys.argv[1])
    print(f"{len(sessions)} sessions were restored and went on")


if __name__ == "__main__":
    main()
