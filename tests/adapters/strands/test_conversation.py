"""A conversation under the session manager: new, restored, continued, with tools and state."""

from __future__ import annotations

import asyncio
import gc
import os
import weakref
from typing import Any
from uuid import UUID

import pytest
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.agent.state import AgentState as StrandsAgentState
from strands.hooks import BeforeModelCallEvent
from strands.storage.in_memory_storage import InMemoryStorage
from strands.types.exceptions import EventLoopException, SessionException

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.adapters.strands.conversation import add_tracking_ids
from django_agent_sessions.exceptions import (
    ConfigurationError,
    InvalidIdError,
    SessionConflictError,
    SessionNotFoundError,
    UnreadableStateError,
)
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState
from tests.sealed import update_content
from tests.texts import text_of

from .agents import build, expect_real, manager_of, requests, stored, texts
from .scripted import ScriptedModel, call

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_conversation_goes_on_in_another_process():
    build("Hello Ada.")("I am Ada")

    again = build("You are Ada.")
    assert texts(again.messages) == ["I am Ada", "Hello Ada."]
    again("Who am I?")

    assert texts(requests(again)[0]) == ["I am Ada", "Hello Ada.", "Who am I?"]
    assert texts(stored()) == ["I am Ada", "Hello Ada.", "Who am I?", "You are Ada."]
    assert build().messages == again.messages == stored()


def test_a_conversation_goes_on_in_a_running_loop():
    async def converse() -> None:
        await build("Hello Ada.").invoke_async("I am Ada")
        again = build("You are Ada.")
        await again.invoke_async("Who am I?")
        assert build().messages == again.messages

    asyncio.run(converse())

    assert texts(stored()) == ["I am Ada", "Hello Ada.", "Who am I?", "You are Ada."]


def test_messages_an_agent_is_built_with_are_stored_with_it():
    seeds = [
        {"role": "user", "content": [{"text": "seed"}]},
        {"role": "assistant", "content": [{"text": "grown"}]},
    ]

    agent = build("More.", messages=seeds)

    assert texts(stored()) == ["seed", "grown"]
    agent("Go on")
    assert texts(build().messages) == ["seed", "grown", "Go on", "More."]


def test_an_existing_conversation_wins_over_messages_an_agent_is_built_with():
    build("Hello.")("Hi")

    again = build(messages=[{"role": "user", "content": [{"text": "seed"}]}])

    assert texts(again.messages) == texts(stored()) == ["Hi", "Hello."]


def test_tools_and_their_results_are_restored():
    agent = build([call("add", a=1, b=2), call("add", a=3, b=4)], "Three and seven.")
    agent("1 + 2 and 3 + 4?")

    again = build()

    assert texts(again.messages) == [
        "1 + 2 and 3 + 4?",
        "call add call add",
        "result 3 result 7",
        "Three and seven.",
    ]
    assert again.messages == agent.messages
    expect_real(again.messages)


def test_the_agents_state_is_restored():
    agent = build(call("add", a=1, b=2), "Three.")
    agent.state.set("mood", "good")
    agent("1 + 2?")
    agent.state.set("left over", [None, 1.5, {"z": 1, "a": 2}])
    agent("Bye")

    assert build().state.get() == {
        "mood": "good",
        "sums": 1,
        "left over": [None, 1.5, {"z": 1, "a": 2}],
    }


def test_a_state_that_a_program_replaces_is_restored():
    build("Hello.")("Hi")
    agent = build("Fine.")
    place = id(agent.state)

    for number in range(1000):
        agent.state = StrandsAgentState({"number": number})
        # Nothing tells it from the first one but that it is another.
        if id(agent.state) == place:
            break
    agent("How are you?")

    assert build().state.get() == {"number": number}


def test_the_state_of_the_last_tool_call_is_there_although_the_process_dies_before_the_answer():
    agent = build(call("add", a=1, b=2), RuntimeError("the process dies here"))
    with pytest.raises(EventLoopException):
        agent("1 + 2?")

    again = build()

    assert again.state.get() == {"sums": 1}
    assert texts(again.messages) == ["1 + 2?", "call add", "result 3"]


def test_sync_agent_writes_a_state_that_changed_between_invocations():
    agent = build("Hello.")
    agent("Hi")
    agent.state.set("mood", "good")

    manager_of(agent).sync_agent(agent)

    assert build().state.get() == {"mood": "good"}


