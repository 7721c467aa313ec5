"""A store of Strands is replaced by ours: code around it goes on working as before."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.session import FileSessionManager, SnapshotSessionManager
from strands.session.session_manager import SessionManager
from strands.types.session import SessionMessage as StrandsMessage

from django_agent_sessions import run_orm
from django_agent_sessions.adapters.strands import DjangoSessionManager, DjangoStorage
from django_agent_sessions.exceptions import ConfigurationError, UnreadableStateError
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing

from .agents import build, expect_valid, requests, stored, texts
from .process import graph
from .scripted import ScriptedModel, call

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["file", "django"])
def base(request, tmp_path: Path) -> Any:
    """A class of managers that needs only a session id."""
    if request.param == "django":
        return DjangoSessionManager

    class OnFiles(FileSessionManager):
        def __init__(self, session_id: str) -> None:
            super().__init__(session_id, str(tmp_path))

    return OnFiles


def agent(manager: Any, *steps: Any, **options: Any) -> Agent:
    return build(*steps, session_manager=manager, agent_id="a", **options)


class TestOverrides:
    def test_a_message_that_is_changed_before_it_is_written_is_restored_so(self, base):
        class Masking(base):  # type: ignore[valid-type, misc] # either manager
            def append_message(self, message: Any, agent: Any, **kwargs: Any) -> None:
                if "swordfish" in str(message):
                    message = {**message, "content": [{"text": "[word]"}]}
                super().append_message(message, agent, **kwargs)

        live = agent(Masking("s"))
        live("the word is swordfish")
        live("thanks")

        assert texts(agent(Masking("s")).messages) == [
            "[word]",
            "[word]",
            "thanks",
            "You said: thanks",
        ]
        assert texts(live.messages)[0] == "the word is swordfish"
        assert columns_containing("swordfish") == []
        assert Session.objects.count() == 0 or len(stored("s", "a")) == 4

    def test_a_message_made_anew_stands_for_the_agent_s(self, base):
        class Renewing(base):  # type: ignore[valid-type, misc] # either manager
            def append_message(self, message: Any, agent: Any, **kwargs: Any) -> None:
                new = {"role": message["role"], "content": [{"text": "new"}]}
                super().append_message(new, agent, **kwargs)

        agent(Renewing("s"))("old")

        assert texts(agent(Renewing("s")).messages) == ["new", "new"]
        assert columns_containing("old") == []

    def test_a_message_that_is_not_written_is_not_restored(self, base):
        class Withholding(base):  # type: ignore[valid-type, misc] # either manager
            def append_message(self, message: Any, agent: Any, **kwargs: Any) -> None:
                if "secret" not in str(message):
                    super().append_message(message, agent, **kwargs)

        live = agent(Withholding("s"), "I know it.")
        live("plantedsecret")
        live("Hello")

        assert texts(agent(Withholding("s")).messages) == [
            "I know it.",
            "Hello",
            "You said: Hello",
        ]
        assert columns_containing("plantedsecret") == []

    def test_sync_agent_is_called_as_often_and_decides_what_is_written(self, base):
        class Cleaning(base):  # type: ignore[valid-type, misc] # either manager
            calls = 0

            def sync_agent(self, agent: Any, **kwargs: Any) -> None:
                type(self).calls += 1
                agent.state.delete("token")
                super().sync_agent(agent, **kwargs)

        @tool(context=True)
        def sign_in(tool_context: Any) -> str:
            """Sign in."""
            tool_context.agent.state.set("token", "plantedsecret")
            tool_context.agent.state.set("user", "Ada")
            return "done"

        live = agent(Cleaning("s"), call("sign_in"), "Welcome.")
        live.tool_registry.process_tools([sign_in])
        live("Sign in")

        # Four messages, and the end of the run.
        assert Cleaning.calls == 5
        assert agent(Cleaning("s")).state.get() == {"user": "Ada"}
        assert columns_containing("plantedsecret") == []

    def test_sync_agent_sees_a_state_before_it_is_written(self):
        seen: list[list[str]] = []

        class Cleaning(DjangoSessionManager):
            def sync_agent(self, agent: Any, **kwargs: Any) -> None:
                seen.append(run_orm(lambda: columns_containing("plantedsecret")))
                agent.state.delete("token")
                super().sync_agent(agent, **kwargs)

        for manager in (Cleaning("s"), asyncio.run(Cleaning.load("t"))):
            live = agent(manager)
            live.state.set("token", "plantedsecret")
            live.state.set("user", "Ada")
            live("Hello")

        assert seen == [[]] * 6
        assert agent(Cleaning("s")).state.get() == {"user": "Ada"}
        assert agent(Cleaning("t")).state.get() == {"user": "Ada"}

    def test_sync_agent_that_writes_nothing_leaves_the_state_as_it_was(self, base):
        class Silent(base):  # type: ignore[valid-type, misc] # either manager
            def sync_agent(self, agent: Any, **kwargs: Any) -> None:
                pass

        live = agent(Silent("s"))
        live.state.set("a", 1)
        live("Hello")

        restored = agent(Silent("s"))
        assert texts(restored.messages) == ["Hello", "You said: Hello"]
        assert restored.state.get() == {}

    def test_an_attribute_of_the_object_counts_too(self, base):
        manager = base("s")
        seen: list[Any] = []
        manager.sync_agent = seen.append

        agent(manager)("Hello")

        assert len(seen) == 3

    def test_orchestrators_call_what_is_overridden(self, base):
        class Counting(base):  # type: ignore[valid-type, misc] # either manager
            calls: list[str] = []

            def initialize_multi_agent(self, source: Any, **kwargs: Any) -> None:
                self.calls.append("initialize")
                super().initialize_multi_agent(source, **kwargs)

            def sync_multi_agent(self, source: Any, **kwargs: Any) -> None:
                self.calls.append("sync")
                super().sync_multi_agent(source, **kwargs)

        graph(manager=Counting("s"))("Go")

        # Three nodes, and the end of the run.
        assert Counting.calls == ["initialize", "sync", "sync", "sync", "sync"]

    def test_usage_is_counted_once_whatever_is_overridden(self):
        class Both(DjangoSessionManager):
            def append_message(self, message: Any, agent: Any, **kwargs: Any) -> None:
                super().append_message(message, agent, **kwargs)

            def sync_agent(self, agent: Any, **kwargs: Any) -> None:
                super().sync_agent(agent, **kwargs)

        live = build(call("add", a=1, b=2), "3", session_manager=Both("s"))
        live("1 + 2?")
        live("Thanks")

        counted = Session.objects.get()
        assert (counted.message_count, counted.input_tokens) == (6, 30)

    def test_overriding_what_is_not_called_is_an_error_at_once(self):
        with pytest.raises(ConfigurationError, match="overrides create_message, which"):
            type("Encrypting", (DjangoSessionManager,), {"create_message": lambda *args: None})


class Around(SessionManager):
    """Delegates to another manager, and hides what it must not store."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.session_id = inner, inner.session_id

    def initialize(self, agent: Any, **kwargs: Any) -> None:
        self.inner.initialize(agent, **kwargs)

    def append_message(self, message: Any, agent: Any, **kwargs: Any) -> None:
        if "hide" in str(message):
            return
        if "swordfish" in str(message):
            message = {"role": message["role"], "content": [{"text": "[word]"}]}
        self.inner.append_message(message, agent, **kwargs)

    def sync_agent(self, agent: Any, **kwargs: Any) -> None:
        agent.state.delete("token")
        self.inner.sync_agent(agent, **kwargs)

    def redact_latest_message(self, redact_message: Any, agent: Any, **kwargs: Any) -> None:
        self.inner.redact_latest_message(redact_message, agent, **kwargs)

    def initialize_multi_agent(self, source: Any, **kwargs: Any) -> None:
        self.inner.initialize_multi_agent(source, **kwargs)

    def sync_multi_agent(self, source: Any, **kwargs: Any) -> None:
        self.inner.sync_multi_agent(source, **kwargs)


