"""A session with another secret in each place that can hold one, and the routes to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import quote

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from django_agent_sessions.content.codec import is_plain
from django_agent_sessions.governance.redaction import WholeMessage, redact
from django_agent_sessions.models import (
    AuditEvent,
    Branch,
    MessageFeedback,
    Participant,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    ShareLink,
    Snapshot,
)
from django_agent_sessions.models.sharing import hash_of
from django_agent_sessions.rest import urls
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState

SAID = ("plantedtext", "plantedreasoning", "plantedtool", "plantedresult")
"""What was said."""

STATES = ("plantedstate", "plantedsummary", "plantednode")
"""What agents, conversation managers and orchestrators keep."""

INTERNAL = "plantedinternal"
"""What the SDK keeps of an agent."""

GONE = "plantedgone"
"""What a message said before it was redacted: it is in no row and no answer."""

COMMENT, REVIEW = "plantedcomment", "plantedreview"
"""What the owner thinks of an answer, and what a reviewer does."""

SECRETS = ("plantedtitle", "plantedmetadata", *SAID, *STATES, INTERNAL, GONE, COMMENT, REVIEW)

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)
IMAGE = '["content", 1]'
TOKEN = "planted-token"
"""That of the session's share link."""

READER_KEY = 987_654_321
"""The key of a user who reads the session."""

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")


@dataclass(frozen=True)
class Planted:
    """The rows."""

    session: Session
    agent: SessionAgent
    graph: SessionMultiAgent
    messages: list[SessionMessage]
    snapshot: Snapshot
    participant: Participant
    link: ShareLink
    branch: int = 1

    def url(self, route: str, message: int = 0) -> str:
        """Fills a route in."""
        keys = {
            "session": self.session.pk,
            "agent": self.agent.agent_id,
            "agent_key": self.agent.pk,
            "number": self.branch,
            "snapshot": self.snapshot.pk,
            "multi_agent": self.graph.multi_agent_id,
            "message": self.messages[message].pk,
            "participant": self.participant.pk,
            "link": self.link.pk,
            "token": TOKEN,
        }
        return "/api/" + re.sub(r"<\w+:(\w+)>", lambda found: str(keys[found[1]]), route)


def plant(owner: Any, name: str = "planted") -> Planted:
    """Makes the session; its fourth message is redacted."""
    store = SessionStore(owner=owner)
    record = store.create(
        name, title="plantedtitle", metadata={"key": "plantedmetadata"}, external_id=f"{name}-x"
    )
    state = AgentState({"a": "plantedstate"}, {"summary": "plantedsummary"}, {"internal": INTERNAL})
    agent = store.agents.open(record, "concierge", dialect="strands", data=state)
    call = {"toolUseId": "t", "name": "search", "input": {"q": "plantedtool"}}
    result = {"toolUseId": "t", "status": "success", "content": [{"text": "plantedresult"}]}
    thought = {"reasoningContent": {"reasoningText": {"text": "plantedreasoning"}}}
    image = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
    store.append_many(
        agent,
        [
            {"role": "user", "content": [{"text": "plantedtext"}, image]},
            {"role": "assistant", "content": [thought, {"toolUse": call}]},
            {"role": "user", "content": [{"toolResult": result}]},
            {"role": "assistant", "content": [{"text": GONE}]},
        ],
    )
    store.multi_agents.create(record, "graph", {"node": "plantednode"}, kind="graph")
    rows = SessionMessage.objects.filter(session=record.id).order_by("message_id")
    redact(record.id, WholeMessage(rows[3].pk), reason="a ticket", actor=owner)
    store.feedback.save(rows[1].pk, -1, comment=COMMENT)
    store.feedback.save(rows[1].pk, 1, comment=REVIEW, source="reviewer", user="reviewer")
    reader = get_user_model().objects.create_user(f"{name}-reader", pk=READER_KEY)
    Participant.objects.create(session_id=record.id, user=reader, role="reader")
    ShareLink.objects.create(
        session_id=record.id,
        token_hash=hash_of(TOKEN),
        expires_at=timezone.now() + timedelta(days=1),
    )
    store.snapshots.take(agent)
    store.branches.create(agent, name="aside")
    return _planted(record.id)


