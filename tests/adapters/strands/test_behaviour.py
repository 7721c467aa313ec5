"""What Strands does, as the page on it says: tried with its own managers and with ours.

A new release of Strands that does something else fails the half of a test that uses Strands' own.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from strands import Agent, tool
from strands.agent.conversation_manager import (
    NullConversationManager,
    SlidingWindowConversationManager,
)
from strands.bidi.agent import BidiAgent
from strands.hooks import MessageAddedEvent
from strands.multiagent import GraphBuilder
from strands.session import FileSessionManager, S3SessionManager, SnapshotSessionManager
from strands.storage import LocalFileStorage
from strands.types.exceptions import SessionException
from strands.types.session import SessionMessage as StrandsMessage

from django_agent_sessions.adapters.strands import (
    DjangoSessionManager,
    DjangoSessionRepository,
    DjangoStorage,
)
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.testing import columns_containing
from tests.models.test_fields import set_raw
from tests.processes import ROOT
from tests.s3 import TestBucket, bucket_fixture  # noqa: F401 - a fixture

from .agents import build, texts
from .process import node
from .scripted import Overflow, Redact, ScriptedModel, call
from .test_bidi import ScriptedBidiModel, transcript

pytestmark = pytest.mark.django_db(transaction=True)

Manager = Callable[[str], Any]


@pytest.fixture
def files(tmp_path: Path) -> Manager:
    """Makes Strands' managers of one directory."""
    return lambda session_id: FileSessionManager(session_id, str(tmp_path / "files"))


@pytest.fixture
def snapshots(tmp_path: Path) -> Manager:
    storage = LocalFileStorage(str(tmp_path / "snapshots"))
    return lambda session_id: SnapshotSessionManager(session_id, storage=storage)


def ours(session_id: str) -> Any:
    return DjangoSessionManager(session_id)


def our_snapshots(session_id: str) -> Any:
    return SnapshotSessionManager(f"snapshots of {session_id}", storage=DjangoStorage())


def agent(make: Manager, *steps: Any, **options: Any) -> Agent:
    return build(*steps, session_manager=make("s"), **options)


def on_disk(tmp_path: Path) -> str:
    return "".join(path.read_text() for path in tmp_path.rglob("*.json"))


def test_row_1_a_killed_tool_call_is_answered_at_each_restore(files):
    for make in (files, ours):
        use = {"toolUse": {"toolUseId": "1", "name": "add", "input": {}}}
        live = agent(make, messages=[{"role": "user", "content": [{"text": "Add"}]}])
        for message in (
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"text": "Hello?"}]},
        ):
            asyncio.run(live._append_messages(message))  # type: ignore[arg-type] # a message

        restored = agent(make)
        assert "interrupted" in texts(restored.messages)[2]
        restored("Go on")
        kept = make("s").list_messages("s", "default")
        assert texts([one.message for one in kept])[:3] == ["Add", "call add", "Hello?"]


def test_row_2_a_redaction_by_hand_keeps_the_original_only_in_files(files, tmp_path):
    for make in (files, ours):
        manager = make("s")
        live = build("plantedsecret", session_manager=manager)
        live("Hello")
        gone: Any = {"role": "assistant", "content": [{"text": "[gone]"}]}
        manager.redact_latest_message(gone, live)
        assert texts(agent(make).messages) == ["Hello", "[gone]"]

    assert "plantedsecret" in on_disk(tmp_path)
    assert columns_containing("plantedsecret") == []


def test_row_3_a_guardrail_removes_the_original_in_both(files, tmp_path):
    for make in (files, ours):
        agent(make, Redact("[blocked]"))("plantedsecret")
        assert texts(agent(make).messages)[0] == "[blocked]"

    assert "plantedsecret" not in on_disk(tmp_path)
    assert columns_containing("plantedsecret") == []


def test_row_4_another_conversation_manager_is_a_value_error(files):
    for make in (files, ours):
        agent(make)("Hello")
        with pytest.raises(ValueError, match="manager"):
            agent(make, conversation_manager=NullConversationManager())