class TestDelegation:
    def test_a_conversation_is_restored_as_from_files(self, base):
        live = agent(Around(base("s")), call("add", a=1, b=2), "Three.", "I hide.", "Bye.")
        for prompt in ("1 + 2?", "the word is swordfish", "please hide"):
            live(prompt)
        live.state.set("seen", True)
        live.state.set("token", "plantedsecret")
        live("Good bye")

        restored = agent(Around(base("s")))
        assert texts(restored.messages) == [
            "1 + 2?",
            "call add",
            "result 3",
            "Three.",
            "[word]",
            "Bye.",
            "Good bye",
            "You said: Good bye",
        ]
        assert restored.state.get() == {"sums": 1, "seen": True}
        assert columns_containing("plantedsecret") == []
        assert columns_containing("swordfish") == []

    def test_usage_is_counted_and_each_turn_has_its_run(self):
        live = build(call("add", a=1, b=2), "3", session_manager=Around(DjangoSessionManager("s")))
        live("1 + 2?")
        live("Thanks")

        counted = Session.objects.get()
        assert (counted.message_count, counted.input_tokens) == (6, 30)
        runs = [row.run_id for row in SessionMessage.objects.order_by("message_id")]
        assert [len(list(group)) for _, group in itertools.groupby(runs)] == [4, 2]

    def test_usage_of_a_graph_is_counted(self):
        graph(manager=Around(DjangoSessionManager("s")))("Go")

        assert Session.objects.get().input_tokens == 30

    def test_an_exclusive_manager_that_cannot_be_exclusive_is_an_error(self):
        with pytest.raises(ConfigurationError, match="register_hooks"):
            build(session_manager=Around(DjangoSessionManager("s", exclusive=True)))


