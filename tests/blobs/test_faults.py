"""Whatever a storage does at whichever call: no message without its binaries, and none is lost."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from django.db import InterfaceError, connections, transaction
from django.db.models.signals import pre_init

from django_agent_sessions.blobs.garbage_collection import collect
from django_agent_sessions.exceptions import BlobError, BlobNotFoundError
from django_agent_sessions.models import Blob, Session
from django_agent_sessions.store import SessionStore
from tests.processes import outputs, ready, start

from . import faulty
from .deeds import (
    BEFORE,
    DEEDS,
    NONE,
    A,
    Scene,
    bystander,
    expect_clean,
    litter,
    message,
    picture,
    scene,
    state,
)

pytestmark = pytest.mark.django_db(transaction=True)

NEXT = message("and on", A, picture("next"))


@pytest.fixture
def folder(tmp_path, settings):
    """Sends large binaries to a storage that fails as it is told to."""
    folder = tmp_path / "blobs"
    made = faulty.storages(folder)
    settings.STORAGES = {**settings.STORAGES, **made["STORAGES"]}
    settings.AGENT_SESSIONS = made["AGENT_SESSIONS"]
    faulty.begin()
    yield folder
    faulty.begin()


def prepared(deed: str) -> Scene:
    faulty.begin()
    found = scene()
    if deed == "collect":
        litter(found)
    return found


def expect_left(found: Scene, allowed: list[Any], where: str) -> list[Any] | None:
    """Asserts that the conversation is whole, and goes on."""
    now = state(found)
    assert now in allowed, where
    if now is not None:
        SessionStore().append(found.agent, NEXT)
        assert state(found) == [*now, NEXT], where
    return now


def expect_cleaned(folder: Path, left: list[tuple[Scene, list[Any] | None]]) -> None:
    """Asserts that what is left over can be cleaned up, and nothing else goes."""
    collect(older_than=NONE, unknown_sessions=True)
    expect_clean(folder)
    for found, now in left:
        assert state(found) == (None if now is None else [*now, NEXT])
    assert bystander() == [message("mine", A)]
    Session.objects.exclude(session_id="bystander").delete()


# Over a second: everything is done again for each call of the storage.
@pytest.mark.parametrize("deed", list(DEEDS))
def test_a_fault_at_any_call_of_the_storage_loses_nothing(folder, deed):
    found = prepared(deed)
    before = state(found)
    plan = faulty.begin()
    result = DEEDS[deed](found)
    calls = list(plan.calls)
    faulty.begin()
    after = expect_left(found, [state(found)], "without a fault")
    left = [(found, after)]
    assert calls

    for number, call in enumerate(calls):
        # Each call goes wrong in two ways, the next one in two others.
        for kind in (faulty.KINDS * 2)[number % 5 :][:2]:
            where = f"{kind} at call {number}, {call}"
            if deed == "collect":
                # What others left would be cleaned up too.
                expect_cleaned(folder, left)
                left = []
            found = prepared(deed)
            plan = faulty.begin(number, kind)
            acknowledged = False
            with contextlib.suppress(BlobError, faulty.StorageError, TimeoutError):
                assert DEEDS[deed](found) == result, where
                acknowledged = True
            assert len(plan.calls) > number, where
            faulty.begin()
            now = expect_left(found, [after] if acknowledged else [before, after], where)
            left.append((found, now))
    expect_cleaned(folder, left)


@pytest.mark.process
def test_a_kill_at_any_call_of_the_storage_loses_nothing(folder):
    tried: list[tuple[Scene, str, list[Any]]] = []
    for deed in ("append many", "retry", "update", "redact a text", "pop", "delete"):
        found = prepared(deed)
        before = state(found)
        plan = faulty.begin()
        DEEDS[deed](found)
        calls = list(plan.calls)
        faulty.begin()
        after = state(found)
        expect_cleaned(folder, [(found, expect_left(found, [after], deed))])
        for number, call in enumerate(calls):
            # To be killed after it is to be killed before the next one.
            ways = faulty.CRASHES if call == "save" else faulty.CRASHES[:1]
            for way in ways:
                tried.append((found, f"{deed}\t{number}\t{way}", [before, after]))
    tried = [(scene(), line, allowed) for _, line, allowed in tried]
    connections.close_all()
    crasher = start("tests.blobs.process", "crash", folder)
    ready([crasher])
    assert crasher.stdin is not None
    for found, line, _ in tried:
        crasher.stdin.write(f"{line}\t{found.name}\n")
    (said,) = outputs([crasher])
    assert set(said) == {"killed"}
    assert len(said) == len(tried) > 25
    expect_cleaned(folder, [(s, expect_left(s, allowed, line)) for s, line, allowed in tried])


@pytest.mark.parametrize("deed", ["restore", "redact a text"])
def test_half_a_file_is_damage_and_not_content(folder, deed):
    found = prepared(deed)
    faulty.begin(0, "silent")
    with pytest.raises(BlobNotFoundError, match="damaged"):
        DEEDS[deed](found)
    faulty.begin()
    assert state(found) == BEFORE


@pytest.mark.parametrize("deed", ["append", "append many", "retry", "update", "guardrail"])
def test_a_lost_answer_to_the_commit_loses_no_file(folder, deed):
    found = prepared(deed)
    DEEDS[deed](found)
    after = expect_left(found, [state(found)], "without a fault")
    found = prepared(deed)
    connection: Any = connections["default"]
    commit = connection._commit

    def commit_and_lose_the_answer() -> None:
        connection._commit = commit
        commit()
        raise InterfaceError("the connection broke")

    connection._commit = commit_and_lose_the_answer
    try:
        DEEDS[deed](found)
    finally:
        connection._commit = commit
    expect_cleaned(folder, [(found, expect_left(found, [after], deed))])


def test_what_fails_after_the_commit_takes_no_file_away(folder):
    found = prepared("append")

    def fail() -> None:
        raise RuntimeError("somebody's hook")

    def receive(**kwargs: Any) -> None:
        if connections["default"].in_atomic_block:
            transaction.on_commit(fail)

    pre_init.connect(receive, sender=Blob)
    try:
        with pytest.raises(RuntimeError, match="hook"):
            DEEDS["append"](found)
    finally:
        pre_init.disconnect(receive, sender=Blob)
    now = state(found)
    assert now is not None
    assert len(now) == 4
