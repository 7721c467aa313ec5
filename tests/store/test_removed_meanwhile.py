"""An append whose answer was lost, and whose messages another process removes before the retry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.models import SessionAgent, SessionMessage
from django_agent_sessions.models.removed_messages import MAX_REMOVED
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store._append import AppendWrite
from django_agent_sessions.values.records import AgentRecord, NewMessage, Usage
from tests.adapters.strands.agents import build, texts

from .cutting import cut_the_wire, user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("reconnected")]


def elsewhere(work: Callable[[], Any]) -> Any:
    """Does what another process does: in a thread, with a connection of its own."""

    def work_and_close() -> Any:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        return other.submit(work_and_close).result()


@contextmanager
def answer_lost(then: Callable[[], Any], *, outlasts: bool = False) -> Iterator[None]:
    """Cuts the connection after the next append is committed and before its answer is there.

    Args:
        then: What another process does at that moment.
        outlasts: Whether the retry fails, too, so that the writer gets the error.
    """
    really = AppendWrite._attempt
    met: list[AppendWrite] = []

    def attempt_and_cut(self: AppendWrite, unsure: bool) -> None:
        if met:
            if outlasts:
                raise OperationalError("the server is away")
            return really(self, unsure)
        met.append(self)
        really(self, unsure)
        elsewhere(then)
        cut_the_wire()
        raise InterfaceError("the answer did not arrive")

    AppendWrite._attempt = attempt_and_cut  # type: ignore[method-assign] # for one call
    try:
        yield
    finally:
        AppendWrite._attempt = really  # type: ignore[method-assign] # for one call
    assert met


def _pop(store: SessionStore, agent: AgentRecord) -> None:
    store.pop(agent)


def _clear(store: SessionStore, agent: AgentRecord) -> None:
    store.clear(agent)


def _rewind_and_delete(store: SessionStore, agent: AgentRecord) -> None:
    branch = store.branches.rewind(agent, 0)
    assert branch is not None
    store.branches.delete(agent, branch.number)


def _delete_rows(store: SessionStore, agent: AgentRecord) -> None:
    SessionMessage.objects.filter(agent=agent.id, message_id__gt=0).delete()


def _delete_instance(store: SessionStore, agent: AgentRecord) -> None:
    SessionMessage.objects.filter(agent=agent.id).latest("message_id").delete()


REMOVALS = [_pop, _clear, _rewind_and_delete, _delete_rows, _delete_instance]


@pytest.mark.parametrize("remove", REMOVALS)
def test_a_message_that_was_removed_before_the_retry_is_not_stored_again(store, agent, remove):
    store.append(agent, user("before"))

    with answer_lost(lambda: remove(store, agent)):
        record = store.append(agent, user("removed"))

    assert record.message_id == 1
    assert user("removed") not in store.payloads(agent)
    assert store.append(agent, user("after")).message_id == len(store.payloads(agent)) - 1


@pytest.mark.parametrize("popped", [1, 2, 3])
def test_of_a_batch_the_rest_stays(store, agent, popped):
    store.append(agent, user("before"))
    batch = [user(str(number)) for number in range(3)]

    with answer_lost(lambda: [store.pop(agent) for _ in range(popped)]):
        records = store.append_many(agent, batch)

    assert [record.message_id for record in records] == [1, 2, 3]
    assert store.payloads(agent) == [user("before"), *batch[: 3 - popped]]
    assert store.sessions.usage("session-1") == Usage(4 - popped)


def test_what_others_write_and_pop_in_between_does_not_hide_it(store, agent):
    def write_and_pop() -> None:
        store.pop(agent)
        for number in range(MAX_REMOVED - 1):
            store.append(agent, user(f"another {number}"))
            store.pop(agent)
        store.append(agent, user("kept"))

    with answer_lost(write_and_pop):
        store.append(agent, user("removed"))

    assert store.payloads(agent) == [user("kept")]


@pytest.mark.parametrize("remove", REMOVALS)
def test_it_is_not_stored_again_by_a_caller_who_repeats_it(store, agent, remove, settings):
    settings.AGENT_SESSIONS = {"RETRY_SECONDS": 0}
    store.append(agent, user("before"))
    new = NewMessage(user("removed"))

    with pytest.raises(InterfaceError), answer_lost(lambda: remove(store, agent)):
        store.append(agent, new)
    connection.close()
    record = store.append(agent, new, again=True)

    assert record.message_id == 1
    assert user("removed") not in store.payloads(agent)


def test_a_message_that_never_arrived_is_stored_although_others_were_popped(store, agent, settings):
    settings.AGENT_SESSIONS = {"RETRY_SECONDS": 0}
    new = NewMessage(user("a"))
    store.append(agent, user("popped"))
    store.pop(agent)

    assert store.append(agent, new, again=True).message_id == 0
    assert store.payloads(agent) == [user("a")]


def test_the_row_remembers_a_bounded_number_of_keys(store, agent):
    store.append_many(agent, [user(str(number)) for number in range(3 * MAX_REMOVED)])
    store.clear(agent)
    cleared = SessionAgent.objects.get(pk=agent.id).removed_messages or ""
    store.append(agent, user("a"))
    store.pop(agent)

    after = SessionAgent.objects.get(pk=agent.id).removed_messages or ""
    assert len(after) == len(cleared) == 40 * MAX_REMOVED
    assert after[40:] == cleared[:-40]


@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
@pytest.mark.parametrize("clear", [False, True])
def test_a_popped_item_is_not_stored_again_by_the_sdks_session(session_class, clear):
    session, other = session_class("s"), session_class("s")
    asyncio.run(session.add_items([user("before")]))
    remove = other.clear_session if clear else other.pop_item

    with answer_lost(lambda: asyncio.run(remove())):
        asyncio.run(session.add_items([user("removed")]))

    assert asyncio.run(session.get_items()) == ([] if clear else [user("before")])


@pytest.mark.parametrize("outlasts", [False, True])
def test_a_popped_message_is_not_stored_again_by_an_agent(settings, outlasts):
    settings.AGENT_SESSIONS = {"RETRY_SECONDS": 0.1}
    build("first")("before")
    agent = build("answer", "again")
    store = SessionStore()

    def pop() -> None:
        store.pop(store.agents.list(store.get("s"))[0])

    with suppress(InterfaceError, OperationalError), answer_lost(pop, outlasts=outlasts):
        agent("removed")
    agent("next")

    kept = texts(store.payloads(store.agents.list(store.get("s"))[0]))
    assert "removed" not in kept
    assert kept[:2] == ["before", "first"]
    assert kept[-2] == "next"