LIMITS = [None, -20, -2, -1, 0, 1, 3, 20]
OFFSETS = [-20, -2, -1, 0, 1, 3, 20]


class TestRepository:
    @pytest.fixture
    def manager(self, base) -> Any:
        manager = base("s")
        live = agent(manager)
        live.state.set("a", 1)
        for number in range(3):
            live(f"prompt {number}")
        return manager

    def test_a_session_is_read_and_deleted_through_the_manager(self, manager):
        assert manager.session.session_id == "s"
        assert manager.session.session_type == "AGENT"
        repository = manager.session_repository
        assert repository.read_session("s").session_id == "s"
        assert repository.read_session("t") is None
        found = manager.read_agent("s", "a")
        assert (found.agent_id, found.state) == ("a", {"a": 1})
        assert manager.read_agent("s", "b") is None
        assert manager.read_message("s", "a", 1).to_message()["role"] == "assistant"
        assert manager.read_message("s", "a", 6) is None
        manager.delete_session("s")
        assert manager.read_session("s") is None

    def test_limits_and_offsets_are_those_of_a_slice(self, manager):
        numbers = range(6)
        for limit, offset in itertools.product(LIMITS, OFFSETS):
            found = manager.list_messages("s", "a", limit, offset)
            expected = numbers[offset:] if limit is None else numbers[offset : offset + limit]
            assert [one.message_id for one in found] == [*expected], (limit, offset)

    @pytest.mark.parametrize("number", ["1", 1.0, None])
    def test_a_number_that_is_none_is_a_value_error(self, manager, number):
        with pytest.raises(ValueError, match="must be an integer"):
            manager.read_message("s", "a", number)
        odd = StrandsMessage({"role": "user", "content": []}, number)
        for write in (manager.create_message, manager.update_message):
            with pytest.raises(ValueError, match="must be an integer"):
                write("s", "a", odd)

    def test_a_script_may_write_through_it(self, base):
        manager = base("s")
        live = agent(manager)
        live("Hello")
        latest = manager.read_message("s", "a", 1)
        latest.redact_message = {"role": "assistant", "content": [{"text": "[gone]"}]}

        manager.update_message("s", "a", latest)

        assert texts(agent(base("s")).messages) == ["Hello", "[gone]"]

    def test_it_reaches_what_the_manager_reaches(self, admin_user):
        agent(DjangoSessionManager("s", owner=admin_user, namespace="n"))("Hello")

        assert DjangoSessionManager("t").read_session("s") is None
        found = DjangoSessionManager("t", owner=admin_user, namespace="n").list_messages("s", "a")
        assert [one.message_id for one in found] == [0, 1]


