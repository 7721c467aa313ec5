"""The databases are written by the SDK's ``SQLAlchemySession``, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import quote_plus
from uuid import uuid4

import psycopg
import pytest
from agents.extensions.memory import SQLAlchemySession
from hypothesis import HealthCheck, given, settings
from psycopg.sql import SQL, Identifier
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from django_agent_sessions.exceptions import ConfigurationError, MissingDependencyError
from django_agent_sessions.interchange.openai_sources import OpenAISQLAlchemySource
from django_agent_sessions.interchange.sources import Skipped, SourceMessage, SourceSession
from tests.strategies import exactly

from .openai_items import batches, items_of, messages_of, said, session_of, sessions_of, skipped_of

_run = uuid4().hex[:8]
SESSIONS, ITEMS = f"agent_sessions_{_run}", f"agent_messages_{_run}"


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite+aiosqlite:///{tmp_path / 'what 100%#1.db'}"


@pytest.fixture(scope="module")
def postgresql():
    """The URL of a database that is there anyway; our tables in it have names of their own."""
    host = os.environ.get("PGHOST", "127.0.0.1")
    if host.startswith("/"):
        pytest.skip("PostgreSQL is reached by a socket, of which a URL says nothing")
    user, password = os.environ.get("PGUSER", "postgres"), os.environ.get("PGPASSWORD", "")
    place = f"{user}:{quote_plus(password)}@{host}:{os.environ.get('PGPORT', '5432')}/postgres"
    try:
        connection = psycopg.connect(f"postgresql://{place}", autocommit=True)
    except psycopg.OperationalError:
        pytest.skip("PostgreSQL does not answer")
    with connection:
        try:
            yield f"postgresql+asyncpg://{place}"
        finally:
            for table in (ITEMS, SESSIONS):
                connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(table)))


@pytest.fixture(params=["sqlite_url", "postgresql"])
def url(request):
    return request.getfixturevalue(request.param)


@asynccontextmanager
async def engine_of(url):
    engine = create_async_engine(url)
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def written(url, name="s", sessions_table=SESSIONS, messages_table=ITEMS, **options):
    async with engine_of(url) as engine:
        yield SQLAlchemySession(
            name,
            engine=engine,
            create_tables=True,
            sessions_table=sessions_table,
            messages_table=messages_table,
            **options,
        )


def source_of(url, **options):
    return OpenAISQLAlchemySource(url, sessions_table=SESSIONS, messages_table=ITEMS, **options)


async def test_items_are_what_get_items_gives(url):
    name = uuid4().hex
    async with written(url, name) as session:
        # One statement's rows have one time: only the key orders them.
        await session.add_items(items := [{"n": number} for number in range(1200)])
        await session.add_items(more := [{"text": "\x00\ud800é", "z": 1, "a": 1.0}])
        source = source_of(url)

        assert exactly(items_of(source, name)) == exactly(await session.get_items())
        assert items_of(source, name) == items + more


async def test_equal_and_earlier_times_are_ordered_as_the_sdk_orders_them(url):
    name = uuid4().hex
    async with written(url, name) as session:
        await session.add_items(said(*"abcdef"))
        async with session.engine.begin() as connection:
            # The last two are the oldest, and one of them is exact to less than a second.
            for content, time in (
                ("e", "2020-01-01 00:00:00"),
                ("f", "2020-01-01 00:00:00.000001"),
            ):
                await connection.execute(
                    text(
                        f"UPDATE {ITEMS} SET created_at = '{time}' WHERE session_id = "
                        f"'{name}' AND message_data LIKE '%\"{content}\"%'"
                    )
                )
        expected = await session.get_items()

        assert items_of(source_of(url), name) == expected
        assert [item["content"] for item in expected] == list("efabcd")


async def test_sessions_come_each_with_its_own_items_and_times(url):
    names = [uuid4().hex, f"Ä '{uuid4().hex}"]
    for name in names:
        async with written(url, name) as session:
            await session.add_items(said(name))
    source = source_of(url)
    found = [each.session_id for each in sessions_of(source)]

    assert set(names) <= set(found)
    assert found == [each.session_id for each in sessions_of(source)]
    assert source.count() == len(found)
    for name in names:
        session, [message] = session_of(source, name), messages_of(source, name)
        assert message.payload == said(name)[0]
        for time in (session.created_at, session.updated_at, message.created_at):
            assert time is not None
            assert abs(time - datetime.now(UTC)) < timedelta(hours=15)


async def test_a_url_with_a_sync_driver_reads_the_same(postgresql):
    name = uuid4().hex
    async with written(postgresql, name) as session:
        await session.add_items(said("a", "b"))
    url = postgresql.replace("+asyncpg", "+psycopg")

    assert items_of(source_of(url), name) == said("a", "b")


async def test_the_url_of_a_file_may_be_an_address(sqlite_url, tmp_path):
    async with written(sqlite_url) as session:
        await session.add_items(said("a"))
    [file] = tmp_path.glob("*.db")
    file.rename(plain := tmp_path / "plain.db")

    assert items_of(source_of(f"sqlite:///file:{plain}?uri=true"), "s") == said("a")


@given(batches)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
def test_any_items_are_what_get_items_gives(tmp_path_factory, added):
    url = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('sdk') / 'sessions.db'}"

    async def write():
        async with written(url, ensure_ascii=bool(len(added) % 2)) as session:
            await session.get_items()
            for items in added:
                # Readable text cannot hold a lone surrogate, and the SDK does not write it.
                try:
                    await session.add_items(items)
                except UnicodeEncodeError:
                    continue
            return await session.get_items()

    expected = asyncio.run(write())
    source = source_of(url)

    assert source.count() == bool(expected)
    if expected:
        assert exactly(items_of(source, "s")) == exactly(expected)


async def test_corrupt_rows_are_skipped_by_key_and_hide_no_others(url):
    name = uuid4().hex
    async with written(url, name) as session:
        await session.add_items(said("a", "b", "c"))
        async with session.engine.begin() as connection:
            found = await connection.execute(
                text(f"SELECT id FROM {ITEMS} WHERE session_id = '{name}' ORDER BY id")
            )
            key = found.all()[1][0]
            await connection.execute(
                text(f"UPDATE {ITEMS} SET message_data = '[1' WHERE id = {key}")
            )
        expected = await session.get_items()
    source = source_of(url)

    assert items_of(source, name) == expected
    assert skipped_of(source, name) == [Skipped(f"{ITEMS} id={key}", "it is not JSON")]


async def test_times_without_a_zone_are_of_the_zone_that_is_given(sqlite_url):
    async with written(sqlite_url) as session:
        await session.add_items(said("a"))
    zone = timezone(timedelta(hours=3))

    [utc] = messages_of(source_of(sqlite_url), "s")
    [other] = messages_of(source_of(sqlite_url, zone=zone), "s")

    assert utc.created_at is not None
    assert other.created_at == utc.created_at - timedelta(hours=3)


async def test_tables_have_the_names_that_the_sdk_gives_if_no_others_are_given(sqlite_url):
    names = {"sessions_table": "agent_sessions", "messages_table": "agent_messages"}
    async with written(sqlite_url, **names) as session:
        await session.add_items(said("a"))

    assert items_of(OpenAISQLAlchemySource(sqlite_url), "s") == said("a")
    with pytest.raises(ConfigurationError, match=f"no table '{SESSIONS}'"):
        source_of(sqlite_url).count()


async def test_tables_of_another_kind_are_refused(tmp_path):
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE agent_sessions (id, session_id, created_at, updated_at)")
        connection.execute("CREATE TABLE agent_messages (id, session_id, data, created_at)")

    with pytest.raises(ConfigurationError, match="'agent_messages' with message_data"):
        next(OpenAISQLAlchemySource(f"sqlite:///{file}").sessions())


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite+aiosqlite:///{}/missing.db", "is not a file"),
        ("sqlite+aiosqlite://", "is not a file"),
        ("sqlite:///{}/text.db", "cannot be read"),
        ("not a url", "not a database URL"),
        ("nothing+known://host/name", "not a database URL"),
        ("mysql+notadriver://user:secret@host/name", "not a database URL"),
        ("oracle+oracledb://user:secret@host/name", "'oracledb' is not installed"),
        ("postgresql+psycopg://user:secret@127.0.0.1:1/name", "cannot be read"),
        ("postgresql+asyncpg://user:secret@127.0.0.1:1/name", "cannot be read"),
    ],
)
def test_what_is_no_database_of_the_sdk_is_refused(tmp_path, url, words):
    (tmp_path / "text.db").write_text("no database, but long enough to look at" * 100)

    with pytest.raises(ConfigurationError, match=words) as refusal:
        OpenAISQLAlchemySource(url.format(tmp_path)).count()

    assert "secret" not in str(refusal.value)
    assert not (tmp_path / "missing.db").exists()


def test_without_sqlalchemy_it_is_said_what_to_install(monkeypatch, sqlite_url):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    source = OpenAISQLAlchemySource(sqlite_url)

    with pytest.raises(MissingDependencyError, match=r"django-agent-sessions\[sqlalchemy\]"):
        next(source.sessions())


async def test_text_that_is_none_in_a_file_ends_no_import(sqlite_url, tmp_path):
    for name in ("first", "last"):
        async with written(sqlite_url, name) as session:
            await session.add_items(said(name))
    with closing(sqlite3.connect(tmp_path / "what 100%#1.db")) as connection, connection:
        for name in ("CAST(x'61ff' AS TEXT)", "x'62ff'"):
            connection.execute(f"INSERT INTO {SESSIONS} (session_id) VALUES ({name})")
        connection.execute(
            f"INSERT INTO {ITEMS} (session_id, message_data) "
            "VALUES ('first', CAST(x'7b22ff227d' AS TEXT))"
        )
    source = source_of(sqlite_url)

    found = list(source.sessions())

    assert [one.place for one in found if isinstance(one, Skipped)] == [
        f"{SESSIONS} session_id=x'61ff'",
        f"{SESSIONS} session_id=x'62ff'",
    ]
    read = {one.session_id: one for one in found if isinstance(one, SourceSession)}
    assert [*read] == ["first", "last"]
    *messages, skipped = read["first"].agents[0].messages
    assert [one.payload for one in messages if isinstance(one, SourceMessage)] == said("first")
    assert skipped == Skipped(f"{ITEMS} id=3", "it is not JSON")
