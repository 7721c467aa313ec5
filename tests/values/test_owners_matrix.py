"""Who is reached and made, by every public entry that takes an owner: one table.

A cell says whose sessions are reached, and after the colon whose a session is that the entry makes.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import AnonymousUser
from strands import Agent
from strands.types.exceptions import StorageError
from strands.types.session import Session as StrandsSession
from strands.types.session import SessionType

import django_agent_sessions
from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.adapters.strands import (
    DjangoSessionManager,
    DjangoSessionRepository,
    DjangoStorage,
)
from django_agent_sessions.content.dialects import OPENAI, STRANDS
from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError
from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import Branches, Sessions, SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.testing import Contract
from django_agent_sessions.values.owners import EVERYBODY, NOBODY
from tests.adapters.strands.scripted import ScriptedModel
from tests.interchange.sources import Made, said, talk

pytestmark = pytest.mark.django_db

# `ada` is given as the owner; `bob` is another user; `-` reaches or makes none. EVERYBODY+ is
# EVERYBODY with create=True. An entry without that argument has no such column.
MATRIX = """
entry                          | ada      | left out       | NOBODY         | EVERYBODY | EVERYBODY+  | None    | anonymous
SessionStore.open              | ada: ada | nobody: nobody | nobody: nobody | all: -    | all: nobody | refused | refused
SessionStore.get               | ada: -   | nobody: -      | nobody: -      | all: -    | all: -      | refused | refused
SessionStore.find              | ada: -   | nobody: -      | nobody: -      | all: -    | all: -      | refused | refused
SessionStore.find_agent        | ada: -   | nobody: -      | nobody: -      | all: -    | all: -      | refused | refused
SessionStore.list_sessions     | ada: -   | nobody: -      | nobody: -      | all: -    | all: -      | refused | refused
SessionStore.update            | ada: -   | nobody: -      | nobody: -      | all: -    | all: -      | refused | refused
SessionStore.delete            | ada: -   | nobody: -      | nobody: -      | all: -    | all: -      | refused | refused
SessionStore.create            | -: ada   | -: nobody      | -: nobody      | -: -      | -: nobody   | refused | refused
SessionStore.open_external     | ada: ada | refused        | refused        | refused   | refused     | refused | refused
KeyedStore.object_keys         | ada: -   | nobody: -      | nobody: -      | all: -    | all: -      | refused | refused
SessionQuerySet.owned_by       | ada: -   |                | nobody: -      | all: -    |             | -: -    | -: -
DjangoSessionManager           | ada: ada | nobody: nobody | nobody: nobody | all: -    | all: nobody | refused | refused
DjangoSessionManager.load      | ada: ada | nobody: nobody | nobody: nobody | all: -    | all: nobody | refused | refused
DjangoSessionRepository        | ada: ada | nobody: nobody | nobody: nobody | all: -    | all: nobody | refused | refused
DjangoStorage                  | ada: ada | nobody: nobody | nobody: nobody | all: -    | all: nobody | refused | refused
DjangoStorage.list             | ada: -   | nobody: -      | nobody: -      | all: -    | all: -      | refused | refused
DjangoSession                  | ada: ada | nobody: nobody | nobody: nobody | all: -    | all: nobody | refused | refused
DjangoSession, by a callable   | ada: ada |                | nobody: nobody | all: -    | all: nobody | refused | refused
AdvancedDjangoSession          | ada: ada | nobody: nobody | nobody: nobody | all: -    | all: nobody | refused | refused
import_sessions                | -: ada   | -: nobody      | -: nobody      | refused   |             | refused | refused
import_sessions, by a function | -: ada   |                | -: nobody      | -: -      |             | -: -    | -: -
"""  # noqa: E501 - a table

NAMES = {"ada": "adas", "bob": "bobs", "nobody": "nobodys"}
MESSAGE = {"role": "user", "content": [{"text": "hello"}]}
ITEM: Any = {"role": "user", "content": "hello"}
NO_OWNER = (ConfigurationError, StorageError)


def columns() -> list[str]:
    return [cell.strip() for cell in MATRIX.strip().splitlines()[0].split("|")][1:]


def cells() -> list[Any]:
    found = []
    for line in MATRIX.strip().splitlines()[1:]:
        entry, *row = (cell.strip() for cell in line.split("|"))
        for column, cell in zip(columns(), row, strict=True):
            if cell:
                found.append(pytest.param(entry, column, cell, id=f"{entry}, {column}"))
    return found


@dataclass
class Entry:
    """How an entry is used: what it does with a name, or with all at once."""

    takes: str
    """The function that takes the owner, as Python calls it."""

    reaches: Callable[..., Any] | None = None
    """Whether it reaches this session: its content where it reads any."""

    makes: Callable[..., Any] | None = None
    """Makes a session called ``new``, if it may."""

    dialect: str = STRANDS


def openai(session: Any) -> bool:
    return bool(asyncio.run(session.get_items()))


def manager(name: str, **given: Any) -> bool:
    agent = Agent(
        model=ScriptedModel(),
        agent_id="default",
        session_manager=DjangoSessionManager(name, **given),
        callback_handler=None,
    )
    return bool(agent.messages)


async def loaded(name: str, **given: Any) -> bool:
    found = await DjangoSessionManager.load(name, **given)
    agent = Agent(
        model=ScriptedModel(), agent_id="default", session_manager=found, callback_handler=None
    )
    return bool(agent.messages)


def key_of(name: str) -> str:
    return f"session/{name}/scopes/agent/default/snapshots/snapshot_latest.json"


def is_there(name: str) -> bool:
    return Session.objects.filter(session_id=name).exists()


def imported(owner: Any) -> None:
    report = import_sessions(Made([talk(said(1), name="new")]), **owner)
    assert report.made + report.left_out == 1


def list_keys(**given: Any) -> list[str]:
    return [key.split("/")[1] for key in asyncio.run(DjangoStorage(**given).list())]


def strands_session() -> StrandsSession:
    return StrandsSession(session_id="new", session_type=SessionType.AGENT)


ENTRIES: dict[str, Entry] = {
    "SessionStore.open": Entry(
        "SessionStore",
        lambda name, **given: bool(SessionStore(**given).open(name)),
        lambda **given: SessionStore(**given).open("new"),
    ),
    "SessionStore.get": Entry(
        "SessionStore", lambda name, **given: bool(SessionStore(**given).get(name))
    ),
    "SessionStore.find": Entry(
        "SessionStore", lambda name, **given: bool(SessionStore(**given).find(name))
    ),
    "SessionStore.find_agent": Entry(
        "SessionStore",
        lambda name, **given: bool(SessionStore(**given).sessions.find_with_agent(name, "default")),
    ),
    "SessionStore.list_sessions": Entry(
        "SessionStore",
        lambda name, **given: (
            name in [found.session_id for found in SessionStore(**given).sessions.list()]
        ),
    ),
    "SessionStore.update": Entry(
        "SessionStore",
        lambda name, **given: bool(
            SessionStore(**given).sessions.update(
                Session.objects.get(session_id=name).pk, title="seen"
            )
        ),
    ),
    "SessionStore.delete": Entry(
        "SessionStore",
        lambda name, **given: SessionStore(**given).delete(name) and not is_there(name),
    ),
    "SessionStore.create": Entry(
        "SessionStore", makes=lambda **given: SessionStore(**given).create("new")
    ),
    "SessionStore.open_external": Entry(
        "SessionStore",
        lambda name, **given: (
            SessionStore(**given).sessions.open_external(f"external {name}")[0].session_id == name
        ),
        lambda **given: SessionStore(**given).sessions.open_external("new"),
    ),
    "KeyedStore.object_keys": Entry(
        "SessionStore",
        lambda name, **given: (
            f"session/{name}/notes" in SnapshotStorageStore(SessionStore(**given)).object_keys()
        ),
    ),
    "SessionQuerySet.owned_by": Entry(
        "SessionQuerySet.owned_by",
        lambda name, owner: Session.objects.owned_by(owner).filter(session_id=name).exists(),
    ),
    "DjangoSessionManager": Entry(
        "DjangoSessionManager", manager, lambda **given: manager("new", **given)
    ),
    "DjangoSessionManager.load": Entry(
        "DjangoSessionManager",
        lambda name, **given: asyncio.run(loaded(name, **given)),
        lambda **given: asyncio.run(loaded("new", **given)),
    ),
    "DjangoSessionRepository": Entry(
        "DjangoSessionRepository",
        lambda name, **given: bool(DjangoSessionRepository(**given).read_session(name)),
        lambda **given: DjangoSessionRepository(**given).create_session(strands_session()),
    ),
    "DjangoStorage": Entry(
        "DjangoStorage",
        lambda name, **given: bool(asyncio.run(DjangoStorage(**given).read(key_of(name)))),
        lambda **given: asyncio.run(DjangoStorage(**given).write(key_of("new"), b"{}")),
    ),
    "DjangoStorage.list": Entry("DjangoStorage", lambda name, **given: name in list_keys(**given)),
    "DjangoSession": Entry(
        "DjangoSession",
        lambda name, **given: openai(DjangoSession(name, **given)),
        lambda **given: asyncio.run(DjangoSession("new", **given).add_items([ITEM])),
        OPENAI,
    ),
    "DjangoSession, by a callable": Entry(
        "DjangoSession",
        lambda name, owner, **given: openai(DjangoSession(name, owner=lambda _: owner, **given)),
        lambda owner, **given: asyncio.run(
            DjangoSession("new", owner=lambda _: owner, **given).add_items([ITEM])
        ),
        OPENAI,
    ),
    "AdvancedDjangoSession": Entry(
        "DjangoSession",
        lambda name, **given: openai(AdvancedDjangoSession(name, **given)),
        lambda **given: asyncio.run(AdvancedDjangoSession("new", **given).add_items([ITEM])),
        OPENAI,
    ),
    "import_sessions": Entry("import_sessions", makes=lambda **given: imported(given)),
    "import_sessions, by a function": Entry(
        "import_sessions", makes=lambda owner: imported({"owner": lambda found: owner})
    ),
}

NO_ENTRIES = {
    "Contract.driver": "the tests of an adapter implement it; its default is tested below",
    "Reach": "what an owner reaches: each entry has one",
    "timeline.object_digest": "the digest of an object's key",
    "owner_removal.keep_sessions": "it keeps the sessions of a user who is deleted",
    "StorageOperations": "what DjangoStorage does, and only that",
    "lookup.get_session": "a statement of the store",
    "lookup.recent_sessions": "a statement of the store",
    "owner_of": "what import_sessions does, and only that",
    "owners.owner_key": "it finds the key of an owner",
    "owners.refuse_none": "it refuses None",
    "erasure.erase": "it erases one user, who is required",
    "person_export.export_person": "it exports one user, who is required",
    "figures.by_month": "it reads the figures of one user, who is required",
    "retention.prune": "it deletes what is due, whoever owns it, as a cron job does",
    "Codec.remember": "the owner of a session that was read",
    "EncryptionCodec.remember": "the owner of a session that was read",
    "codec.remember": "the owner of a session that was read",
    "Owned": "whose content is encrypted: the owner is required",
    "encryption_codec.owner_name": "it names the key of an owner",
    "DataKeys.create": "it creates the key of an owner",
    "DataKeys.current": "it finds the key of an owner",
    "factory.make_session": "it makes sessions of tests by SessionStore, and only that",
    "DataKeys.wrapped": "it wraps the key of an owner",
    "DataKeys.ids": "it finds the keys of an owner",
    "Codec.keys_of": "it finds the keys of an owner",
    "EncryptionCodec.keys_of": "it finds the keys of an owner",
    "PersonKeys": "the keys of one user, who is required",
    "Answer": "a value of the chat: the primary key of a signed-in user",
    "Chat": "a value of the chat: its session's owner",
    "Runs.check_room": "it counts the answers of a signed-in user",
    "SessionState": "a value of events: the primary key in a row",
    "quotas.check_branches": "it counts the branches of a signed-in user",
    "quotas.check_bytes": "it counts the bytes of a signed-in user",
    "quotas.check_sessions": "it counts the sessions of a signed-in user",
    "quotas.counts_bytes": "it says whether the bytes of a user are limited",
    "quotas.count_bytes": "it counts the bytes of a signed-in user",
    "quotas.require_room": "it compares the bytes of a signed-in user",
}


@pytest.fixture
def prepared(ada, bob) -> Callable[[str], None]:
    """Makes a session of each: with an agent, a message, a snapshot's key and an object."""

    def prepare(dialect: str) -> None:
        for whose, owner in (("ada", ada), ("bob", bob), ("nobody", NOBODY)):
            name = NAMES[whose]
            store = SessionStore(owner=owner)
            session = store.open(name)
            agent = store.agents.open(session, dialect=dialect)
            # A run marks what a storage's latest snapshot may be made of.
            message = MESSAGE if dialect == STRANDS else ITEM
            store.append(agent, message, run_id=session.id)
            SnapshotStorageStore(store).write_object(
                f"session/{name}/notes", b"bytes", session=session
            )
            # There is no other way to give one to a session that nobody owns.
            Session.objects.filter(pk=session.id).update(external_id=f"external {name}")

    return prepare


