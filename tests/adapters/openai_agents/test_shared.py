"""One object, and one session, used by many tasks at once."""

from __future__ import annotations

import asyncio

import pytest
from agents import RunContextWrapper, Runner

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from tests.texts import text_of

from .scripted import call
from .team import assistant, stored, texts, user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["one object", "an object each"])
def session_of(request):
    """Tells the object that a task uses."""
    one = DjangoSession("s")
    return lambda: one if request.param == "one object" else DjangoSession("s")


async def test_batches_stay_whole_in_one_session_that_none_of_them_finds(session_of):
    batches = [[f"{number}-{part}" for part in range(4)] for number in range(25)]

    await asyncio.gather(
        *(session_of().add_items([user(text) for text in batch]) for batch in batches)
    )

    said = texts(await arun_orm(stored))
    assert sorted(said[first : first + 4] for first in range(0, 100, 4)) == sorted(batches)
    assert await arun_orm(Session.objects.count) == 1
    assert await arun_orm(SessionAgent.objects.count) == 1
    assert (await arun_orm(Session.objects.get)).message_count == 100


async def test_no_two_tasks_take_the_same_item(session_of):
    await session_of().add_items([user(str(number)) for number in range(30)])

    taken = await asyncio.gather(*(session_of().pop_item() for _ in range(35)))

    found = [int(text) for text in texts(item for item in taken if item is not None)]
    assert sorted(found) == list(range(30))
    assert taken.count(None) == 5
    assert await session_of().get_items() == []


async def test_readers_see_whole_batches_only(session_of):
    async def write() -> None:
        for number in range(15):
            await session_of().add_items([user(f"{number}-{part}") for part in range(3)])

    async def read() -> list[int]:
        return [len(await session_of().get_items()) for _ in range(15)]

    _, *lengths = await asyncio.gather(write(), read(), read())

    for seen in lengths:
        assert seen == sorted(seen)
        assert all(length % 3 == 0 for length in seen)


async def test_writers_and_clearers_leave_whole_batches_in_order_and_true_counters(session_of):
    async def write(name: str) -> None:
        for number in range(10):
            await session_of().add_items([user(f"{name}{number}"), user("-")])

    async def clear() -> None:
        for _ in range(5):
            await session_of().clear_session()
            await asyncio.sleep(0.005)

    await asyncio.gather(write("a"), write("b"), clear())

    said = texts(await DjangoSession("s").get_items())
    assert said[1::2] == ["-"] * (len(said) // 2)
    for name in "ab":
        own = [int(text[1:]) for text in said if text[0] == name]
        assert own == list(range(10 - len(own), 10))
    assert (await arun_orm(Session.objects.get)).message_count == len(said)


@pytest.mark.parametrize("position", [0, 1, -1, -2])
async def test_a_redaction_finds_its_item_although_positions_have_a_gap(position):
    """A conversation that was cleared while somebody appended may begin behind 0."""
    session = DjangoSession("s")
    await session.add_items([user(text) for text in "abcd"])
    await arun_orm(SessionMessage.objects.filter(message_id__in=[0, 2]).delete)

    await session.redact_item(position, "?")

    expected = ["b", "d"]
    expected[position] = "?"
    assert texts(await session.get_items()) == expected
    with pytest.raises(SessionNotFoundError):
        await session.redact_item(2, "?")


async def test_runs_at_the_same_time_keep_their_own_run_ids():
    session = DjangoSession("s")

    async def converse(name: str) -> None:
        agent = assistant(call("add", a=1, b=2), f"Done {name}.", delay=0.005)
        await Runner.run(agent, name, session=session)

    await asyncio.gather(*(converse(name) for name in "abcde"))

    rows = await arun_orm(lambda: [(m.run_id, text_of(m)) for m in SessionMessage.objects.all()])
    runs = {run_id for run_id, _ in rows}
    assert len(runs) == 5
    for name in "abcde":
        (run_id,) = (run_id for run_id, text in rows if text == name)
        assert (run_id, f"Done {name}.") in rows
        assert [one for one, _ in rows].count(run_id) == 4


async def test_a_context_that_is_used_again_is_the_same_run():
    one, other = RunContextWrapper(context=None), RunContextWrapper(context=None)
    session = DjangoSession("s")
    for wrapper in (one, other, one, None):
        await session.add_items([user("a")], wrapper=wrapper)

    rows = SessionMessage.objects.order_by("message_id").values_list("run_id", flat=True)
    first, second, third, none = await arun_orm(lambda: list(rows))
    assert first == third
    assert len({first, second, none}) == 3
    assert none is None
