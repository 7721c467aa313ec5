"""What was written comes back byte for byte, whatever it is and under whatever key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strands.storage import InMemoryStorage
from strands.types.exceptions import StorageError

from django_agent_sessions.adapters.strands import DjangoStorage
from django_agent_sessions.adapters.strands.snapshots import keys
from django_agent_sessions.models import Session, SessionMessage, Snapshot, StoredObject
from tests.strategies import json_values

from .making import LATEST, blob, immutable, message, run, saved, snapshot

pytestmark = pytest.mark.django_db(transaction=True)

POOL = [message(f"message {n}", ("user", "assistant")[n % 2], n % 3 > 0) for n in range(6)]
OTHERS = [
    {**POOL[1], "content": [{"text": "another form"}]},
    {**POOL[3], "metadata": {"custom": {"pinned": True}}},
    {"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}]},
]
conversations = st.one_of(
    st.lists(st.sampled_from(POOL + OTHERS), max_size=6),
    st.tuples(st.integers(0, 5), st.integers(0, 6)).map(lambda cut: POOL[cut[0] : cut[1]]),
)
snapshots = st.builds(
    lambda messages, state: saved(*messages, state=state),
    conversations,
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def storage() -> DjangoStorage:
    """One that sees nothing of what was before."""
    return DjangoStorage(namespace=str(uuid4()))


def expect_exact(data: bytes, key: str = LATEST, *, before: bytes | None = None) -> None:
    using = storage()
    if before is not None:
        run(using.write(key, before))
    run(using.write(key, data))
    again = DjangoStorage(namespace=using._work._store.store.namespace)
    assert run(again.read(key)) == data
    assert run(again.list()) == [key]


@given(messages=st.lists(st.dictionaries(st.text(), json_values, max_size=4), max_size=4))
def test_any_messages(messages: list[Any]) -> None:
    try:
        data = saved(*messages)
    except (TypeError, ValueError):
        return
    expect_exact(data)
    expect_exact(data, immutable(1))


@given(state=json_values, more=st.dictionaries(st.text(), json_values, max_size=3))
def test_any_state(state: Any, more: dict[str, Any]) -> None:
    document = {**snapshot(POOL[:2], state=state), **more}
    try:
        data = blob(document)
    except (TypeError, ValueError):
        return
    expect_exact(data)


@given(
    data=st.one_of(
        st.binary(max_size=200),
        json_values.map(lambda value: json.dumps(value, default=repr).encode()),
        st.sampled_from(
            [
                b"",
                b"{}",
                json.dumps(snapshot(POOL[:2])).replace(" ", "").encode(),
                json.dumps(snapshot(POOL[:2]), indent=2).encode(),
                saved(*POOL[:2]).replace(b'"state"', b'"messages": [], "state"'),
                saved({"role": "user", "content": [{"text": float("nan")}]}),
                saved({"role": "user", "a": 1}).replace(b'"a"', b'"role"'),
                saved(*POOL[:1]).replace(b"message 0", rb"\ud800"),
                saved(*POOL[:1]).replace(b"message 0", rb"\u00e9"),
                saved(*POOL[:1]).replace(b"message 0", b"\xff"),
                saved({"__bytes_encoded__": True, "data": "no base64"}),
                saved({"x": {"__bytes_encoded__": True, "data": "QQ==", "more": 1}}),
                saved({"x": 10**4290}),
                saved({"x": [[[[1e400]]]]}),
                saved("no message"),
                saved(state={"deep": json.loads("[" * 300 + "]" * 300)}),
                blob({**snapshot([]), "data": {"state": {}}}),
                blob({"data": {"a": 1, "messages": POOL[:2], "b": [2]}, "first": {}}),
                saved(*POOL[:2]) + b" ",
                saved(*POOL[:2])[:-1],
            ]
        ),
    )
)
def test_any_bytes_under_the_key_of_a_snapshot(data: bytes) -> None:
    expect_exact(data)
    expect_exact(data, before=saved(*POOL[:2]))


def test_what_is_no_snapshot_is_kept_as_it_is_until_there_is_one() -> None:
    using = storage()
    odd, fine = json.dumps(snapshot(POOL[:2]), indent=1).encode(), saved(*POOL[:2])

    run(using.write(LATEST, fine))
    run(using.write(LATEST, odd))

    assert not Snapshot.objects.exists()
    assert StoredObject.objects.get().session == Session.objects.get()
    assert run(using.read(LATEST)) == odd
    run(DjangoStorage(namespace=using._work._store.store.namespace).write(LATEST, fine))
    assert not StoredObject.objects.exists()
    assert run(using.read(LATEST)) == fine
    assert SessionMessage.objects.count() == 2


def test_bytes_in_messages_are_bytes_in_the_rows() -> None:
    using = storage()
    image = {"role": "user", "content": [{"image": {"source": {"bytes": b"\x00\xff" * 99}}}]}

    run(using.write(LATEST, saved(image)))

    assert SessionMessage.objects.get().message == image


@pytest.mark.parametrize("size", [0, 1, 1024 * 1024, 1024 * 1024 + 1, 20_000_000])
def test_objects_of_any_size(size: int) -> None:
    using, data = storage(), bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    run(using.write("memory/large", data))
    assert run(using.read("memory/large")) == data
    run(using.write("memory/large", b"small"))

    assert run(using.read("memory/large")) == b"small"
    assert StoredObject.objects.get().parts.count() == 1


KEYS = [
    LATEST,
    immutable(1),
    immutable(2),
    "session/s/scopes/agent/other/snapshots/snapshot_latest.json",
    "session/t/scopes/agent/default/snapshots/snapshot_latest.json",
    "session/s/scopes/multiAgent/graph/snapshots/snapshot_latest.json",
    "session/s/scopes/agent/default/snapshots/manifest.json",
    "tenant/a/s/scopes/agent/default/snapshots/snapshot_latest.json",
    "s/scopes/agent/default/snapshots/snapshot_latest.json",
    "session/x/s/scopes/agent/default/snapshots/snapshot_latest.json",
    "context/s/scopes/agent/default/call-1_0",
    "context/new/scopes/agent/default/call-1_0",
    "memory/facts.md",
    "memory/Facts.md",
    "ü/\U0001f600/ключ",
    "a",
]
graphs = st.builds(
    lambda state, extra: blob(
        {
            "scope": "multiAgent",
            "schema_version": "1.0",
            "created_at": "2026-01-01T00:00:00Z",
            "data": {"orchestrator_id": "graph", "state": state, **extra},
            "app_data": {},
        }
    ),
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=1),
)
values = st.one_of(snapshots, snapshots, graphs, st.binary(max_size=20))
prefixes = st.sampled_from(
    [
        "",
        "s",
        "session",
        "session/",
        "session/s",
        "session/s/",
        "session/s/scopes/agent/",
        "session/s/scopes/agent/default/snapshots/immutable_history/",
        "tenant",
        "context/s/",
        "ü",
        "/a",
        "zz",
    ]
)
steps = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(KEYS), values),
    st.tuples(st.just("write"), st.sampled_from(KEYS[:3]), snapshots),
    st.tuples(st.just("delete"), st.sampled_from(KEYS), st.none()),
    st.tuples(st.just("list"), prefixes, st.none()),
    st.tuples(st.just("another"), st.none(), st.none()),
)


@given(script=st.lists(steps, max_size=12), prefix=st.sampled_from(["", "", "session", "x/y/"]))
def test_it_does_what_strands_own_storage_does(script: Any, prefix: str) -> None:
    namespace = str(uuid4())

    def new() -> DjangoStorage:
        return DjangoStorage(namespace=namespace).namespace(prefix)

    mine, model = new(), InMemoryStorage().namespace(prefix)

    async def play() -> None:
        nonlocal mine
        for kind, key, data in script:
            if kind == "another":
                mine = new()
            elif kind == "write":
                await mine.write(key, data)
                await model.write(key, data)
            elif kind == "delete":
                await mine.delete(key)
                await model.delete(key)
            else:
                assert await mine.list(key) == await model.list(key)
        assert await mine.list() == await model.list()
        for using in (mine, new()):
            for key in KEYS:
                assert await using.read(key) == await model.read(key)

    run(play())


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except StorageError:
        return StorageError


@given(st.text(st.sampled_from("a/.\\"), max_size=8))
def test_keys_and_their_beginnings_are_normalized_as_by_strands_own_storage(key: str) -> None:
    model = InMemoryStorage()

    def written() -> list[str]:
        run(model.write(key, b"x"))
        return run(model.list())

    assert outcome(lambda: [keys.normalized(key)]) == outcome(written)

    async def below() -> list[str]:
        view = InMemoryStorage().namespace("x")
        await view.write("y", b"x")
        return await view.list(key)

    found = outcome(lambda: ["y"] if "y".startswith(keys.normalized_prefix(key)) else [])
    assert found == outcome(lambda: run(below()))


@pytest.mark.parametrize("key", ["", "/", "a\\b", "../a", "a/../b", "a\0b", "k" * 701])
def test_keys_that_cannot_be(key: str) -> None:
    with pytest.raises(StorageError):
        run(storage().write(key, b"x"))
    with pytest.raises(StorageError):
        run(storage().read(key))


def test_a_view_sees_its_own_keys_only() -> None:
    using = storage()
    view = using.namespace("a").namespace("b/")

    run(using.write("a/b/c", b"1"))
    run(using.write("other", b"2"))

    assert run(view.list()) == ["c"]
    assert run(view.read("c")) == b"1"
    run(view.write("/d//e", b"words to find"))
    assert run(using.read("a/b/d/e")) == b"words to find"
    assert [result.key for result in run(view.search("words"))] == ["d/e"]