def given_by(column: str, ada: Any) -> dict[str, Any]:
    return {
        "ada": {"owner": ada},
        "left out": {},
        "NOBODY": {"owner": NOBODY},
        "EVERYBODY": {"owner": EVERYBODY},
        "EVERYBODY+": {"owner": EVERYBODY, "create": True},
        "None": {"owner": None},
        "anonymous": {"owner": AnonymousUser()},
    }[column]


@pytest.mark.parametrize(("name", "column", "cell"), cells())
def test_who_is_reached_and_made(prepared, ada, name, column, cell):
    entry, given = ENTRIES[name], given_by(column, ada)
    prepared(entry.dialect)

    if cell != "refused":
        assert f"{reached(entry, given)}: {made(entry, given)}" == cell
        return
    for use in uses(entry, given):
        with pytest.raises((ConfigurationError, StorageError), match="owner"):
            use()
    assert Session.objects.count() == 3


def uses(entry: Entry, given: dict[str, Any]) -> list[Callable[[], Any]]:
    found: list[Callable[[], Any]] = []
    if entry.reaches is not None:
        found += [partial(entry.reaches, name, **given) for name in NAMES.values()]
    if entry.makes is not None:
        found.append(partial(entry.makes, **given))
    return found


def reached(entry: Entry, given: dict[str, Any]) -> str:
    """Tells whose sessions are reached; it is an error, or nothing is there, for all others."""
    found, errors = [], []
    if entry.reaches is None:
        return "-"
    for whose, name in NAMES.items():
        try:
            if entry.reaches(name, **given):
                found.append(whose)
        except SessionNotFoundError as error:
            errors.append(str(error))
    if given.get("owner", NOBODY) is NOBODY:
        assert all("owner=user" in error and "owner=EVERYBODY" in error for error in errors)
    return "all" if found == list(NAMES) else ", ".join(found) or "-"


