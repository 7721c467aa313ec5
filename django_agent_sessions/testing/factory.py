"""Sessions with messages for the tests of a project, written by the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.models import Session
from django_agent_sessions.store import DEFAULT_AGENT, SessionStore
from django_agent_sessions.values.owners import NOBODY
from django_agent_sessions.values.records import NewMessage, Usage


@sync_only
def make_session(
    *messages: str | Mapping[str, Any],
    owner: Any = NOBODY,
    session_id: str | None = None,
    agent_id: str = DEFAULT_AGENT,
    dialect: str = "strands",
    namespace: str = "",
    title: str = "",
    metadata: Mapping[str, Any] | None = None,
    tokens: tuple[int, int] | None = None,
    model: str = "",
    using: str | None = None,
) -> Session:
    """Create a session with a conversation.

    ::

        session = make_session("Where is my order?", "On its way.", owner=ada)

    Args:
        *messages: Texts, alternately of the user and the agent, or payloads in the format of the
            SDK.
        owner: The session's owner, as for :class:`~django_agent_sessions.store.SessionStore`.
        session_id: The id; by default a new one.
        agent_id: The id of the agent.
        dialect: The format of the messages: ``"strands"``, ``"openai"``, or another one for
            payloads.
        namespace: The namespace of the session.
        title: The title.
        metadata: The metadata.
        tokens: The input and output tokens of each answer of the agent.
        model: The name of the model that wrote the answers.
        using: The database alias.
    """
    store = SessionStore(owner=owner, namespace=namespace, using=using)
    created = store.create(session_id or f"test-{uuid4().hex}", title=title, metadata=metadata)
    agent = store.agents.open(created, agent_id, dialect=dialect)
    if messages:
        store.append_many(agent, _written(messages, dialect, tokens, model))
    return Session.objects.using(store.using).get(pk=created.id)


def _written(
    messages: Sequence[str | Mapping[str, Any]],
    dialect: str,
    tokens: tuple[int, int] | None,
    model: str,
) -> list[NewMessage]:
    written = []
    for number, said in enumerate(messages):
        answers = number % 2 == 1
        payload, spent = said, None
        if isinstance(said, str):
            payload = _TEXT_PAYLOADS[dialect](said, answers)
        if answers and tokens is not None:
            payload, spent = _with_tokens(payload, dialect, *tokens)
        written.append(NewMessage(payload, usage=spent, model=model if answers else ""))
    return written


def _with_tokens(payload: Any, dialect: str, heard: int, said: int) -> tuple[Any, Usage | None]:
    if dialect == "strands":
        usage = {"inputTokens": heard, "outputTokens": said}
        return {**payload, "metadata": {"usage": usage}}, None
    return payload, Usage(input_tokens=heard, output_tokens=said)


def _strands(text: str, answers: bool) -> dict[str, Any]:
    return {"role": "assistant" if answers else "user", "content": [{"text": text}]}


def _openai(text: str, answers: bool) -> dict[str, Any]:
    if not answers:
        return {"role": "user", "content": text}
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"role": "assistant", "content": [part]}


_TEXT_PAYLOADS = {"strands": _strands, "openai": _openai}
