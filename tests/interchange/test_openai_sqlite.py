"""The files are written by the SDK's own classes, and read back beside them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession, EncryptedSession
from agents.usage import Usage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.interchange.openai_advanced import OpenAIAdvancedSQLiteSource
from django_agent_sessions.interchange.openai_sources import OpenAISQLiteSource
from django_agent_sessions.interchange.sources import Skipped, SourceMessage
from django_agent_sessions.models import Session, SessionMessage
from tests.strategies import exactly

from .openai_items import (
    agent_of,
    batches,
    items_of,
    messages_of,
    said,
    session_of,
    sessions_of,
    skipped_of,
)

SOURCES = [OpenAISQLiteSource, OpenAIAdvancedSQLiteSource]
each_source = pytest.mark.parametrize("source_class", SOURCES)


@pytest.fixture
def file(tmp_path):
    # A name that an address has to escape.
    return tmp_path / "what? 100%#1.db"


def plain(file, name="s", **options):
    return closing(SQLiteSession(name, file, **options))


@contextmanager
def advanced(file, name="s", **options):
    with closing(
        AdvancedSQLiteSession(session_id=name, db_path=file, create_tables=True, **options)
    ) as session:
        yield session


def written_by(source_class, file, name="s", **options):
    kind = plain if source_class is OpenAISQLiteSource else advanced
    return kind(file, name, **options)


def change(file, statement, parameters=()):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement, parameters)


@each_source
@given(batches)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
def test_items_are_what_get_items_gives(source_class, tmp_path_factory, added):
    file = tmp_path_factory.mktemp("sdk") / "sessions.db"
    with written_by(source_class, file) as session:
        for items in added:
            asyncio.run(session.add_items(items))
        expected = asyncio.run(session.get_items())
    source = source_class(file)

    assert source.count() == len(list(source.sessions())) == (1 if any(added) else 0)
    if any(added):
        assert exactly(items_of(source, "s")) == exactly(expected)


@each_source
async def test_sessions_come_by_name_each_with_its_own_items(source_class, file):
    names = ["b", "a", "Ä", "semi;colon'\"", ""]
    for name in names:
        with written_by(source_class, file, name) as session:
            await session.add_items(said(name))
    source = source_class(file)

    assert [each.session_id for each in sessions_of(source)] == sorted(names)
    assert [items_of(source, name) for name in names] == [said(name) for name in names]
    assert source.count() == 5


@each_source
async def test_a_long_conversation_is_read_in_parts_while_it_grows_and_shrinks(source_class, file):
    with written_by(source_class, file) as session:
        # Beyond several parts; the large ones make a part small.
        items = [{"n": number, "text": "x" * (number % 7 * 1000)} for number in range(3000)]
        await session.add_items(items)
        source = source_class(file)
        messages = iter(agent_of(source, "s").messages)
        first = next(messages)
        await session.add_items([{"n": "later"}])
        change(file, "DELETE FROM agent_messages WHERE id = 2000")

        payloads = [each.payload for each in (first, *messages) if isinstance(each, SourceMessage)]
        assert payloads == [item for item in items if item["n"] != 1999]
        assert exactly(items_of(source, "s")) == exactly(await session.get_items())


@each_source
async def test_times_are_those_of_the_file(source_class, file):
    with written_by(source_class, file) as session:
        await session.add_items(said("a"))
    source = source_class(file)
    session, [message] = session_of(source, "s"), messages_of(source, "s")

    for time in (session.created_at, session.updated_at, message.created_at):
        assert time is not None
        assert abs(time - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    "time", ["soon", 7, None, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
async def test_what_is_no_time_is_no_time(file, time):
    with plain(file) as session:
        await session.add_items(said("a"))
    change(file, "UPDATE agent_messages SET created_at = ?", (time,))

    [message] = messages_of(OpenAISQLiteSource(file), "s")

    assert message.created_at is None


CORRUPT = ["", "{", '"text"', "[1]", "null", '{"a": nan}', '{"a": 1e}', "[" * 100_000]


@each_source
async def test_corrupt_rows_are_skipped_by_key_and_hide_no_others(source_class, file):
    with written_by(source_class, file) as session:
        await session.add_items(said(*"abcdefghijkl"))
    for key, text in enumerate(CORRUPT, 2):
        change(file, "UPDATE agent_messages SET message_data = ? WHERE id = ?", (text, key))
    # Text that is no UTF-8, on which the SDK itself fails.
    change(
        file,
        "UPDATE agent_messages SET message_data = CAST(x'7b22ff227d' AS TEXT) WHERE id = 10",
    )
    source = source_class(file)

    assert [item["content"] for item in items_of(source, "s")] == ["a", "k", "l"]
    assert skipped_of(source, "s") == [
        Skipped(
            f"agent_messages id={key}",
            "it is JSON, but not an object" if 4 <= key <= 6 else "it is not JSON",
        )
        for key in range(2, 11)
    ]
    # In their places.
    assert [type(each) for each in agent_of(source, "s").messages][:3] == [
        SourceMessage,
        Skipped,
        Skipped,
    ]


@each_source
async def test_a_damaged_page_hides_only_what_is_on_it(source_class, file):
    with written_by(source_class, file) as session:
        # Each on many pages of its own.
        await session.add_items(
            [{"n": number, "text": str(number) * 60_000} for number in range(6)]
        )
    content = bytearray(file.read_bytes())
    middle = (content.find(b"3" * 2_000) + 20_000) // 4096 * 4096
    content[middle : middle + 8192] = b"\xff" * 8192
    file.write_bytes(content)
    source = source_class(file)

    assert [item["n"] for item in items_of(source, "s")] == [0, 1, 2, 4, 5]
    assert skipped_of(source, "s") == [Skipped("agent_messages id=4", "it cannot be read")]


async def test_json_as_bytes_is_read_as_the_sdk_reads_it(file):
    with plain(file) as session:
        await session.add_items([{"a": 1}, {"b": 2}])
        change(file, "UPDATE agent_messages SET message_data = CAST(message_data AS BLOB)")
        change(file, "UPDATE agent_messages SET message_data = 7 WHERE id = 2")

        assert items_of(OpenAISQLiteSource(file), "s") == (await session.get_items())[:1]
        assert len(skipped_of(OpenAISQLiteSource(file), "s")) == 1


async def test_a_session_whose_name_is_no_text_is_skipped(file):
    with plain(file) as session:
        await session.add_items(said("a"))
    change(file, "INSERT INTO agent_sessions (session_id) VALUES (CAST(x'ff00' AS TEXT))")

    found = list(OpenAISQLiteSource(file).sessions())

    assert found[1] == Skipped("agent_sessions session_id=x'ff00'", "not text")
    assert len(found) == 2


async def test_a_session_without_a_row_of_its_own_still_has_its_items(file):
    with plain(file) as session:
        await session.add_items(said("a"))
        change(file, "DELETE FROM agent_sessions")
        source = OpenAISQLiteSource(file)

        assert items_of(source, "s") == await session.get_items() == said("a")
        assert session_of(source, "s").created_at is None


async def test_tables_may_have_other_names(file):
    options = {"sessions_table": "chats", "messages_table": "lines"}
    with plain(file, **options) as session:
        await session.add_items(said("a"))

    assert items_of(OpenAISQLiteSource(file, **options), "s") == said("a")
    with pytest.raises(ConfigurationError, match="no table 'agent_sessions'"):
        OpenAISQLiteSource(file).count()


@each_source
async def test_reading_changes_nothing(source_class, file):
    with written_by(source_class, file) as session:
        await session.add_items(said("a", "b"))
    before = file.read_bytes()

    items_of(source_class(file), "s")

    # The write-ahead log that SQLite makes to read is empty.
    beside = {each.name: each.stat().st_size for each in file.parent.iterdir()}
    assert file.read_bytes() == before
    assert beside.get(f"{file.name}-wal", 0) == 0


@each_source
def test_what_is_no_file_of_the_sdk_is_refused_and_not_made(source_class, tmp_path):
    empty, text, missing = tmp_path / "empty.db", tmp_path / "text.db", tmp_path / "missing.db"
    empty.touch()
    text.write_text("no database, but long enough to look at" * 100)

    for path, words in (
        (empty, "no table"),
        (text, "cannot be read as an SQLite database"),
        (missing, "is not a file"),
        (tmp_path, "is not a file"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            source_class(path).count()
        with pytest.raises(ConfigurationError, match=words):
            next(source_class(path).sessions())
    assert not missing.exists()


@pytest.mark.django_db(transaction=True)
def test_an_import_gives_an_agent_what_the_sdk_gave(file):
    async def write():
        with plain(file) as session:
            await session.add_items(said(*"abcdef"))
            await session.add_items([{"type": "reasoning", "z": "\ud800\x00", "a": 1.0}])
            return await session.get_items()

    expected = asyncio.run(write())

    report = import_sessions(OpenAISQLiteSource(file))
    again = import_sessions(OpenAISQLiteSource(file))

    assert (report.made, report.messages, report.skipped) == (1, 7, [])
    assert (again.unchanged, again.messages) == (1, 0)
    assert exactly(asyncio.run(DjangoSession("s").get_items())) == exactly(expected)


@pytest.mark.django_db(transaction=True)
def test_encrypted_items_are_read_with_the_same_key_after_an_import(file):
    def encrypted(session):
        return EncryptedSession("s", session, encryption_key="secret", ttl=3600)

    async def write():
        with plain(file) as session:
            await encrypted(session).add_items(said("a", "b"))

    asyncio.run(write())

    import_sessions(OpenAISQLiteSource(file))

    assert asyncio.run(encrypted(DjangoSession("s")).get_items()) == said("a", "b")


@pytest.mark.django_db(transaction=True)
def test_an_import_has_every_branch_as_the_sdk_has_it(file):
    expected = asyncio.run(branched(file))

    report = import_sessions(OpenAIAdvancedSQLiteSource(file))

    session = Session.objects.get(session_id="s")
    numbers = session.metadata["openai_branches"]
    rows = SessionMessage.objects.filter(session=session).order_by("branch", "message_id")
    stored = {
        name: [row.message for row in rows if row.branch == number]
        for name, number in numbers.items()
    }
    assert stored == expected
    assert report.skipped == []
    assert asyncio.run(DjangoSession("s").get_items()) == expected["main"]


# --- Branches ------------------------------------------------------------------------------------


async def branched(file, *, name="s"):
    """A conversation with a fork, a fork of the fork, and a branch that was deleted."""
    with advanced(file, name) as session:
        await session.add_items(said("q1", "a1", "q2", "a2", "q3", "a3"))
        await session.create_branch_from_turn(2, "other way")
        await session.add_items(said("q2b", "a2b", "q3b", "a3b"))
        await session.create_branch_from_turn(1, "from the start")
        await session.add_items(said("q1c"))
        await session.switch_to_branch("other way")
        await session.create_branch_from_turn(3, "gone")
        await session.create_branch_from_turn(2, "fork of a fork")
        await session.add_items(said("q2d"))
        await session.delete_branch("gone")
        await session.switch_to_branch("main")
        await session.pop_item()
        await session.add_items(said("q4"))
        return {
            each["branch_id"]: await session.get_items(branch_id=each["branch_id"])
            for each in await session.list_branches()
        }


async def test_a_branch_has_all_items_that_get_items_gives_for_it(file):
    expected = await branched(file)
    source = OpenAIAdvancedSQLiteSource(file)

    numbers = session_of(source, "s").columns["metadata"]["openai_branches"]
    assert numbers == {"main": 0, "other way": 1, "from the start": 2, "fork of a fork": 3}
    assert {name: items_of(source, "s", branch=number) for name, number in numbers.items()} == (
        expected
    )
    assert [item["content"] for item in expected["fork of a fork"]] == ["q1", "a1", "q2d"]


async def test_what_is_added_to_any_branch_comes_after_all_that_was_there(file):
    await branched(file)
    source = OpenAIAdvancedSQLiteSource(file)
    before = messages_of(source, "s")

    with advanced(file) as session:
        await session.add_items(said("on main"))
        await session.create_branch_from_turn(2, "newer")
        await session.switch_to_branch("other way")
        await session.add_items(said("on the other"))

    # So an import that was interrupted goes on where it was.
    after = messages_of(source, "s")
    assert after[: len(before)] == before
    assert [each.branch for each in after[len(before) :]] == [0, 4, 4, 1]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
def test_any_branches_are_what_get_items_gives(tmp_path_factory, steps):
    file = tmp_path_factory.mktemp("sdk") / "sessions.db"

    async def write():
        with advanced(file) as session:
            await session.add_items(said("q", "a", "q", "a"))
            for number, (switch, turn) in enumerate(steps):
                branches = sorted(each["branch_id"] for each in await session.list_branches())
                await session.switch_to_branch(branches[switch % len(branches)])
                turns = await session.get_conversation_turns()
                await session.create_branch_from_turn(turns[turn % len(turns)]["turn"])
                await session.add_items(said(f"q{number}", f"a{number}"))
            return {
                each["branch_id"]: await session.get_items(branch_id=each["branch_id"])
                for each in await session.list_branches()
            }

    expected = asyncio.run(write())
    source = OpenAIAdvancedSQLiteSource(file)
    numbers = session_of(source, "s").columns["metadata"]["openai_branches"]

    assert {name: items_of(source, "s", branch=number) for name, number in numbers.items()} == (
        expected
    )


async def test_usage_is_summed_by_branch_as_the_sdk_sums_it(file):
    def result(inputs, outputs):
        usage = Usage(
            requests=1,
            input_tokens=inputs,
            output_tokens=outputs,
            total_tokens=inputs + outputs,
            input_tokens_details=InputTokensDetails(cached_tokens=1, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=2),
        )
        return SimpleNamespace(context_wrapper=SimpleNamespace(usage=usage))

    with advanced(file) as session:
        for inputs in (10, 20):
            await session.add_items(said("q", "a"))
            await session.store_run_usage(result(inputs, 5))
        await session.create_branch_from_turn(2, "b")
        await session.add_items(said("q", "a"))
        await session.store_run_usage(result(7, 1))
        expected = {name: await session.get_session_usage(name) for name in ("main", "b")}

        total = await session.get_session_usage()

    columns = session_of(OpenAIAdvancedSQLiteSource(file), "s").columns
    metadata = columns["metadata"]

    assert total is not None
    assert (columns["input_tokens"], columns["output_tokens"]) == (
        total["input_tokens"],
        total["output_tokens"],
    )
    assert {
        name: {"total_turns": usage.pop("turns"), **usage}
        for name, usage in metadata["openai_usage"].items()
    } == expected
    assert total["input_tokens"] == 37
    json.dumps(metadata)


async def test_a_file_without_a_table_of_usage_is_read_without_usage(file):
    await branched(file)
    change(file, "DROP TABLE turn_usage")

    columns = session_of(OpenAIAdvancedSQLiteSource(file), "s").columns

    assert set(columns) == {"metadata"}
    assert set(columns["metadata"]) == {"openai_branches"}


async def test_a_file_with_branches_is_not_read_as_one_conversation(file):
    await branched(file)

    with pytest.raises(ConfigurationError, match="openai-advanced-sqlite"):
        OpenAISQLiteSource(file).count()


async def test_a_file_without_branches_can_be_read_as_either(file):
    with advanced(file) as session:
        await session.add_items(said("q", "a"))

    assert items_of(OpenAISQLiteSource(file), "s") == said("q", "a")


async def test_a_file_of_the_plain_class_is_no_advanced_one(file):
    with plain(file) as session:
        await session.add_items(said("q"))

    with pytest.raises(ConfigurationError, match="openai-sqlite"):
        OpenAIAdvancedSQLiteSource(file).count()


async def test_sessions_of_the_plain_class_in_the_same_file_are_read_as_it_reads_them(file):
    await branched(file)
    with plain(file, "simple") as session:
        await session.add_items(said("q", "a"))
    source = OpenAIAdvancedSQLiteSource(file)

    assert items_of(source, "simple") == said("q", "a")
    assert session_of(source, "simple").columns == {}


async def test_items_that_are_on_no_branch_are_reported(file):
    with plain(file) as session:
        await session.add_items(said("before", "it"))
    with advanced(file) as session:
        await session.add_items(said("q", "a"))
        expected = await session.get_items()
    source = OpenAIAdvancedSQLiteSource(file)

    [skipped] = session_of(source, "s").skipped
    assert items_of(source, "s") == expected == said("q", "a")
    assert skipped.place == "agent_messages session_id='s' id=1…2"
    assert skipped.reason.startswith("2 items are on no branch")
