"""Sessions of every kind, for requests of every kind."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model

from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session, SessionAgent, SessionMessage, Snapshot
from django_agent_sessions.store import SessionStore
from tests.admin.transcripts import call, result, said

from .planted import PIXEL

CARD = "4111 1111 1111 1111"


def seeded(count: int) -> dict[str, list[str]]:
    """Writes sessions of two users.

    Returns:
        Primary keys, and ids of agents, by the parameters that take them.
    """
    users = get_user_model().objects
    ada = users.create_user("ada")
    users.create_superuser("root")
    for number in range(count):
        _conversation(SessionStore(owner=ada), number)
    _conversation(SessionStore(owner=users.create_user("bob")), count)
    mine = Session.objects.filter(owner=ada).exclude(title="")
    doomed = [SessionStore(owner=ada).create(f"doomed {number}") for number in range(5 * count)]
    messages = SessionMessage.objects.filter(session__in=mine)
    agents = SessionAgent.objects.filter(session__in=mine)
    snapshots = Snapshot.objects.filter(session__in=mine)
    return {
        "path.session": [str(key) for key in mine.values_list("pk", flat=True)],
        "doomed": [str(session.id) for session in doomed],
        "path.message": [str(key) for key in messages.values_list("pk", flat=True)],
        "path.agent": ["concierge", "default", "a/b ü?#%"],
        "path.multi_agent": ["graph"],
        "path.agent_key": [str(key) for key in agents.values_list("pk", flat=True)],
        "path.snapshot": [str(key) for key in snapshots.values_list("pk", flat=True)],
        "query.path": ['["content", 1]', '["content", 0]', "[]", '[""]', '["content", 99]'],
    }


def _conversation(store: SessionStore, number: int) -> None:
    session = store.create(
        f"session {number}",
        title=f"A trip № {number}",
        metadata={"number": number, "nested": [None, {"é": 1.5}], "card": CARD},
        external_id=f"thread-{number}" if number % 2 else None,
    )
    strands = store.agents.open(session, "concierge", dialect="strands")
    image = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
    said_by_strands: list[Any] = [
        said("user", f"My card is {CARD}.", image),
        said("assistant", "I look.", call("t1", "find", what="ü", deep=[{"a": [1]}])),
        said("user", result("t1", "<b>\x00\ufffe</b>", "error")),
        {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "?"}}}]},
        {"role": "user", "content": [{"mystery": {"a": 1}}]},
        said("assistant", "x" * 200_000),
        {"no": "message"},
    ]
    for payload in said_by_strands:
        store.append(strands, payload)
    openai = store.agents.open(session, "default", dialect="openai")
    items: list[Any] = [
        {"role": "user", "content": "To Lisbon, a@example.org"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"card": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
        {"role": "assistant", "type": "message", "content": [{"type": "output_text", "text": "A"}]},
    ]
    for item in items:
        store.append(openai, item)
    store.snapshots.take(strands)
    store.append(strands, said("user", "And to Porto?"))
    store.branches.rewind(strands, 5)
    store.branches.create(strands, name="<b>idea</b>", upto=3)
    store.agents.open(session, "a/b ü?#%", dialect="strands")
    store.multi_agents.create(session, "graph", kind="graph", state={"nodes": [CARD]})
    if number % 3 == 0:
        redact(session.id, Find(CARD), reason="A card", actor="a program")
    if number % 5 == 1:
        legal_hold.hold(session.id, reason="A lawsuit")
    if number % 7 == 2:
        store.sessions.update(session.id, archived=True)
    if number % 4 == 3:
        SessionMessage.objects.filter(session=session.id, message_id=1).update(text="")