class TestStates:
    def test_another_conversation_manager_is_a_value_error(self, base):
        agent(base("s"))("Hello")

        with pytest.raises(ValueError, match="manager"):
            agent(base("s"), conversation_manager=NullConversationManager())

    def test_a_state_that_strands_does_not_know_is_named(self):
        build()("Hello")
        row = SessionAgent.objects.get()
        waiting = {"id": "i", "name": "n", "reason": None, "response": None, "newer": 1}
        state = {"interrupts": {"i": waiting}, "context": {}, "activated": True}
        store = SessionStore()
        record = store.agents.find(store.get("s"), "default")
        assert record is not None
        internal = {**row.internal_state, "interrupt_state": state}
        store.agents.update(record, replace(record.data, internal_state=internal))

        with pytest.raises(
            UnreadableStateError, match=r"agent .default. of session .s. \(.*\) cannot be"
        ):
            build()

    def test_a_state_of_a_graph_that_strands_does_not_know_is_named(self):
        graph()("Go")
        store = SessionStore()
        record = store.multi_agents.find(store.get("s"), "graph")
        assert record is not None
        newer = {"next_nodes_to_execute": ["research"], "status": "newer"}
        store.multi_agents.update(store.get("s"), "graph", {**record.state, **newer})

        with pytest.raises(UnreadableStateError, match="orchestrator 'graph' of session 's'"):
            graph()

    def test_of_two_results_of_a_call_the_last_is_sent(self):
        use = {"toolUse": {"toolUseId": "1", "name": "add", "input": {"a": 1, "b": 2}}}
        store = SessionStore()
        record = store.agents.open(store.open("s"), "default", dialect="strands")
        results = [
            {"toolResult": {"toolUseId": "1", "status": "success", "content": [{"text": text}]}}
            for text in ("first", "second")
        ]
        for message in (
            {"role": "user", "content": [{"text": "1 + 2?"}]},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [*results, {"text": "And?"}]},
            {"role": "assistant", "content": [{"text": "3"}]},
        ):
            store.append(record, message)

        again = build()
        again("Thanks")

        expect_valid(requests(again)[0])
        assert texts(requests(again)[0])[2] == "result second And?"
        assert len(stored()[2]["content"]) == 3


@tool
def report(about: str) -> str:
    """Return a long report.

    Args:
        about: What it is about.
    """
    return "lorem ipsum dolor " * 1000 + f" PELICAN of {about} " + "sit amet dolor " * 1000


def reader(*steps: Any, manager: Any = None, **options: Any) -> Agent:
    return Agent(
        model=ScriptedModel(steps, limit=200_000),
        tools=[report],
        session_manager=manager or DjangoSessionManager("s"),
        callback_handler=None,
        context_manager="auto",
        **options,
    )


def fetched(agent: Agent, reference: str) -> str:
    """What the tool of the context manager returns."""
    model: Any = agent.model
    model.steps = [call("retrieve_context", reference=reference), "Fine."]
    agent("Fetch it")
    return str(requests(agent)[-1][-1])


class TestContextManagers:
    def test_what_was_taken_out_can_be_fetched_by_the_next_process(self):
        for key in ("1", "2"):
            step = {**call("report", about=f"report {key}"), "toolUseId": key}
            assert reader(step, "done")("Read it").stop_reason == "end_turn"

        later = reader()
        assert "PELICAN" not in str(later.messages)
        assert "PELICAN of report 1" in fetched(later, "1_0")
        loaded = asyncio.run(DjangoSessionManager.load("s"))
        assert "PELICAN of report 2" in fetched(reader(manager=loaded), "2_0")

    def test_a_summary_may_refer_to_what_it_summarizes(self):
        reader({**call("report", about="it"), "toolUseId": "1"}, "done")("Read it")
        held = reader()
        summary: Any = {"role": "user", "content": [{"text": "Read a report [refs: 1_0, 9_9]"}]}
        held.messages[:] = [summary]
        held("Go on")

        assert "PELICAN" in fetched(reader(), "1_0")

    def test_a_redaction_reaches_what_was_taken_out(self):
        live = reader({**call("report", about="swordfish"), "toolUseId": "1"}, "done")
        live("Read it")
        redact(Session.objects.get().pk, Find("swordfish"), reason="A request")
        live("Go on")

        for one in (live, reader()):
            found = fetched(one, "1_0")
            assert "PELICAN" in found
            assert "swordfish" not in found

    @pytest.mark.filterwarnings(r"ignore:Agent\(storage")
    @pytest.mark.parametrize("kept", ["snapshot", "storage"])
    def test_a_redaction_reaches_what_is_kept_elsewhere(self, kept):
        def make(*steps: Any) -> Agent:
            storage = DjangoStorage()
            if kept == "snapshot":
                return reader(*steps, manager=SnapshotSessionManager("s", storage=storage))
            return reader(*steps, storage=storage)

        make({**call("report", about="swordfish"), "toolUseId": "1"}, "done")("Read it")
        redact(Session.objects.get(session_id="s").pk, Find("swordfish"), reason="A request")

        assert columns_containing("swordfish") == []
        found = fetched(make(), "1_0")
        assert "PELICAN" in found
        assert "swordfish" not in found

    def test_a_restore_without_references_takes_no_more_statements(self, django_assert_num_queries):
        reader("Hello.")("Hi")

        with django_assert_num_queries(3):
            reader()
