"""What the chat's tests find in the example's database: ``python -m tests.browser.chat_seed``.

It runs with the example's settings, in a process of its own.
"""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import django

USERS = ("demo", "grace", "reader", "ada")
"""Who may log in, each with their name as the password."""

MANY = 45
"""How many chats grace has; a page of the list holds 30."""

LONG = 120
"""How many messages reader's long chat has; a page of a chat holds 50."""

_TALKS = (
    ("A weekend in Lisbon", "strands", 5),
    ("What shall I read on the train?", "openai", 8),
    ("Choir on Thursday, and what to bring along", "strands", 26),
    ("My name is Ada. Which appointments do I have on Friday?", "strands", 50),
    ("Snow in Oslo?", "openai", 75),
    ("OpenAI agent", "openai", 120),
)


def main() -> None:
    """Makes the tables, the users, and what they said."""
    django.setup()
    from django.contrib.auth import get_user_model

    from example_project.chat.demo.report import Report
    from example_project.chat.demo.steps import prepare

    prepare(Report(io.StringIO()))
    users = get_user_model().objects
    made = {name: users.create_user(name, password=name) for name in USERS[1:]}
    _many(made["grace"])
    _long(made["reader"])
    _held(made["reader"])
    _graph(users.get(username="demo"))
    _graph(made["reader"])
    for title, agent, hours in _TALKS:
        _talk(made["ada"], title, agent, hours=hours)


def _talk(owner: Any, title: str, agent: str = "strands", *, hours: float = 0) -> Any:
    from django.utils import timezone

    from django_agent_sessions.models import Session
    from django_agent_sessions.store import SessionStore

    store = SessionStore(owner=owner)
    session = store.open(title, title=title, metadata={"agent": agent})
    _say(store, session, [f"Tell me: {title}", "With pleasure."])
    Session.objects.filter(pk=session.id).update(
        last_activity_at=timezone.now() - timedelta(hours=hours)
    )
    return session


def _say(store: Any, session: Any, words: list[str]) -> None:
    agent = store.agents.open(session, "concierge", dialect="strands")
    roles = ("user", "assistant")
    store.append_many(
        agent,
        [
            {"role": roles[number % 2], "content": [{"text": text}]}
            for number, text in enumerate(words)
        ],
    )


def _many(owner: Any) -> None:
    for number in range(MANY):
        _talk(owner, "About zebras" if number == 3 else f"Chat {number}", hours=MANY - number)


def _long(owner: Any) -> None:
    from django_agent_sessions.store import SessionStore

    store = SessionStore(owner=owner)
    session = store.open("long", title="A long chat", metadata={"agent": "strands"})
    _say(store, session, [f"Line {number}." for number in range(LONG)])


def _held(owner: Any) -> None:
    from django_agent_sessions.governance.legal_hold import hold

    hold(_talk(owner, "A held chat").id, reason="A lawsuit")


def _graph(owner: Any) -> None:
    from example_project.chat.strands_agents import trip_graph

    graph = trip_graph(f"trip of {owner}", owner=owner, title="A letter about Lisbon")
    graph("A weekend in Lisbon")


if __name__ == "__main__":
    main()