def made(entry: Entry, given: dict[str, Any]) -> str:
    """Tells whose a session is that the entry makes; where it refuses, the error says how."""
    if entry.makes is None:
        return "-"
    known, refusal = set(Session.objects.values_list("pk", flat=True)), "create=True"
    try:
        entry.makes(**given)
    except (ConfigurationError, SessionNotFoundError, StorageError) as error:
        refusal = str(error)
    assert "create=True" in refusal
    new = Session.objects.exclude(pk__in=known).first()
    if new is None:
        return "-"
    return "nobody" if new.owner is None else new.owner.get_username()


def test_every_entry_has_a_row():
    rows = {line.split("|")[0].strip() for line in MATRIX.strip().splitlines()[1:]}

    assert rows == set(ENTRIES)
    assert {entry.takes for entry in ENTRIES.values()} | set(NO_ENTRIES) == {
        name for name, _ in taking_an_owner()
    }


def test_an_owner_that_is_left_out_is_nobody_wherever_it_may_be_left_out():
    defaults = {
        name: inspect.signature(function).parameters["owner"].default
        for name, function in taking_an_owner()
        if name != "retention.prune"
    }
    left_out = {
        name for name, default in defaults.items() if default is not inspect.Parameter.empty
    }

    assert {defaults[name] for name in left_out} == {NOBODY}
    assert left_out == {entry.takes for entry in ENTRIES.values()} - {
        "SessionQuerySet.owned_by"
    } | {"Contract.driver", "factory.make_session"}
    assert inspect.signature(Contract.driver).parameters["owner"].default is NOBODY


