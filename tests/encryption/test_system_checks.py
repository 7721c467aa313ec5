"""What ``manage.py check`` says of missing keys, and what reading says of a missing setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import EncryptionKeyError
from django_agent_sessions.models import DataKey, Session, SessionAgent, SessionMessage, Snapshot
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.records import AgentState

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "plantedsecret"


def keys_of_a_service() -> dict[str, Any]:
    raise KeyError(SECRET)


@pytest.fixture
def talk(encrypt: Callable[..., Any]) -> SessionStore:
    """A session with everything that is encrypted."""
    encrypt(METADATA=True)
    store = SessionStore()
    session = store.open("s", title="Lisbon", metadata={"note": 1})
    agent = store.agents.open(session, data=AgentState({"n": 1}))
    store.append(agent, {"role": "user", "content": "Hi"})
    store.snapshots.take(agent)
    SnapshotStorageStore(store).write_object("key", b"object")
    return store


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    """Puts back the codec of the whole run."""
    before = codec.installed()
    yield
    codec.install(before)


@pytest.fixture
def no_setting(settings: Any) -> Callable[[], None]:
    """Removes the setting, also where all tests are encrypted."""

    def remove() -> None:
        settings.AGENT_SESSIONS = {}
        codec.install(None)

    return remove


def problems(number: str, **options: Any) -> list[Any]:
    return [each for each in run_checks(**options) if each.id == f"agent_sessions.{number}"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"KEYS": {}},
        {"KEYS": None},
        {"KEYS": {"2026": ""}},
        {"KEYS": {"2026": None}},
        {"KEYS": {"CURRENT": "2026"}},
        {"KEYS": f"{__name__}.keys_of_a_service"},
    ],
)
def test_a_missing_master_key_is_an_error(settings, options):
    settings.AGENT_SESSIONS = {"ENCRYPTION": options}

    (problem,) = problems("E014")

    assert "AGENT_SESSIONS['ENCRYPTION']['KEYS']" in problem.msg
    assert SECRET not in str(problem)


def test_encrypted_messages_without_the_setting_are_a_warning(talk, no_setting):
    assert problems("W027", databases=["default"]) == []
    no_setting()

    (problem,) = problems("W027", databases=["default"])

    assert "'default' are encrypted" in problem.msg
    assert "agent_sessions_encrypt decrypt" in problem.hint
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert problems("W027") == []
    assert len(queries) == 0


def test_a_master_key_that_wraps_data_keys_and_is_missing_is_a_warning(talk, encrypt):
    encrypt(KEYS={"two": bytes(range(1, 33))})

    (problem,) = problems("W027", databases=["default"])

    assert "no master key 'one'" in problem.msg
    assert "rewrap" in problem.hint
    assert problems("W027") == problems("W027", databases=[]) == []
    DataKey.objects.all().delete()
    assert problems("W027", databases=["default"]) == []


def test_a_database_of_plain_messages_is_no_warning(no_setting):
    no_setting()
    store = SessionStore()
    store.append(store.agents.open(store.open("s")), {"role": "user", "content": "enc1:"})

    assert problems("W027", databases=["default"]) == []


def test_reading_without_the_setting_says_what_is_missing(talk, no_setting):
    no_setting()
    (session,) = Session.objects.only("pk")
    (row,) = SessionAgent.objects.only("agent_id", "dialect", "session")
    reads = {
        "a title": lambda: Session.objects.values_list("title").get(),
        "metadata": lambda: Session.objects.values_list("metadata").get(),
        "a state": lambda: SessionAgent.objects.values_list("state").get(),
        "a message": lambda: SessionMessage.objects.values_list("message").get(),
        "a snapshot": lambda: Snapshot.objects.values_list("document").get(),
        "a session": lambda: talk.get("s"),
        "an object": lambda: SnapshotStorageStore(talk).read_object("key"),
    }
    assert (session.pk, row.agent_id) == (row.session_id, "default")
    for read in reads.values():
        with pytest.raises(EncryptionKeyError, match="ENCRYPTION'] is not set"):
            read()