def _planted(session: Any) -> Planted:
    return Planted(
        Session.objects.get(pk=session),
        SessionAgent.objects.get(session=session),
        SessionMultiAgent.objects.get(session=session),
        list(SessionMessage.objects.filter(session=session, branch=0).order_by("message_id")),
        Snapshot.objects.get(session=session),
        Participant.objects.get(session=session),
        ShareLink.objects.get(session=session),
    )


@cache
def _made(owner: Any) -> tuple[Any, list[str]]:
    """Makes the session of an owner's key, and gives the SQL that writes its rows again."""
    before = _dump()
    planted = plant(get_user_model().objects.get(pk=owner))
    return planted.session.pk, [insert for insert in _dump() if insert not in before]


def _dump() -> list[str]:
    inserts = []
    with connection.cursor() as cursor:
        for model in (get_user_model(), *apps.get_app_config("agent_sessions").get_models()):
            table = model._meta.db_table
            values = " || ',' || ".join(
                f'quote("{field.column}")' for field in model._meta.concrete_fields
            )
            names = ", ".join(f'"{field.column}"' for field in model._meta.concrete_fields)
            cursor.execute(f'SELECT {values} FROM "{table}"')
            inserts += [
                f'INSERT INTO "{table}" ({names}) VALUES ({row})' for (row,) in cursor.fetchall()
            ]
    return inserts


def plant_again(owner: Any) -> Planted:
    """Makes the session once in a process, and writes its rows again for each later test.

    More than a thousand tests start from it. With encryption each test has its own keys, and
    only SQLite can write a row as SQL. There, and on other databases, each test makes the session.
    """
    if connection.vendor != "sqlite" or not is_plain() or Session.objects.exists():
        return plant(owner)
    session, inserts = _made(owner.pk)
    if not Session.objects.exists():
        with connection.cursor() as cursor:
            for insert in inserts:
                cursor.execute(insert)
    return _planted(session)


def routes(patterns: Any = None, before: str = "") -> Iterator[str]:
    """Walks the URL conf, and whatever it includes."""
    for pattern in urls.urlpatterns if patterns is None else patterns:
        route = before + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from routes(pattern.url_patterns, route)
        else:
            yield route


def body_of(response: Any) -> str:
    """Reads an answer whole."""
    streaming = getattr(response, "streaming", False)
    content = b"".join(response.streaming_content) if streaming else response.content
    return str(content.decode("utf-8", "replace"))


def seen_in(text: str) -> set[str]:
    """Finds secrets, also where JSON has escaped them."""
    return {secret for secret in SECRETS if secret in text.lower()}


def rows() -> dict[str, Any]:
    """Everything that is stored, but the audit trail."""
    models = (
        Session,
        SessionAgent,
        SessionMessage,
        SessionMultiAgent,
        Branch,
        Snapshot,
        MessageFeedback,
        Participant,
        ShareLink,
    )
    found: dict[str, Any] = {}
    # Not by the ORM: it is asked thousands of times.
    with connection.cursor() as cursor:
        for table in (model._meta.db_table for model in models):
            cursor.execute(f"SELECT * FROM {table} ORDER BY id")
            found[table] = cursor.fetchall()
    return found


def recorded() -> list[AuditEvent]:
    return list(AuditEvent.objects.order_by("pk"))


def ask(client: APIClient, method: str, url: str, query: Any = None, data: Any = None) -> Any:
    """Asks with a query, and with a body where the method has one."""
    query = {**(query or {})}
    parts = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    url = f"{url}?{parts}" if parts else url
    call = getattr(client, method)
    if method in ("post", "put", "patch"):
        return call(url, json.dumps(data or {}), content_type="application/json")
    return call(url)
