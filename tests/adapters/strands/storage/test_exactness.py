"""What is written and read is what Strands' own managers write and read, to the last byte."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from strands.types.session import Session, SessionType

from tests.adapters.strands.layouts import Directory, agent
from tests.adapters.strands.scripted import Redact
from tests.strategies import exactly, json_values

from .messages import message


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Any:
    """Ours and Strands', each in a directory, and the numbers of messages."""
    path = tmp_path_factory.mktemp("exact")
    ours, theirs = Directory(path / "ours"), Directory(path / "theirs")
    ours.repository().create_session(Session("s", SessionType.AGENT))
    return ours, theirs, itertools.count()


class TestExactness:
    @given(json_values)
    def test_whatever_is_said_is_written_and_read_as_strands_does(self, both, value):
        ours, theirs, numbers = both
        written = message("x", next(numbers), toolResult=value)
        number = written.message_id
        ours.repository().create_message("s", "a", written)
        try:
            theirs.strands("s").create_message("s", "a", written)
        except UnicodeEncodeError:
            # A lone surrogate, which Strands reads but does not write.
            pass
        else:
            name = f"sessions/session_s/agents/agent_a/messages/message_{number}.json"
            assert (ours.path / name).read_bytes() == (theirs.path / name).read_bytes()
        found = ours.repository().read_message("s", "a", number)

        assert exactly(found) == exactly(ours.strands("s").read_message("s", "a", number))


class TestRedaction:
    def test_a_guardrail_leaves_what_strands_own_managers_leave(self, damaged):
        agent(damaged.ours("g"), Redact("[blocked]"))("plantedsecret")

        said = [m["content"] for m in agent(damaged.strands("g")).messages]
        assert said == [[{"text": "[blocked]"}], [{"text": "I cannot talk about that."}]]
