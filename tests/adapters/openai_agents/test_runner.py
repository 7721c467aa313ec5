"""Conversations under the SDK's Runner, in each of its three ways to run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, SessionSettings
from django.contrib.auth import get_user_model
from django.db import transaction

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.db.bridge import arun_orm, joined
from django_agent_sessions.models import Session, SessionMessage

from .scripted import call, hand_over
from .team import assistant, requests, stored, texts

pytestmark = [
    pytest.mark.django_db(transaction=True),
    # Runner.run_sync asks for it.
    pytest.mark.filterwarnings("ignore:'asyncio.get_event_loop_policy':DeprecationWarning"),
]


async def stream(agent: Agent[Any], text: str, **options: Any) -> Any:
    result = Runner.run_streamed(agent, text, **options)
    async for _ in result.stream_events():
        pass
    return result


@pytest.fixture(params=["run", "run_sync", "run_streamed"])
def run(request, thread_loop):
    """Runs an agent once, and returns its result."""

    def run_once(agent: Agent[Any], text: Any, session: Any, **options: Any) -> Any:
        if request.param == "run_sync":
            return Runner.run_sync(agent, text, session=session, **options)
        way: Any = Runner.run if request.param == "run" else stream
        return asyncio.run(way(agent, text, session=session, **options))

    return run_once


def test_a_conversation_goes_on_in_another_process(run):
    assert run(assistant("Hello Ada."), "I am Ada", DjangoSession("s")).final_output == "Hello Ada."

    again = assistant("You are Ada.")
    run(again, "Who am I?", DjangoSession("s"))

    assert texts(requests(again)[0]) == ["I am Ada", "Hello Ada.", "Who am I?"]
    assert texts(stored()) == ["I am Ada", "Hello Ada.", "Who am I?", "You are Ada."]


def test_one_object_serves_many_runs(run):
    session = DjangoSession("s")
    agent = assistant()
    for text in ("a", "b", "c"):
        run(agent, text, session)

    assert texts(stored()) == ["a", "You said: a", "b", "You said: b", "c", "You said: c"]
    assert texts(requests(agent)[2]) == ["a", "You said: a", "b", "You said: b", "c"]


def test_tool_calls_and_their_outputs_are_restored(run):
    agent = assistant([call("add", a=2, b=3), call("add", a=4, b=5)], "5 and 9.")
    result = run(agent, "2 + 3? 4 + 5?", DjangoSession("s"))

    said = ["2 + 3? 4 + 5?", "call add", "call add", "output 5", "output 9", "5 and 9."]
    assert texts(stored()) == said
    assert stored() == result.to_input_list()
    again = assistant()
    run(again, "Sure?", DjangoSession("s"))
    assert requests(again)[0][:6] == stored()[:6]
    roles = SessionMessage.objects.order_by("message_id").values_list("role", flat=True)
    assert list(roles)[:6] == ["user", "assistant", "assistant", "tool", "tool", "assistant"]


def test_a_handoff_takes_the_conversation_along(run):
    billing = assistant("You owe nothing.", name="billing")
    front = assistant(hand_over("billing"), name="front", handoffs=[billing])

    result = run(front, "What do I owe?", DjangoSession("s"))

    assert (result.last_agent, result.final_output) == (billing, "You owe nothing.")
    assert texts(stored())[:2] == ["What do I owe?", "call transfer_to_billing"]
    assert texts(stored())[-1] == "You owe nothing."
    run(assistant(), "Thanks", DjangoSession("s"))
    assert len(stored()) == 6


def test_the_items_of_one_run_have_one_run_id(run):
    session = DjangoSession("s")
    run(assistant(call("add", a=1, b=1), "2."), "1 + 1?", session)
    run(assistant("Yes."), "Sure?", session)

    runs = list(SessionMessage.objects.order_by("message_id").values_list("run_id", flat=True))
    assert None not in runs
    assert [runs.count(run_id) for run_id in dict.fromkeys(runs)] == [4, 2]


def test_items_that_no_run_wrote_have_no_run_id():
    asyncio.run(DjangoSession("s").add_items([{"role": "user", "content": "a"}]))

    assert list(SessionMessage.objects.values_list("run_id", flat=True)) == [None]


@pytest.mark.parametrize(
    ("of_session", "of_run", "history"),
    [(None, None, 4), (2, None, 2), (None, 3, 3), (1, 3, 3), (3, 1, 1), ({"limit": 2}, None, 2)],
)
def test_settings_limit_what_the_model_is_given(run, of_session, of_run, history):
    session = DjangoSession("s")
    run(assistant(), "a", session)
    run(assistant(), "b", session)
    settings = SessionSettings(of_session) if isinstance(of_session, int) else of_session
    config = RunConfig(session_settings=SessionSettings(of_run) if of_run else None)

    agent = assistant()
    run(agent, "c", DjangoSession("s", session_settings=settings), run_config=config)

    said = ["a", "You said: a", "b", "You said: b"]
    assert texts(requests(agent)[0]) == [*said[-history:], "c"]
    assert len(stored()) == 6


def test_what_a_transaction_undoes_leaves_nothing(run):
    session = DjangoSession("s")
    with transaction.atomic():
        run(assistant(call("aregister", name="ada"), "Done."), "Register ada", session)
        assert len(stored()) == 4
        transaction.set_rollback(True)

    assert not Session.objects.exists()
    assert not get_user_model().objects.exists()
    run(assistant(), "Anew", session)
    assert texts(stored()) == ["Anew", "You said: Anew"]


def test_what_a_transaction_commits_stays(run):
    with transaction.atomic():
        run(assistant(call("aregister", name="ada"), "Done."), "Register", DjangoSession("s"))

    assert texts(stored()) == ["Register", "call aregister", "output registered ada", "Done."]
    assert get_user_model().objects.get().username == "ada"


@pytest.mark.parametrize("kept", [True, False])
def test_a_sync_tool_joins_a_transaction_that_says_it_waits(run, kept):
    agent = assistant(call("register", name="ada"), "Done.")
    with transaction.atomic():
        with joined():
            run(agent, "Register ada", DjangoSession("s"))
        transaction.set_rollback(not kept)

    assert get_user_model().objects.count() == kept
    assert len(stored()) == 4 * kept


def test_sync_tools_use_the_database_without_a_transaction(run):
    run(assistant(call("register", name="ada"), "Done."), "Register ada", DjangoSession("s"))

    assert texts(stored())[2] == "output registered ada"
    assert get_user_model().objects.get().username == "ada"


# Over a second: fifty agents run.
async def test_fifty_conversations_go_on_side_by_side():
    async def converse(number: int) -> None:
        for text in ("a", "b"):
            agent = assistant(call("add", a=number, b=1), delay=0.005)
            await Runner.run(agent, f"{text}{number}", session=DjangoSession(f"s{number}"))

    await asyncio.gather(*map(converse, range(50)))

    found = await arun_orm(lambda: [texts(stored(f"s{number}")) for number in range(50)])
    for number, said in enumerate(found):
        assert said == [
            text
            for turn in (f"a{number}", f"b{number}")
            for text in (turn, "call add", f"output {number + 1}", f"You said: {turn}")
        ]


async def test_two_runs_on_one_conversation_keep_all_items():
    async def converse(name: str) -> None:
        agent = assistant(call("add", a=1, b=1), "2.", delay=0.02)
        await Runner.run(agent, name, session=DjangoSession("s"))

    await asyncio.gather(converse("one"), converse("two"))

    items: Any = await DjangoSession("s").get_items()
    called = [item["call_id"] for item in items if item.get("type") == "function_call"]
    done = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert len(items) == 8
    assert sorted(called) == sorted(done)
    # What is restored is whole: the model is given every item of both.
    after = assistant()
    await Runner.run(after, "And?", session=DjangoSession("s"))
    assert requests(after)[0][:8] == items
