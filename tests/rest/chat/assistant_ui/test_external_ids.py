"""A message's key of the client: it names one message, whatever the message says."""

from __future__ import annotations

import pytest

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Participant, SessionMessage
from tests.rest.chat.assistant_ui.conftest import Cloud, rows, session_of, ui

pytestmark = pytest.mark.django_db


def words(thread):
    return [row.message["content"]["parts"][0]["text"] for row in rows(thread)]


def test_an_answer_that_is_created_when_it_begins_and_when_it_ends_is_one_message(cloud, thread):
    question = cloud.say(thread, ui("user", "Where to?"), external_id="u1")
    begun = cloud.say(thread, ui("assistant", "To Lis"), question, external_id="a1", open_run=True)

    assert cloud.say(thread, ui("assistant", "To Lisbon."), question, external_id="a1") == begun

    answer, asked = cloud.messages(thread)
    assert (answer["id"], answer["content"]) == (begun, ui("assistant", "To Lisbon."))
    assert [answer["external_id"], asked["external_id"]] == ["a1", "u1"]
    assert [row.external_id for row in rows(thread)] == ["u1", "a1"]


def test_equal_texts_under_two_keys_are_two_messages(cloud, thread):
    first, second = (
        cloud.say(thread, ui("user", "yes"), external_id=name) for name in ("u1", "u2")
    )
    assert first != second
    assert len(rows(thread)) == 2
    # And each of them is found again.
    again = [cloud.say(thread, ui("user", "yes"), external_id=name) for name in ("u1", "u2")]
    assert again == [first, second]
    assert len(rows(thread)) == 2


def test_a_repeated_create_changes_nothing(cloud, thread):
    key = cloud.say(thread, ui("user", "Hello"), external_id="u1")
    (row,) = rows(thread)
    assert cloud.say(thread, ui("user", "Hello"), external_id="u1") == key
    assert [(one.pk, one.revision) for one in rows(thread)] == [(row.pk, row.revision)]


def test_a_message_that_was_loaded_is_known_by_the_id_that_the_client_has(cloud, thread):
    key = cloud.say(thread, ui("user", "Hello"))
    assert cloud.say(thread, ui("user", "Hello, there"), external_id=key) == key
    assert words(thread) == ["Hello, there"]


@pytest.mark.parametrize("named", ["parent_id", "parent_external_id"])
def test_a_parent_may_be_named_by_its_key(cloud, thread, named):
    question = cloud.say(thread, ui("user", "Where to?"), external_id="u1")
    sent = {"external_id": "a1", named: "u1"}
    cloud.say(thread, ui("assistant", "To Lisbon."), **sent)
    assert cloud.messages(thread)[0]["parent_id"] == question


def test_a_message_is_not_its_own_parent(cloud, thread):
    for stored in (False, True):
        refused = cloud.send(thread, ui("user", "Hello"), "u1", external_id="u1")
        assert refused.status_code == 400
        if not stored:
            cloud.say(thread, ui("user", "Hello"), external_id="u1")


@pytest.mark.parametrize("name", [" ", "x" * 256, "a\u0000", {}, ["u1"]])
def test_a_key_that_cannot_be_stored_is_refused(cloud, thread, name):
    assert cloud.send(thread, ui("user", "Hello"), external_id=name).status_code == 400
    assert rows(thread) == []


def test_another_thread_may_have_the_same_key(cloud, thread):
    other = cloud.thread()
    first, second = (cloud.say(one, ui("user", "Hi"), external_id="u1") for one in (thread, other))
    assert first != second


def test_a_redacted_message_keeps_its_key_and_is_not_brought_back(cloud, thread, ada):
    key = cloud.say(thread, ui("user", "My card is 4111"), external_id="u1")
    redact(session_of(thread).pk, Find("4111"), actor=ada, reason="a card")

    assert cloud.say(thread, ui("user", "My card is 4111"), external_id="u1") == key
    assert "4111" not in str(cloud.messages(thread))
    assert SessionMessage.objects.count() == 1


def test_a_writer_completes_an_answer_and_changes_no_other(cloud, thread, bob):
    Participant.objects.create(session=session_of(thread), user=bob, role="writer")
    writer = Cloud(bob)
    cloud.say(thread, ui("user", "Hello"), external_id="u1")
    question = writer.say(thread, ui("user", "Where to?"), external_id="u2")
    writer.say(thread, ui("assistant", "To Lis"), question, external_id="a2")
    writer.say(thread, ui("assistant", "To Lisbon."), question, external_id="a2")

    assert writer.send(thread, ui("user", "Forged"), external_id="u1").status_code == 404
    assert words(thread) == ["Hello", "Where to?", "To Lisbon."]
    assert [row.author for row in rows(thread)] == ["", str(bob.pk), str(bob.pk)]


def delete(cloud, thread, *names):
    return cloud.ask("delete", f"threads/{thread}/messages", {"message_ids": list(names)})


def conversation(cloud, thread):
    found = {one["id"]: one for one in cloud.messages(thread)}
    return [
        (
            one["content"]["parts"][0]["text"],
            found[one["parent_id"]]["content"]["parts"][0]["text"] if one["parent_id"] else None,
        )
        for one in reversed(found.values())
    ]


def talk(cloud, thread, *texts, parent=None):
    keys = []
    for text in texts:
        parent = cloud.say(thread, ui("user", text), parent, external_id=f"key {text}")
        keys.append(parent)
    return keys


def test_deleted_messages_are_gone_and_the_others_stay_a_conversation(cloud, thread):
    a, b, _c, d, e = talk(cloud, thread, *"abcde")
    other = talk(cloud, thread, "f", parent=b)

    assert delete(cloud, thread, b, "key c", e, "unknown").status_code == 204

    assert conversation(cloud, thread) == [("a", None), ("d", "a"), ("f", "a")]
    assert [row.message_id for row in rows(thread)] == [0, 1, 2]
    assert session_of(thread).message_count == 3
    assert words(thread) == ["a", "d", "f"]
    assert delete(cloud, thread, b).status_code == 404
    # What is sent after it, and what is sent again.
    assert talk(cloud, thread, "d", parent=a) == [d]
    assert talk(cloud, thread, "b", "g", parent=other[0])
    assert len(rows(thread)) == 5


def test_the_first_message_is_deleted_too(cloud, thread):
    first, *_others = talk(cloud, thread, *"ab")
    assert delete(cloud, thread, first).status_code == 204
    assert conversation(cloud, thread) == [("b", None)]


def test_a_child_that_was_redacted_stays_redacted(cloud, thread, ada):
    first, *_others = talk(cloud, thread, "a", "b 4111")
    redact(session_of(thread).pk, Find("4111"), actor=ada, reason="a card")
    assert delete(cloud, thread, first).status_code == 204
    assert conversation(cloud, thread) == [("b [REDACTED]", None)]
    assert rows(thread)[0].redacted_at is not None


def test_only_who_may_change_the_thread_deletes_messages(cloud, strangers_cloud, thread, bob):
    (key,) = talk(cloud, thread, "a")
    assert delete(strangers_cloud, thread, key).status_code == 404
    Participant.objects.create(session=session_of(thread), user=bob, role="writer")
    assert delete(strangers_cloud, thread, key).status_code == 404
    assert delete(cloud, thread).status_code == 400
    assert len(rows(thread)) == 1


def test_no_message_under_legal_hold_is_deleted(cloud, thread):
    (key,) = talk(cloud, thread, "a")
    session_of(thread).__class__.objects.update(legal_hold=True)
    assert delete(cloud, thread, key).status_code == 409
    assert len(rows(thread)) == 1
