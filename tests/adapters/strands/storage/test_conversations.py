"""Sessions in files: what Strands' own managers write, and they go on with what is written here."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from strands.hooks import BeforeNodeCallEvent

from tests.adapters.strands.layouts import Bucket, Directory, agent, graph, normalised, swarm
from tests.adapters.strands.scripted import Redact, call
from tests.s3 import TestBucket, server

IMAGE: Any = {
    "image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n\x1a\n" + bytes(range(256))}}
}
LOOK: Any = [{"text": "Look"}, IMAGE]


@pytest.fixture(params=["directory", "bucket"])
def places(request, tmp_path) -> Any:
    """Makes empty places."""
    if request.param == "directory":
        names = iter("abc")
        return lambda: Directory(tmp_path / next(names))
    return lambda: Bucket(TestBucket(server()))


@pytest.fixture
def place(places) -> Any:
    return places()


def add_two_and_three() -> dict[str, Any]:
    return {**call("add", a=2, b=3), "toolUseId": "call"}


def converse(manager: Any) -> None:
    """A conversation with an image, a tool and a state."""
    agent(manager, add_two_and_three(), "Fünf 🐇.")([{"text": "What is 2 + 3?"}, IMAGE])


def say_more(manager: Any) -> list[Any]:
    """Goes on with the conversation, and tells all of it."""
    restored = agent(manager, "Bye.")
    assert restored.state.get("sums") == 1
    restored("Thanks")
    return restored.messages


class TestConversations:
    @pytest.mark.parametrize("ours_first", [True, False])
    def test_each_goes_on_with_what_the_other_wrote(self, place, ours_first):
        one, other = (place.ours, place.strands) if ours_first else (place.strands, place.ours)
        converse(one("s"))

        said = say_more(other("s"))

        assert [m["role"] for m in said] == ["user", "assistant"] * 3
        assert said[0]["content"][1] == IMAGE
        assert said[2]["content"][0]["toolResult"]["content"] == [{"text": "5"}]
        assert agent(one("s")).messages == agent(other("s")).messages == said

    def test_the_files_are_the_same_byte_for_byte(self, places):
        ours, strands = places(), places()
        for manager in (ours.ours, strands.strands):
            converse(manager("s"))
            say_more(manager("s"))
            redacted = agent(manager("guarded"), Redact("[blocked]"))
            redacted("plantedsecret")

        found = normalised(ours.files())

        assert found == normalised(strands.files())
        assert len([name for name in found if "/message_" in name]) == 8

    def test_several_agents_of_a_session(self, places):
        one, other = places(), places()
        for manager in (one.ours, other.strands):
            shared = manager("s")
            for name in ("first", "zweite ü", "x" * 60):
                agent(shared, f"I am {name}.", agent_id=name)([{"text": "Who are you?"}, IMAGE])
        assert normalised(one.files()) == normalised(other.files())

        for manager in (one.strands, other.ours):
            shared = manager("s")
            for name in ("first", "zweite ü", "x" * 60):
                restored = agent(shared, agent_id=name)
                assert restored.messages[0]["content"][1] == IMAGE
                assert restored.messages[1]["content"] == [{"text": f"I am {name}."}]

    def test_an_agent_without_messages_yet_goes_on_too(self, place):
        agent(place.ours("s"))
        agent(place.strands("t"))

        converse(place.strands("s"))
        converse(place.ours("t"))

        assert len(agent(place.ours("s")).messages) == 4
        assert len(agent(place.strands("t")).messages) == 4

    def test_messages_that_an_agent_starts_with(self, place):
        first: Any = [{"role": "user", "content": [{"text": "hello"}]}]
        agent(place.ours("s"), messages=first)

        restored = agent(place.strands("s"), "Bye.")
        assert [m["content"] for m in restored.messages] == [first[0]["content"]]

    @pytest.mark.parametrize("make", [graph, swarm])
    def test_orchestrators(self, places, make):
        ours, strands = places(), places()
        for manager in (ours.ours, strands.strands):
            assert make(manager("s"))(LOOK).status.value == "completed"
        found = normalised(ours.files())
        assert found == normalised(strands.files())
        assert [name for name in found if name.endswith("multi_agent.json")]

        # Each finds the other's state, or it would create it, which is refused.
        assert make(ours.strands("s"))("Go").status.value == "completed"
        assert make(strands.ours("s"))("Go").status.value == "completed"

    def test_an_interrupted_graph_is_ended_by_the_other(self, place):
        def broken(event: Any) -> None:
            if event.node_id == "write":
                raise RuntimeError("killed")

        for one, other in ((place.ours, place.strands), (place.strands, place.ours)):
            session_id = one.__name__
            killed = graph(one(session_id))
            killed.hooks.add_callback(BeforeNodeCallEvent, broken)
            with pytest.raises(RuntimeError, match="killed"):
                killed(LOOK)

            resumed = graph(other(session_id))
            result = resumed(LOOK)

            assert result.status.value == "completed"
            assert resumed.nodes["research"].executor.model.requests == []
            (request,) = resumed.nodes["write"].executor.model.requests
            assert IMAGE in request[0]["content"]

    def test_in_a_running_loop(self, place):
        async def run() -> list[Any]:
            first = agent(place.ours("s"), add_two_and_three(), "Five.")
            await first.invoke_async([{"text": "What is 2 + 3?"}, IMAGE])
            return say_more(place.ours("s"))

        said = asyncio.run(run())

        assert agent(place.strands("s")).messages == said

    def test_a_number_is_never_written_twice(self, place):
        converse(place.ours("s"))
        one, other = agent(place.ours("s"), "One."), agent(place.ours("s"), "Other.")
        one("First")
        before = place.files()

        with pytest.raises(Exception, match="already exists"):
            other("Second")

        assert {name: place.files()[name] for name in before if "message_" in name} == {
            name: data for name, data in before.items() if "message_" in name
        }
