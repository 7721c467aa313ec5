"""Items as an OpenAI agent's session holds them, and what a source gives of a session."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from django_agent_sessions.content import dialects
from django_agent_sessions.interchange.sources import (
    Skipped,
    Source,
    SourceAgent,
    SourceMessage,
    SourceSession,
)
from tests.strategies import numbers, texts

_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda values: st.one_of(
        st.lists(values, max_size=3), st.dictionaries(texts, values, max_size=3)
    ),
    max_leaves=8,
)

batches = st.lists(st.lists(st.dictionaries(texts, _values, max_size=3), max_size=4), max_size=4)
"""What is added to a session, in turn: any JSON objects."""


def said(*texts: str) -> list[Any]:
    """Items of a conversation: a question, its answer, and so on."""
    return [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(texts)
    ]


def sessions_of(source: Source) -> list[SourceSession]:
    """All sessions, each of which could be read."""
    found = list(source.sessions())
    assert not any(isinstance(each, Skipped) for each in found)
    return [each for each in found if isinstance(each, SourceSession)]


def session_of(source: Source, name: str) -> SourceSession:
    """The session of this name."""
    [found] = [each for each in sessions_of(source) if each.session_id == name]
    return found


def agent_of(source: Source, name: str) -> SourceAgent:
    """The one agent of a session, which is as ``DjangoSession`` would have made it."""
    [agent] = session_of(source, name).agents
    assert (agent.agent_id, agent.dialect) == ("default", dialects.OPENAI)
    return agent


def messages_of(source: Source, name: str) -> list[SourceMessage]:
    """The messages of a session, without what could not be read."""
    found = agent_of(source, name).messages
    return [each for each in found if isinstance(each, SourceMessage)]


def items_of(source: Source, name: str, *, branch: int = 0) -> list[Any]:
    """The items of a session's branch, in order."""
    return [each.payload for each in messages_of(source, name) if each.branch == branch]


def skipped_of(source: Source, name: str) -> list[Skipped]:
    """What of a session's messages could not be read."""
    return [each for each in agent_of(source, name).messages if isinstance(each, Skipped)]
