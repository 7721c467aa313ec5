"""A file overwrites nothing that is there already, takes no key, and owns nothing."""

from __future__ import annotations

from uuid import UUID

import pytest

from django_agent_sessions.interchange import JsonLines, import_sessions
from django_agent_sessions.models import Session, SessionMessage

from .files import changed, export, forget, lines, rows, write

pytestmark = pytest.mark.django_db


def test_keys_in_a_file_overwrite_nothing_and_stand_before_what_is_said_now(store, agent, file):
    mine = store.append_many(agent, [{"content": "mine"}, {"content": "too"}])
    [line] = lines(export(file))
    changed(line, "session.session_id", "other")
    ahead = UUID(int=mine[0].id.int | (2**47 << 80))
    changed(line, "agents.0.messages.1.id", str(ahead))
    before = rows()

    report = import_sessions(write(file, line))

    assert (report.made, report.messages, report.skips) == (1, 2, 0)
    after = rows()
    assert all(set(before[name]) < set(after[name]) for name in before if before[name])
    other = store.agents.open(store.open("other"))
    assert store.payloads(other) == [{"content": "mine"}, {"content": "too"}]
    assert not SessionMessage.objects.filter(pk=ahead).exists()


def test_two_messages_of_one_key_are_two_messages(store, agent, file):
    store.append_many(agent, [{"content": "a"}, {"content": "b"}])
    [line] = lines(export(file))
    changed(line, "agents.0.messages.1.id", line["agents"][0]["messages"][0]["id"])
    forget()

    assert import_sessions(write(file, line)).messages == 2
    assert SessionMessage.objects.count() == 2


def test_whom_a_file_names_as_owner_owns_nothing(store, agent, ada, file):
    Session.objects.update(owner=ada)
    export(file)
    forget()

    import_sessions(JsonLines(file))
    assert Session.objects.get().owner is None

    forget()
    import_sessions(JsonLines(file), owner=lambda found: found.columns["owner"]["id"])
    assert Session.objects.get().owner == ada


def test_an_external_id_that_its_owner_has_already_leaves_the_session_out(store, ada, file, rich):
    Session.objects.filter(pk=rich.id).update(owner=ada)
    export(file)
    taken = Session.objects.get(pk=rich.id).external_id
    Session.objects.create(namespace="other", session_id="taken", owner=ada, external_id=taken)

    report = import_sessions(JsonLines(file), owner=ada, namespace="other")

    assert (report.made, report.left_out) == (1, 1)
    others = Session.objects.filter(namespace="other").exclude(session_id="taken")
    assert others.get().session_id == "empty"


def test_what_is_there_already_and_no_import_made_is_left_alone(rich, file):
    export(file)
    before = rows()

    report = import_sessions(JsonLines(file))

    assert (report.left_out, report.made) == (2, 0)
    assert rows() == before


def test_an_import_again_changes_nothing(rich, file):
    export(file)
    forget()
    import_sessions(JsonLines(file))
    before = rows()

    assert import_sessions(JsonLines(file)).unchanged == 2

    assert rows() == before