def taking_an_owner() -> Iterator[tuple[str, Any]]:
    """Finds what takes an owner in all of the package: functions, methods and classes."""
    found: dict[str, Any] = {}
    for module in map(importlib.import_module, modules()):
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", "") != module.__name__:
                continue
            if inspect.isfunction(value):
                found[f"{module.__name__.rpartition('.')[2]}.{name}"] = value
            elif inspect.isclass(value):
                for method, of_class in vars(value).items():
                    function = getattr(of_class, "__func__", of_class)
                    if method == "__init__":
                        found[name] = function
                    elif inspect.isfunction(function) and not method.startswith("_"):
                        found[f"{name}.{method}"] = function
    short = {"importing.import_sessions": "import_sessions", "owner_mapping.owner_of": "owner_of"}
    for name, function in found.items():
        if "owner" in inspect.signature(function).parameters:
            yield short.get(name, name), function


def modules() -> list[str]:
    root = django_agent_sessions
    walked = pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
    return [module.name for module in walked if ".migrations" not in module.name]


def test_a_new_entry_without_a_row_is_found():
    def archive_sessions(*, owner: Any = NOBODY) -> None:
        """It would be an entry."""

    archive_sessions.__module__ = "django_agent_sessions.values.ids"
    with mock.patch.object(
        importlib.import_module("django_agent_sessions.values.ids"),
        "archive_sessions",
        archive_sessions,
        create=True,
    ):
        assert "ids.archive_sessions" in dict(taking_an_owner())
        with pytest.raises(AssertionError):
            test_every_entry_has_a_row()