def test_row_5_a_larger_window_does_not_bring_back_what_a_smaller_one_dropped(files):
    for make in (files, ours):
        live = agent(make, conversation_manager=SlidingWindowConversationManager(4))
        for number in range(5):
            live(str(number))
        larger = agent(make, conversation_manager=SlidingWindowConversationManager(10))
        assert len(larger.messages) == 4


class Failing(ScriptedModel):
    async def stream(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("down")
        yield


def pair(make: Manager, *, failing: bool = False, last: str = "write") -> Any:
    """A graph of two nodes, of which the second may fail."""
    builder = GraphBuilder()
    builder.set_graph_id("graph")
    builder.set_max_node_executions(9)
    builder.set_session_manager(make("s"))
    builder.add_node(node("research"), "research")
    writer = node(last)
    if failing:
        writer.model = Failing()
    builder.add_node(writer, last)
    builder.add_edge("research", last)
    builder.set_entry_point("research")
    return builder.build()


def test_row_6_an_unfinished_graph_goes_on_with_its_old_task(files):
    for make in (files, ours):
        with pytest.raises(RuntimeError, match="down"):
            pair(make, failing=True)("the old task")

        later = pair(make)
        later("a new task")
        assert "the old task" in str(later.state.task)
        assert list(later.nodes["research"].executor.model.requests) == []


def test_row_7_an_unfinished_graph_without_the_node_that_failed_runs_nothing(files):
    for make in (files, ours):
        with pytest.raises(RuntimeError, match="down"):
            pair(make, failing=True)("the task")

        renamed = pair(make, last="report")
        result = renamed("the task")
        assert result.status.value == "completed"
        assert all(one.executor.model.requests == [] for one in renamed.nodes.values())


def test_row_8_a_text_to_an_agent_that_waits_for_an_answer_is_a_type_error(files):
    for make in (files, ours):
        agent(make, call("approve", what="it"))("Do it")
        waiting = agent(make)
        before = len(make("s").list_messages("s", "default"))
        with pytest.raises(TypeError):
            waiting("Well?")
        assert len(make("s").list_messages("s", "default")) == before


def test_row_9_snapshots_bring_back_the_system_prompt(files, snapshots):
    prompts = {}
    for name, make in (
        ("files", files),
        ("snapshots", snapshots),
        ("ours", ours),
        ("our snapshots", our_snapshots),
    ):
        agent(make, system_prompt="old")("Hello")
        prompts[name] = agent(make, system_prompt="new").system_prompt
    assert prompts == {"files": "new", "snapshots": "old", "ours": "new", "our snapshots": "old"}


async def speak(manager: Any) -> None:
    said = transcript("u", "How are you?")
    live = BidiAgent(model=ScriptedBidiModel(*said), session_manager=manager)
    await live.start()
    async for event in live.receive():
        if type(event).__name__ == "BidiTranscriptStopEvent":
            break
    await live.stop()


def test_row_10_the_words_of_a_voice_agent_are_stored_by_ours(files):
    for make, words in ((files, []), (ours, [{"text": "How are you?"}])):
        asyncio.run(speak(make("s")))
        (spoken,) = make("s").list_messages("s", "default")
        assert spoken.message["content"] == words


def test_row_11_a_text_agent_goes_on_after_a_voice_agent_in_ours(files):
    for make in (files, ours):
        agent(make)("Hello")
        asyncio.run(speak(make("s")))
    with pytest.raises(ValueError, match="manager"):
        agent(files)

    assert len(agent(ours).messages) == 3


def test_row_12_a_pinned_message_is_restored_by_ours(files):
    for make, first in ((files, False), (ours, True)):

        def window() -> Any:
            return SlidingWindowConversationManager(4, pin_first=1)

        live = agent(make, conversation_manager=window())
        for number in range(5):
            live(f"prompt {number}")
        assert "prompt 0" in texts(live.messages)
        assert ("prompt 0" in texts(agent(make, conversation_manager=window()).messages)) is first


def test_row_13_a_result_that_was_shortened_stays_so_in_ours(files):
    for make, shortened in ((files, False), (ours, True)):
        live = agent(make, {**call("look", of="it"), "toolUseId": "1"}, Overflow(), "Fine.")
        live("Look")
        assert (agent(make).messages[2] == live.messages[2]) is shortened


def test_row_14_a_hook_that_masks_comes_after_the_write(files, tmp_path):
    def mask(event: MessageAddedEvent) -> None:
        event.message["content"] = [{"text": "[masked]"}]

    for make, restored in ((files, "plantedsecret"), (ours, "[masked]")):
        live = agent(make)
        live.hooks.add_callback(MessageAddedEvent, mask)
        live("plantedsecret")
        assert texts(agent(make).messages)[0] == restored

    assert columns_containing("plantedsecret") != []


def test_row_15_direct_calls_and_first_messages_are_lost_only_with_snapshots(files, snapshots):
    first: Any = [{"role": "user", "content": [{"text": "first"}]}]
    for make, stored in ((files, True), (ours, True), (snapshots, False), (our_snapshots, False)):
        agent(make, messages=[*first])
        assert (texts(agent(make).messages) == ["first"]) is stored
        agent(make)("Hello")
        live = agent(make)
        live.tool.look(of="it")
        assert any("toolUse" in str(one) for one in live.messages)
        assert any("toolUse" in str(one) for one in agent(make).messages) is stored


def test_row_16_messages_that_an_application_removes_or_sets_are_so_in_ours(files):
    for make, removed in ((files, False), (ours, True)):
        live = agent(make)
        live("one")
        live("two")
        del live.messages[-2:]
        live("three")
        assert ("two" not in texts(agent(make).messages)) is removed
        live.messages = [{"role": "user", "content": [{"text": "set"}]}]
        live("four")
        assert ("set" in texts(agent(make).messages)) is removed


def test_row_17_of_two_processes_ours_keeps_both(files):
    for make, kept in ((files, False), (ours, True)):
        one, other = agent(make, agent_id="a"), agent(make, agent_id="a")
        one("from one")
        other("from the other")
        found = texts(agent(make, agent_id="a").messages)
        assert ("from one" in found and "from the other" in found) is kept


@tool
def essay() -> str:
    """Return a long text."""
    return "lorem ipsum " * 2000 + "PELICAN" + " dolor sit" * 2000


def test_row_18_what_a_context_manager_took_out_is_found_again(files, snapshots):
    for make, whole in ((files, True), (snapshots, False), (ours, False), (our_snapshots, False)):

        def reader(*steps: Any, make: Manager = make) -> Agent:
            return Agent(
                model=ScriptedModel(steps, limit=200_000),
                tools=[essay],
                session_manager=make("s"),
                callback_handler=None,
                context_manager="auto",
            )

        reader({**call("essay"), "toolUseId": "1"}, "done")("Read")
        later = reader(call("retrieve_context", reference="1_0"), "Found.")
        assert ("PELICAN" in str(later.messages)) is whole
        later("Fetch it")
        assert "PELICAN" in str(later.messages)


def test_row_19_a_state_that_is_set_after_a_run_is_lost_in_all(files, snapshots):
    for make in (files, snapshots, ours, our_snapshots):
        live = agent(make)
        live("Hello")
        live.state.set("late", True)
        assert agent(make).state.get() == {}


def test_row_20_a_message_is_overwritten_in_files_and_refused_by_ours(files):
    for make in (files, ours):
        agent(make)("Hello")
    again = StrandsMessage({"role": "user", "content": [{"text": "again"}]}, 0)
    files("s").create_message("s", "default", again)
    assert texts(agent(files).messages)[0] == "again"

    for repository in (ours("s"), DjangoSessionRepository()):
        with pytest.raises(SessionException):
            repository.create_message("s", "default", again)


def test_row_21_a_damaged_message_ends_the_agent_with_files_and_is_skipped_by_ours(
    files, tmp_path, caplog
):
    for make in (files, ours):
        agent(make)("Hello")
    next(tmp_path.rglob("message_0.json")).write_text("{")
    set_raw(0, "{")

    with pytest.raises(SessionException):
        agent(files)
    assert texts(agent(ours).messages) == ["You said: Hello"]
    assert "default" in caplog.text or str(SessionMessage.objects.first()) is not None


def test_row_22_ids_with_separators_are_refused_by_files_and_are_text_in_ours(files):
    with pytest.raises(ValueError, match="path"):
        files("a/b")
    build(session_manager=ours("a/b"))("Hello")
    assert Session.objects.get().session_id == "a/b"
    # Both refuse these.
    for make in (files, ours):
        with pytest.raises(ValueError, match="message"):
            make("s").read_message("s", "a", "1")


def test_row_23_limits_and_offsets_are_those_of_a_slice(files):
    for make in (files, ours):
        live = agent(make)
        for number in range(3):
            live(str(number))
        numbers = {
            pair: [one.message_id for one in make("s").list_messages("s", "default", *pair)]
            for pair in ((-1, 0), (None, -2), (0, 0), (9, 4), (1, -2))
        }
        assert list(numbers.values()) == [[0, 1, 2, 3, 4], [4, 5], [], [4, 5], [4]]


def test_row_24_nan_and_keys_are_as_python_s_json_has_them(files):
    for make in (files, ours):
        live = agent(make)
        live.state.set("odd", {1: float("nan")})
        live("Hello")
        assert json.dumps(agent(make).state.get()) == '{"odd": {"1": NaN}}'


@pytest.fixture
def s3(bucket: TestBucket) -> Manager:
    return lambda session_id: S3SessionManager(
        session_id,
        bucket=bucket.name,
        boto_session=bucket.session,
        endpoint_url=bucket.endpoint,
    )


def test_row_25_messages_of_an_unknown_agent(files, s3):
    for make in (files, s3, ours):
        agent(make)("Hello")
    for unknown in (("s", "nobody"), ("nowhere", "default")):
        with pytest.raises(SessionException):
            files("s").list_messages(*unknown)
        for repository in (s3("s"), ours("s"), DjangoSessionRepository()):
            assert repository.list_messages(*unknown) == []


def test_row_26_a_run_after_the_session_was_deleted(files, s3):
    for make in (files, s3, ours):
        manager = make("s")
        live = build(session_manager=manager)
        live("Hello")
        manager.delete_session("s")
        if make is ours:
            with pytest.raises(SessionNotFoundError, match="was deleted; open it again"):
                live("Are you there?")
            assert not Session.objects.exists()
        else:
            live("Are you there?")

    with pytest.raises(SessionException, match="already exists"):
        agent(files)
    assert agent(s3).messages == agent(ours).messages == []


def test_row_27_a_question_that_is_redacted_after_its_answer(files):
    for make in (files, ours):
        manager = make("s")
        live = build("Noted.", session_manager=manager)
        live("plantedsecret")
        gone: Any = {"role": "user", "content": [{"text": "[gone]"}]}
        if make is ours:
            with pytest.raises(SessionException, match="latest message has the role 'assistant'"):
                manager.redact_latest_message(gone, live)
        else:
            manager.redact_latest_message(gone, live)

    assert texts(agent(files).messages) == ["plantedsecret", "[gone]"]
    assert texts(agent(ours).messages) == ["plantedsecret", "Noted."]


def test_each_row_of_the_page_has_a_test():
    page = (ROOT / "docs/reference/strands-behaviour.md").read_text()
    rows = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    tests = [re.match(r"test_row_(\d+)_", name) for name in globals()]
    assert rows == [found[1] for found in tests if found]
    assert len(rows) == 27