def test_usage_and_latency_are_in_columns_and_counted():
    agent = build(call("add", a=1, b=2), "Three.")
    agent("1 + 2?")
    agent("Thanks")

    answers = SessionMessage.objects.filter(role="assistant")
    assert set(answers.values_list("input_tokens", "output_tokens", "latency_ms")) == {(10, 5, 7)}
    assert SessionMessage.objects.exclude(role="assistant").filter(input_tokens=None).count() == 3
    session = Session.objects.get()
    assert (session.message_count, session.input_tokens, session.output_tokens) == (6, 30, 15)
    assert session.last_activity_at > session.created_at
    # And they are restored as they were.
    assert build().messages[-1]["metadata"]["usage"]["inputTokens"] == 10


def test_the_messages_of_one_invocation_belong_to_one_run():
    agent = build(call("add", a=1, b=2), "Three.")
    agent("1 + 2?")
    agent("Thanks")

    runs = list(SessionMessage.objects.order_by("message_id").values_list("run_id", flat=True))
    assert len(set(runs[:4])) == len(set(runs[4:])) == 1
    assert runs[0] != runs[4]


def test_a_title_and_metadata_are_those_of_the_first():
    for title, metadata in [("First", {"a": 1}), ("Second", {"b": 2})]:
        build(session_manager=DjangoSessionManager("s", title=title, metadata=metadata))

    session = Session.objects.get()
    assert (session.title, session.metadata) == ("First", {"a": 1})


@pytest.mark.parametrize("loaded", [False, True])
def test_metadata_for_a_session_that_exists_is_told_once(caplog, loaded):
    def manager(value: Any) -> DjangoSessionManager:
        if loaded:
            return asyncio.run(DjangoSessionManager.load("s", metadata={"a": value}))
        return DjangoSessionManager("s", metadata={"a": value})

    for _ in range(2):
        build("Hello.", session_manager=manager(1))("Hi")
    assert not caplog.messages

    agent = build("Hello.", "Fine.", session_manager=manager("SECRET"))
    agent("Hi")
    agent("How are you?")

    session = Session.objects.get()
    assert session.metadata == {"a": 1}
    assert [message.partition(",")[0] for message in caplog.messages] == [
        f"session {session.pk} exists"
    ]
    assert "SECRET" not in caplog.text


def test_nothing_is_written_before_an_agent_is_built():
    DjangoSessionManager("s")

    assert not Session.objects.exists()


def test_the_session_of_somebody_else_is_not_found(ada, bob):
    build("Hello Ada.", owner=ada)("Hi")

    with pytest.raises(SessionNotFoundError):
        build(owner=bob)
    with pytest.raises(SessionNotFoundError):
        asyncio.run(DjangoSessionManager.load("s", owner=bob))

    assert texts(build(owner=ada.pk).messages) == ["Hi", "Hello Ada."]


def test_what_cannot_be_right_is_refused_at_once():
    with pytest.raises(InvalidIdError):
        DjangoSessionManager("..")
    with pytest.raises(InvalidIdError):
        DjangoSessionManager("s", namespace="\x00")
    with pytest.raises(ConfigurationError, match="on_conflict"):
        DjangoSessionManager("s", on_conflict="ignore")  # type: ignore[arg-type] # that is refused


class TestSeveralAgents:
    def test_each_agent_of_a_session_has_its_own_conversation(self):
        manager = DjangoSessionManager("s")
        one = build("I am one.", session_manager=manager, agent_id="one")
        two = build("I am two.", session_manager=manager, agent_id="two")
        one("Who?")
        two("And you?")

        assert texts(stored(agent_id="one")) == ["Who?", "I am one."]
        assert texts(stored(agent_id="two")) == ["And you?", "I am two."]
        assert texts(build(agent_id="two").messages) == ["And you?", "I am two."]
        assert Session.objects.get().message_count == 4

    def test_two_living_agents_of_one_id_are_refused(self):
        manager = DjangoSessionManager("s")
        first = build("Hello.", session_manager=manager)

        with pytest.raises(SessionException, match="create a manager for each run"):
            build(session_manager=manager)

        first("Hi")
        assert texts(stored()) == ["Hi", "Hello."]

    @pytest.mark.parametrize("loaded", [False, True])
    def test_an_agent_may_be_built_again_once_the_first_is_gone(self, loaded):
        build("Hello.")("Hi")
        manager = (
            asyncio.run(DjangoSessionManager.load("s")) if loaded else DjangoSessionManager("s")
        )
        gc.disable()
        try:
            first = build("Fine.", session_manager=manager)
            first("How are you?")
            first.state.set("mood", "good")
            manager.sync_agent(first)
            first.state.itself = first  # type: ignore[attr-defined]  # Only the garbage collector finds out that nobody holds it.
            del first

            second = build("Bye.", session_manager=manager)
        finally:
            gc.enable()

        assert texts(second.messages) == ["Hi", "Hello.", "How are you?", "Fine."]
        assert second.state.get() == {"mood": "good"}
        second("Bye")
        assert texts(stored())[-2:] == ["Bye", "Bye."]
        assert build().state.get() == {"mood": "good"}

    def test_what_was_restored_is_gone_with_its_agent_and_manager(self):
        build("Hello.")("Hi")
        gc.collect()
        gc.disable()
        try:
            manager = DjangoSessionManager("s")
            agent = build(session_manager=manager)
            work = weakref.ref(manager._work)
            # The SDK's own agent refers to itself, and is none of ours.
            agent.__dict__.clear()
            del agent, manager

            assert work() is None
        finally:
            gc.enable()

    def test_an_agent_of_another_manager_is_refused(self):
        stranger = build(session_id="other")

        with pytest.raises(SessionException, match="not built with the session manager of 's'"):
            DjangoSessionManager("s").append_message(
                {"role": "user", "content": [{"text": "Hi"}]}, stranger
            )
        assert not SessionMessage.objects.exists()