def test_what_takes_a_primary_key_takes_no_owner():
    from django_agent_sessions import leases, usage
    from django_agent_sessions.governance import legal_hold, redaction

    for function in (
        legal_hold.hold,
        legal_hold.release,
        leases.acquire,
        redaction.redact,
        redaction.descendants_of,
        usage.by_owner,
        Sessions.fork,
        SessionStore.append,
        Branches.rewind,
    ):
        assert "owner" not in inspect.signature(function).parameters


def test_a_fork_belongs_to_the_owner_of_the_session_whoever_makes_it(prepared, ada):
    prepared(STRANDS)
    everybodys = SessionStore(owner=EVERYBODY)

    # It copies a session that is there, so that no mistyped id makes it.
    fork = everybodys.sessions.fork(everybodys.get("adas"))

    assert fork.owner_id == ada.pk
    with pytest.raises(SessionNotFoundError):
        SessionStore().sessions.fork(everybodys.get("adas"))
    assert SessionMessage.objects.filter(session=fork.id).count() == 1


def test_a_missing_session_and_a_users_are_the_same_error_for_nobody(prepared):
    """So that an owner that was forgotten is no way to find out which names there are."""
    prepared(STRANDS)
    errors = []
    for name in ("adas", "missing"):
        with pytest.raises(SessionNotFoundError) as refused:
            SessionStore(create=False).open(name)
        errors.append(str(refused.value).replace(name, "…"))

    assert errors[0] == errors[1]
    assert "owner=user" in errors[0]
    assert "owner=EVERYBODY" in errors[0]
