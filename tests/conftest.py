"""Fixtures of all tests."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator

import hypothesis
import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db import connection
from pytest_django import DjangoDbBlocker

from django_agent_sessions.content import codec
from django_agent_sessions.store import SessionStore

from . import database_locks, encrypted, scoped
from .emptying import count_kept, deleted_instead_of_flushed
from .kinds import (  # noqa: F401 - hooks and a fixture
    _walled,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_deselected,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
    pytest_xdist_auto_num_workers,
)

# Tests share their machine with others; how long an example takes says nothing. For a longer look:
# HYPOTHESIS_PROFILE=long.
hypothesis.settings.register_profile("tests", deadline=None, max_examples=40)
hypothesis.settings.register_profile("quick", deadline=None, max_examples=7)
hypothesis.settings.register_profile("long", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))

if os.environ.get("TEST_CODEC") == "encryption":
    # All tests, with encrypted content: `make test-encrypted`.
    encrypted.install()

if scoped.SCOPE:
    scoped.set_default_scope()

database_locks.keep()


def pytest_collection_finish() -> None:
    """Spares the garbage collector what stays until the end: modules, and the tests themselves."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def django_db_modify_db_settings_xdist_suffix() -> None:
    """Leaves the name as it is: ``tests.settings`` has added the worker's."""


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The database, which is emptied quickly after each test that commits."""
    with django_db_blocker.unblock():
        kept = count_kept()
        if connection.vendor == "postgresql":
            # No test turns the machine off; to wait for its disk at each commit proves nothing.
            with connection.cursor() as cursor:
                # A pooler may call it by another name than the server.
                cursor.execute("SELECT quote_ident(current_database())")
                name = cursor.fetchone()[0]
                cursor.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        connection.close()
    with deleted_instead_of_flushed(kept):
        yield


@pytest.fixture(autouse=True)
def _keys_of_this_test() -> None:
    """Forgets the keys of the test before, whose rows are gone."""
    encrypted.forget()


def codec_guard() -> Iterator[None]:
    """Fails a test that leaves another codec than it found, with which those after it would run."""
    before = codec.installed()
    yield
    after = codec.install(before)
    if after is not before:
        pytest.fail(f"the test left {type(after).__name__} as the codec of the tests after it")


_codec_of_this_test = pytest.fixture(autouse=True)(codec_guard)


@pytest.fixture(autouse=True)
def _rates_of_this_test() -> None:
    """Forgets the requests that the tests before have made, which throttles count."""
    cache.clear()


@pytest.fixture(scope="session")
def other_process() -> None:
    """Marks a test as ``process`` that uses what requests this, such as a server."""


@pytest.fixture
def thread_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The loop that ``Runner.run_sync`` uses in this thread, and leaves open for its next call."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def store() -> SessionStore:
    """A store of sessions without an owner."""
    return SessionStore()


@pytest.fixture
def session(db, store):
    return store.open("session-1")


@pytest.fixture
def agent(session, store):
    return store.agents.open(session)


@pytest.fixture
def ada(db):
    return get_user_model().objects.create_user("ada")


@pytest.fixture
def bob(db):
    return get_user_model().objects.create_user("bob")


@pytest.fixture
def root(client, db):
    """A browser in which a superuser is signed in."""
    client.force_login(get_user_model().objects.create_superuser("root"))
    return client


@pytest.fixture
def upstream_sqlite(monkeypatch):
    """SQLite as it is built upstream: it leaves what was deleted in its pages and its log."""
    if connection.vendor == "sqlite":
        connection.close()
        options = dict(connection.settings_dict["OPTIONS"])
        options["init_command"] += "PRAGMA secure_delete=OFF; PRAGMA wal_autocheckpoint=0;"
        monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    yield
    connection.close()