@pytest.mark.parametrize("drawn", [None, b"\xff" * 16])
def test_messages_of_another_tool_get_ids_of_their_own(monkeypatch, drawn):
    if drawn is not None:
        monkeypatch.setattr(os, "urandom", lambda size: drawn)
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"text": f"{n}"}]} for n in range(1_000)
    ]
    messages[500]["tracking_id"] = "its own"

    add_tracking_ids(messages)  # type: ignore[arg-type] # plain dicts

    ids = [message["tracking_id"] for message in messages]
    assert ids.pop(500) == "its own"
    assert len(set(ids)) == 999
    assert all(str(UUID(each)) == each and UUID(each).version == 4 for each in ids)


def test_a_stateful_model_keeps_its_own_history():
    build("Hello.", stateful=True)("Hi")

    again = build("Fine.", stateful=True)
    assert again.messages == []
    again("How are you?")

    assert texts(requests(again)[0]) == ["How are you?"]
    assert texts(stored()) == ["Hi", "Hello.", "How are you?", "Fine."]


def test_input_that_continues_a_turn_is_one_message():
    from strands.agent import _continuation

    def remind(event: BeforeModelCallEvent) -> None:
        if len(requests(agent)) == 0:
            _continuation.add_input(event, _continuation._ContinuationInput("and this"))

    agent = build("I see.")
    agent.add_hook(remind, BeforeModelCallEvent)
    agent("Look at that")

    assert texts(requests(agent)[0]) == ["Look at that and this"]
    assert texts(stored()) == ["Look at that and this", "I see."]
    assert "and this" in text_of(SessionMessage.objects.get(message_id=0))
    assert build().messages == agent.messages
    assert Session.objects.get().message_count == 2


@pytest.mark.parametrize(
    "column", ["state", "conversation_manager_state", "internal_state", "window"]
)
def test_an_agent_with_a_corrupt_state_is_not_restored_and_loses_nothing(column):
    build("Hello.")("Hi")
    build("I help.", agent_id="helper")("Help")
    corrupt = CorruptPayload('{"plantedsecret')
    SessionAgent.objects.filter(agent_id="default").update(**{column: corrupt})

    ahead = asyncio.run(DjangoSessionManager.load("s"))
    for manager in (DjangoSessionManager("s"), ahead):
        for _ in range(2):
            with pytest.raises(
                UnreadableStateError, match=rf"agent 'default' .*corrupt \({column}\)"
            ):
                build("Lost.", session_manager=manager)

    assert build("Yes.", agent_id="helper")("Again").message["content"] == [{"text": "Yes."}]
    assert texts(stored()) == ["Hi", "Hello."]
    row = SessionAgent.objects.get(agent_id="default")
    assert getattr(row, column) == corrupt
    setattr(row, column, None if column == "window" else {})
    row.save(update_fields=[column])
    assert texts(build().messages) == ["Hi", "Hello."]


@pytest.mark.parametrize(
    "state",
    [
        ["plantedsecret"],
        {"removed_message_count": 1},
        {"__name__": "SlidingWindowConversationManager"},
        {"__name__": "SlidingWindowConversationManager", "removed_message_count": "plantedsecret"},
        {"__name__": "SlidingWindowConversationManager", "removed_message_count": None},
        {"__name__": "SlidingWindowConversationManager", "removed_message_count": -1},
    ],
    ids=str,
)
def test_a_conversation_managers_state_of_another_form_is_named_and_loses_nothing(state):
    build("Hello.")("Hi")
    build("I help.", agent_id="helper")("Help")
    agents = SessionAgent.objects.filter(agent_id="default")
    update_content(agents, {"conversation_manager_state": state})

    ahead = asyncio.run(DjangoSessionManager.load("s"))
    for manager in (DjangoSessionManager("s"), ahead):
        with pytest.raises(UnreadableStateError, match=r"agent 'default' of session 's'") as raised:
            build("Lost.", session_manager=manager)
        assert str(Session.objects.get().pk) in str(raised.value)
        assert "plantedsecret" not in str(raised.value)

    assert build("Yes.", agent_id="helper")("Again").message["content"] == [{"text": "Yes."}]
    assert agents.get().conversation_manager_state == state
    assert texts(stored()) == ["Hi", "Hello."]


