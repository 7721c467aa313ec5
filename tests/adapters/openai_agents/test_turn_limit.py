"""Limits by turn: of a read, and of settings in releases of the SDK that have them."""

from __future__ import annotations

import asyncio
from inspect import signature
from typing import Any

import pytest
from agents import RunConfig, Runner, SessionSettings
from pydantic.dataclasses import dataclass

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession

from .refusals import CONVERSATION, refusals
from .team import assistant, requests

pytestmark = pytest.mark.django_db(transaction=True)

if "turn_limit" in signature(SessionSettings).parameters:
    Settings: Any = SessionSettings
else:

    @dataclass
    class Settings(SessionSettings):  # type: ignore[no-redef] # an SDK that has it
        """What a later release of the SDK has."""

        turn_limit: int | None = None


LAST, LAST_TWO = CONVERSATION[-2:], CONVERSATION[3:]
FOUND = [
    (None, CONVERSATION),
    (-1, CONVERSATION),
    (0, []),
    (1, LAST),
    (2, LAST_TWO),
    (3, CONVERSATION),
    (9, CONVERSATION),
]


@pytest.fixture(params=[DjangoSession, AdvancedDjangoSession])
def session(request) -> Any:
    made = request.param("s")
    asyncio.run(made.add_items(list(CONVERSATION)))
    return made


@pytest.mark.parametrize(("turns", "expected"), FOUND)
def test_a_read_returns_the_latest_turns(session, turns, expected):
    assert asyncio.run(session.get_items(turn_limit=turns)) == expected
    session.session_settings = Settings(turn_limit=turns)
    assert asyncio.run(session.get_items()) == expected


def test_both_limits_apply(session):
    assert asyncio.run(session.get_items(1, turn_limit=2)) == CONVERSATION[-1:]
    assert asyncio.run(session.get_items(9, turn_limit=1)) == LAST
    session.session_settings = Settings(limit=1, turn_limit=3)
    assert asyncio.run(session.get_items(turn_limit=2)) == CONVERSATION[-1:]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_run_reads_whole_turns(session, turns):
    session.session_settings = Settings(turn_limit=turns)
    agent = assistant()
    asyncio.run(
        Runner.run(agent, "next", session=session, run_config=RunConfig(tracing_disabled=True))
    )
    *sent, _ = requests(agent)[0]

    assert sent == dict(FOUND)[turns]
    assert refusals(sent) == []
