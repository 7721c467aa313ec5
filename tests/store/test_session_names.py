"""A session is named in one way by every method of the store and by every service."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from django_agent_sessions import audit, leases
from django_agent_sessions.exceptions import InvalidIdError, SessionNotFoundError
from django_agent_sessions.governance import legal_hold, reviews, session_deletion, sharing
from django_agent_sessions.governance.redaction import Find, descendants_of, redact
from django_agent_sessions.governance.retention import deletion_date
from django_agent_sessions.interchange import export_markdown
from django_agent_sessions.models import AuditEvent, Review, Session
from django_agent_sessions.queries.search import find_messages
from django_agent_sessions.rest.chat.ai_sdk import page_of
from django_agent_sessions.store import (
    Agents,
    Branches,
    Feedback,
    Messages,
    MultiAgents,
    Sessions,
    SessionStore,
    Snapshots,
    Turns,
)
from django_agent_sessions.store._objects import ObjectStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.testing import make_session
from django_agent_sessions.timeline import Timeline
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import Usage

from .test_event_loops import FUNCTIONS

pytestmark = pytest.mark.django_db

Named = Callable[[Any, Any], Any]

NAMES: dict[str, Callable[[Session], Any]] = {
    "record": lambda row: SessionStore(owner=EVERYBODY).get(row.pk),
    "model": lambda row: Session.objects.get(pk=row.pk),
    "primary key": lambda row: row.pk,
    "text of the primary key": lambda row: str(row.pk),
    "session_id": lambda row: row.session_id,
}

METHODS: dict[str, Named] = {
    "SessionStore.open": lambda store, name: store.open(name).usage,
    "SessionStore.find": lambda store, name: store.find(name).usage,
    "SessionStore.get": lambda store, name: store.get(name).usage,
    "SessionStore.touch": lambda store, name: store.touch(name, Usage()),
    "SessionStore.delete": lambda store, name: store.delete(name),
    "Sessions.update": lambda store, name: store.sessions.update(name, title="T").title,
    "Sessions.usage": lambda store, name: store.sessions.usage(name).messages,
    "Sessions.fork": lambda store, name: store.sessions.fork(name).owner_id,
    "Sessions.descendants": lambda store, name: store.sessions.descendants(name),
    "Sessions.ancestors": lambda store, name: store.sessions.ancestors(name),
    "Agents.open": lambda store, name: store.agents.open(name, "default").agent_id,
    "Agents.create": lambda store, name: store.agents.create(name, "new").agent_id,
    "Agents.start": lambda store, name: store.agents.start(name, "new", ["a"])[0].agent_id,
    "Agents.find": lambda store, name: store.agents.find(name, "default").agent_id,
    "Agents.list": lambda store, name: len(store.agents.list(name)),
    "MultiAgents.create": lambda store, name: store.multi_agents.create(name, "new", {}).kind,
    "MultiAgents.find": lambda store, name: store.multi_agents.find(name, "graph").kind,
    "MultiAgents.list": lambda store, name: len(store.multi_agents.list(name)),
    "MultiAgents.update": lambda store, name: store.multi_agents.update(name, "graph", {}),
    "Feedback.list": lambda store, name: len(store.feedback.list(name)),
    "ObjectStore.write_object": lambda store, name: objects(store).write_object(
        "k", b"x", session=name
    ),
    "ObjectStore.read_object": lambda store, name: objects(store).read_object("k", session=name),
    "ObjectStore.delete_object": lambda store, name: objects(store).delete_object(
        "k", session=name
    ),
    "ObjectStore.delete_session_if_empty": lambda store, name: objects(
        store
    ).delete_session_if_empty(name),
}
OTHERS = {"trace_config", "session_context", "make_session"}
FINDS = ["SessionStore.find", "SessionStore.delete", "SessionStore.touch"]
FINDS += ["ObjectStore.delete_session_if_empty"]
DELETES = ["SessionStore.delete", "ObjectStore.delete_session_if_empty"]
# Without a session: all feedback, the store's own objects, and an event of no session.
OPTIONAL = {"Feedback.list", "record", *(m for m in METHODS if m.endswith("_object"))}
LISTS = ["Sessions.ancestors", "Sessions.descendants", "Feedback.list"]

SERVICES: dict[str, Callable[[Any, User], Any]] = {
    "hold": lambda name, bob: legal_hold.hold(name, reason="r"),
    "release": lambda name, bob: legal_hold.release(name, reason="r"),
    "redact": lambda name, bob: redact(name, Find("Hello"), reason="r").messages,
    "descendants_of": lambda name, bob: descendants_of(name),
    "delete": lambda name, bob: session_deletion.delete(name, reason="r"),
    "add_participant": lambda name, bob: sharing.add_participant(name, bob, "reader").role,
    "remove_participant": lambda name, bob: sharing.remove_participant(name, bob),
    "create_link": lambda name, bob: len(sharing.create_link(name, timedelta(days=1))),
    "revoke_link": lambda name, bob: sharing.revoke_link(name, uuid4()),
    "owner_for": lambda name, bob: sharing.owner_for(User.objects.get(username="ada"), name),
    "add_note": lambda name, bob: bool(reviews.add_note(name, "n", author=bob)),
    "edit_note": lambda name, bob: with_note(name, bob, reviews.edit_note, "new"),
    "delete_note": lambda name, bob: with_note(name, bob, reviews.delete_note),
    "set_labels": lambda name, bob: reviews.set_labels(name, ["l"], actor=bob),
    "set_state": lambda name, bob: reviews.set_state(name, Review.State.OPEN, actor=bob),
    "assign": lambda name, bob: reviews.assign(name, None, actor=bob),
    "find_messages": lambda name, bob: len(find_messages(name, "Hello")),
    "acquire": lambda name, bob: leases.acquire(name, wait=0).release(),
    "deletion_date": lambda name, bob: deletion_date(name),
    "export_markdown": lambda name, bob: len("".join(export_markdown(name))) > 100,
    "page_of": lambda name, bob: len(page_of(name).messages),
    "record": lambda name, bob: audit.record(AuditEvent.Action.READ, session=name).action,
    "Timeline": lambda name, bob: Timeline(name, bob, "default").fork()[1],
}


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def bob() -> User:
    return User.objects.create_user("bob")


@pytest.fixture
def row(ada) -> Session:
    row = make_session("Hello", "Hi", owner=ada, session_id="card-1")
    SessionStore(owner=ada).multi_agents.create(row, "graph", {})
    return row


@pytest.fixture(autouse=True)
def shares(settings):
    settings.AGENT_SESSIONS = {"SHARE_LINKS": True, "SHARE_LINK_SECONDS": 2 * 86400}


def with_note(name: Any, author: User, change: Callable[..., Any], *values: str) -> Any:
    note = reviews.add_note(name, "n", author=author)
    return change(name, note, *values, author=author)


def objects(store: SessionStore) -> SnapshotStorageStore:
    return SnapshotStorageStore(store)


def names_a_session(method: Any) -> bool:
    parameters = inspect.signature(method).parameters.values()
    return any("SessionName" in str(each.annotation) for each in parameters)


def test_every_method_that_takes_a_session_is_tried_here():
    kinds = (SessionStore, Sessions, Agents, MultiAgents, Messages, Turns, Branches, Snapshots)
    found = {
        f"{kind.__name__}.{name}"
        for kind in (*kinds, Feedback, ObjectStore)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if names_a_session(method) and not inspect.iscoroutinefunction(method)
        if not name.startswith("_")
    }

    assert found == METHODS.keys()


def test_every_service_that_takes_a_session_is_tried_here():
    found = {
        name.rpartition(".")[2]: function
        for name, function in FUNCTIONS.items()
        if {"session", "session_id"} & inspect.signature(function).parameters.keys()
    }

    # An SDK's object, the attribute of a span, and the id of a new session.
    found = {k: v for k, v in found.items() if k not in OTHERS}
    assert {*found} - SERVICES.keys() == {"aacquire", "aredact"}
    assert SERVICES.keys() - found == {"Timeline", "delete"}
    assert not [name for name, service in found.items() if not names_a_session(service)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NAMES)
def test_a_method_does_the_same_by_whatever_name(row, ada, method, name):
    store = SessionStore(owner=ada)
    reference = make_session("Hello", "Hi", owner=ada, session_id="card-2")
    store.multi_agents.create(reference, "graph", {})
    expected = METHODS[method](store, store.get(reference.pk))

    assert METHODS[method](store, NAMES[name](row)) == expected

    if method in DELETES:
        assert Session.objects.count() == 0
    elif method != "Sessions.fork":
        assert Session.objects.count() == 2
        assert store.get(NAMES[name](row)).id == row.pk


@pytest.mark.parametrize("method", METHODS)
def test_a_record_of_before_a_change_of_the_owner_names_the_session(row, ada, bob, method):
    store, before = SessionStore(owner=bob), SessionStore(owner=ada).get(row.pk)
    Session.objects.filter(pk=row.pk).update(owner=bob)
    reference = make_session("Hello", "Hi", owner=bob, session_id="card-2")
    store.multi_agents.create(reference, "graph", {})

    assert METHODS[method](store, before) == METHODS[method](store, reference.pk)


@pytest.mark.parametrize("method", METHODS)
def test_a_uuid_that_is_only_a_session_id_names_the_session(row, ada, method):
    store, name = SessionStore(owner=ada), uuid4()
    Session.objects.filter(pk=row.pk).update(session_id=str(name))
    reference = make_session("Hello", "Hi", owner=ada, session_id="card-2")
    store.multi_agents.create(reference, "graph", {})
    expected = METHODS[method](store, store.get(reference.pk))

    assert METHODS[method](store, name) == expected
    assert Session.objects.exclude(session_id="card-2").filter(pk=row.pk).exists() == (
        method not in DELETES
    )


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_takes_a_uuid_that_is_only_a_session_id(row, ada, bob, service):
    name = uuid4()
    Session.objects.filter(pk=row.pk).update(session_id=str(name))
    reference = make_session("Hello", "Hi", owner=ada, session_id="card-2")

    assert SERVICES[service](name, bob) == SERVICES[service](reference.pk, bob)
    if service == "record":
        assert AuditEvent.objects.filter(session=row.pk).count() == 1


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("name", NAMES)
def test_a_service_does_the_same_by_whatever_name(row, ada, bob, service, name):
    reference = make_session("Hello", "Hi", owner=ada, session_id="card-2")

    assert SERVICES[service](NAMES[name](row), bob) == SERVICES[service](reference.pk, bob)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "session_id"])
def test_no_name_reaches_the_session_of_another_owner(row, ada, bob, method, name):
    fork = SessionStore(owner=ada).sessions.fork(row)
    before = Session.objects.values().get(pk=row.pk)
    store, given = SessionStore(owner=bob, create=False), NAMES[name](row)

    if method in FINDS and method != "SessionStore.find":
        assert not METHODS[method](store, given)
    elif method in LISTS:
        assert METHODS[method](store, given) in ([], 0)
    elif method == "SessionStore.find":
        assert store.find(given) is None
    else:
        with pytest.raises(SessionNotFoundError):
            METHODS[method](store, given)

    assert Session.objects.values().get(pk=row.pk) == before
    assert {*Session.objects.values_list("pk", flat=True)} == {row.pk, fork.id}
    assert row.agents.count() == 1
    assert row.multi_agents.count() == 1


@pytest.mark.parametrize("wrong", [None, 5, b"card-1", ["card-1"], object()])
@pytest.mark.parametrize("method", METHODS)
def test_another_value_is_refused_with_words(row, ada, method, wrong):
    if wrong is None and method in OPTIONAL:
        return

    with pytest.raises(InvalidIdError, match="pass its record, its model instance") as caught:
        METHODS[method](SessionStore(owner=ada), wrong)

    assert "card-1" not in str(caught.value)


@pytest.mark.parametrize("wrong", [None, 5, b"card-1"])
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_refuses_another_value_with_words(row, bob, service, wrong):
    if wrong is None and service in OPTIONAL:
        return
    with pytest.raises(InvalidIdError, match="pass its record, its model instance"):
        SERVICES[service](wrong, bob)


def test_an_agent_is_no_session_and_the_error_shows_no_content(ada):
    row = make_session("a secret", owner=ada, title="a secret")
    store = SessionStore(owner=ada)
    [agent] = store.agents.list(row)

    with pytest.raises(InvalidIdError, match="a AgentRecord names no session") as caught:
        store.get(agent)  # type: ignore[arg-type] # wrong on purpose

    assert "secret" not in str(caught.value)


def test_an_error_names_a_record_by_its_session_id_without_its_title(row, bob, ada):
    SessionStore(owner=ada).sessions.update(row, title="a secret")
    record = SessionStore(owner=ada).get(row)

    with pytest.raises(SessionNotFoundError, match="'card-1' does not exist") as caught:
        SessionStore(owner=bob).get(record)

    assert "secret" not in str(caught.value)


def test_a_deleted_session_is_not_created_again_by_its_record(row, ada):
    store = SessionStore(owner=ada)
    record = store.get("card-1")
    assert store.delete(record) is True
    assert store.delete(record) is False

    with pytest.raises(SessionNotFoundError):
        store.open(record)

    assert Session.objects.count() == 0


def test_an_id_that_is_a_uuid_finds_what_it_created(ada):
    store, given = SessionStore(owner=ada), uuid4()
    created = store.open(given)

    assert created.session_id == str(given)
    assert store.get(given) == store.get(str(given)) == store.open(given) == created
    assert store.delete(given) is True


def test_a_text_that_names_two_sessions_is_refused_and_a_uuid_is_the_primary_key(row, ada):
    store = SessionStore(owner=ada)
    other = store.create("other", title="O")
    Session.objects.filter(pk=other.id).update(session_id=str(row.pk))

    assert store.get(row.pk).session_id == "card-1"
    with pytest.raises(InvalidIdError, match="pass a record, or the primary key as a UUID"):
        store.get(str(row.pk))
    with pytest.raises(InvalidIdError, match="pass a record, or the primary key as a UUID"):
        redact(str(row.pk), Find("Hello"), reason="r")
    with pytest.raises(InvalidIdError):
        store.delete(str(row.pk))
    assert Session.objects.count() == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_store_with_a_namespace_reaches_nothing_outside_it(row, ada, name):
    tenant = SessionStore(owner=ada, namespace="blue", create=False)

    assert tenant.find(NAMES[name](row)) is None
    assert tenant.delete(NAMES[name](row)) is False
    with pytest.raises(SessionNotFoundError):
        tenant.sessions.update(NAMES[name](row), title="x")


def test_a_primary_key_names_a_session_in_any_namespace_of_the_owner(ada):
    row = make_session(owner=ada, session_id="s", namespace="blue")
    store = SessionStore(owner=ada)

    assert store.get(row.pk).namespace == "blue"
    assert store.find("s") is None
    assert store.delete(row) is True


def test_a_session_that_is_being_deleted_has_no_name(row, ada):
    Session.objects.filter(pk=row.pk).update(namespace="\x7fdeleted")

    assert SessionStore(owner=EVERYBODY).find(row.pk) is None