class TestConflicts:
    def agents(self, on_conflict: str) -> tuple[Agent, Agent]:
        build("Hello.")("Hi")
        return build("One.", on_conflict=on_conflict), build("Two.", on_conflict=on_conflict)

    def test_raise_tells_the_slower_one_and_writes_nothing(self):
        one, two = self.agents("raise")
        one("first")

        with pytest.raises(SessionConflictError, match="position 2"):
            two("second")
        with pytest.raises(SessionConflictError):
            two("once more")

        assert requests(two) == []
        assert texts(stored()) == ["Hi", "Hello.", "first", "One."]
        one("third")
        build("Four.", on_conflict="raise")("fourth")
        assert texts(stored())[4:] == ["third", "You said: third", "fourth", "Four."]

    def test_raise_tells_of_an_agent_that_another_process_made_meanwhile(self):
        one = build("One.", session_manager=asyncio.run(load_raising()))
        build("Hello.")("Hi")

        with pytest.raises(SessionConflictError):
            one("first")

        assert texts(stored()) == ["Hi", "Hello."]

    def test_whoever_read_the_end_goes_on_behind_it_whatever_could_be_restored(self):
        build("Hello.")("Hi")
        SessionMessage.objects.filter(message_id=1).update(message=CorruptPayload("{"))

        build("Fine.", on_conflict="raise")("How are you?")
        one = build("Bye.", session_manager=asyncio.run(load_raising()))
        two = build("Bye.", session_manager=asyncio.run(load_raising()))
        one("Bye")
        with pytest.raises(SessionConflictError):
            two("Bye")

        assert texts(one.messages) == ["Hi", "How are you?", "Fine.", "Bye", "Bye."]
        assert texts(stored()[2:]) == ["How are you?", "Fine.", "Bye", "Bye."]

    def test_an_import_of_which_nothing_is_restored_goes_on_behind_it(self):
        store = SessionStore()
        state = {**SlidingWindowConversationManager(0).get_state(), "removed_message_count": 2}
        agent = store.agents.create(
            store.create("s"),
            "default",
            dialect="strands",
            data=AgentState(conversation_manager_state=state),
        )
        store.append_many(
            agent, [{"role": "user", "content": []}, {"role": "assistant", "content": []}]
        )

        window = SlidingWindowConversationManager(0)
        build("Fine.", on_conflict="raise", conversation_manager=window)("How are you?")

        assert texts(stored()) == ["", "", "How are you?", "Fine."]


async def load_raising() -> DjangoSessionManager:
    return await DjangoSessionManager.load("s", on_conflict="raise")


def test_a_session_that_was_deleted_is_not_made_again():
    agent = build("Hello.", "Fine.")
    agent("Hi")
    Session.objects.all().delete()

    with pytest.raises(SessionNotFoundError):
        agent("Still there?")

    assert not Session.objects.exists()


def test_a_session_that_is_made_elsewhere_is_found_and_not_made():
    for use in (
        lambda: build(session_manager=DjangoSessionManager("s", create=False)),
        lambda: asyncio.run(DjangoSessionManager.load("s", create=False)),
    ):
        with pytest.raises(SessionNotFoundError):
            use()
    assert not Session.objects.exists()
    made = SessionStore().create("s", title="Plans")

    build("Hello.", session_manager=DjangoSessionManager("s", create=False))("Hi")

    assert texts(stored()) == ["Hi", "Hello."]
    assert SessionStore().get("s").id == made.id


def test_the_manager_is_found_by_isinstance():
    from strands.session.session_manager import SessionManager

    assert isinstance(DjangoSessionManager("s"), SessionManager)
    assert (
        Agent(
            model=ScriptedModel(), session_manager=DjangoSessionManager("t"), callback_handler=None
        ).messages
        == []
    )


def test_a_storage_of_the_agent_is_warned_of_because_the_manager_does_not_use_it(recwarn):
    build("Hello.")
    assert [str(warning.message) for warning in recwarn if "storage" in str(warning.message)] == []

    with pytest.warns(UserWarning, match=r"storage.*DjangoSessionManager does not use it"):
        build("Hello.", session_id="t", storage=InMemoryStorage())
