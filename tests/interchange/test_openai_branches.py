"""What ``AdvancedSQLiteSession`` wrote, imported: ``AdvancedDjangoSession`` goes on with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Usage
from agents.extensions.memory import AdvancedSQLiteSession

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession
from django_agent_sessions.interchange.importing import import_sessions
from django_agent_sessions.interchange.openai_advanced import OpenAIAdvancedSQLiteSource
from django_agent_sessions.models import Branch, Session, SessionMessage, TurnUsage
from tests.texts import text_of

pytestmark = pytest.mark.django_db(transaction=True)


def said(*texts: str) -> list[Any]:
    return [
        {"role": "assistant" if text.startswith("a") else "user", "content": text} for text in texts
    ]


def result(requests: int) -> Any:
    usage = Usage(requests=requests, input_tokens=10 * requests, output_tokens=1, total_tokens=11)
    return SimpleNamespace(context_wrapper=SimpleNamespace(usage=usage))


@pytest.fixture
def file(tmp_path):
    """A conversation with branches, usage, and names of branches that are gone."""
    path = tmp_path / "s.db"

    async def write() -> None:
        with closing(theirs(path)) as session:
            await session.add_items(said("q1", "a1"))
            await session.store_run_usage(result(1))
            await session.add_items(said("q2", "a2"))
            await session.store_run_usage(result(2))
            await session.create_branch_from_turn(2, "other way")
            await session.add_items(said("q2b", "a2b"))
            await session.store_run_usage(result(3))
            await session.create_branch_from_turn(2, "deleted")
            await session.add_items(said("q2c"))
            await session.switch_to_branch("other way")
            await session.delete_branch("deleted")
            await session.create_branch_from_turn(1, "empty")
            await session.switch_to_branch("main")
            await session.create_branch_from_turn(2, "\tno name of ours")

    asyncio.run(write())
    return path


def theirs(path: Any) -> AdvancedSQLiteSession:
    return AdvancedSQLiteSession(session_id="s", db_path=path, create_tables=True)


async def go_on(session: Any) -> list[Any]:
    """Uses a session, and tells all that it answers."""
    told: list[Any] = []

    async def look() -> None:
        for branch in sorted(await session.list_branches(), key=lambda each: each["branch_id"]):
            name = branch["branch_id"]
            if "no name" in name or name.startswith("branch-"):
                continue
            told.append((name, branch["message_count"], branch["user_turns"]))
            told.append(await session.get_items(branch_id=name))
            told.append(await session.get_conversation_by_turns(name))
            told.append(await session.get_turn_usage(branch_id=name))
            told.append(await session.get_session_usage(name))
        told.append(await session.get_session_usage())

    await look()
    for name in ("deleted", "empty", "other way"):
        with pytest.raises(ValueError, match="has already been used"):
            await session.create_branch_from_turn(1, name)
    with pytest.raises(ValueError, match="does not exist"):
        await session.switch_to_branch("deleted")
    await session.switch_to_branch("other way")
    await session.add_items(said("q3", "a3"))
    await session.store_run_usage(result(4))
    await session.create_branch_from_turn(3, "new")
    await session.pop_item()
    await session.pop_item()
    await session.add_items(said("q2d"))
    await look()
    return told


def test_an_imported_session_goes_on_as_where_it_came_from(file):
    report = import_sessions(OpenAIAdvancedSQLiteSource(file))

    with closing(theirs(file)) as session:
        expected = asyncio.run(go_on(session))
    assert asyncio.run(go_on(AdvancedDjangoSession("s"))) == expected
    [skipped] = report.skipped
    assert "name of branch 2" in skipped.place


def test_branches_and_turns_are_rows_and_shared_items_know_it(file):
    import_sessions(OpenAIAdvancedSQLiteSource(file))
    import_sessions(OpenAIAdvancedSQLiteSource(file))

    rows = Branch.objects.order_by("number")
    assert [(row.number, row.name, row.kind, row.start) for row in rows] == [
        (1, "other way", "imported", 2),
        (2, "branch-2", "imported", 2),
    ]
    turns = TurnUsage.objects.order_by("branch", "turn").values_list("branch", "turn", "requests")
    assert list(turns) == [(0, 1, 1), (0, 2, 2), (1, 2, 3)]
    shared = SessionMessage.objects.filter(source__isnull=False)
    assert sorted((row.branch, text_of(row)) for row in shared) == [
        (1, "a1"),
        (1, "q1"),
        (2, "a1"),
        (2, "q1"),
    ]
    assert Session.objects.get().input_tokens == 60


@pytest.mark.parametrize("stop", range(6))
def test_an_import_that_was_interrupted_makes_the_same_rows(file, stop):
    class StopError(Exception):
        pass

    def interrupt(report: Any) -> None:
        if report.messages > stop:
            raise StopError

    with pytest.raises(StopError):
        import_sessions(OpenAIAdvancedSQLiteSource(file), batch=1, progress=interrupt)
    import_sessions(OpenAIAdvancedSQLiteSource(file))

    firsts = Counter(
        SessionMessage.objects.filter(source__isnull=False).values_list("source", flat=True)
    )
    main = SessionMessage.objects.filter(branch=0, message_id__lt=2).values_list("pk", flat=True)
    assert firsts == dict.fromkeys(main, 2)
    assert TurnUsage.objects.count() == 3
    assert Branch.objects.count() == 2
