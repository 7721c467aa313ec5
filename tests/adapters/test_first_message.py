"""The first message creates the session and the agent in its own transaction, exactly once."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.db import InternalError, connection, transaction
from django.db.models.signals import post_save
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.adapters.base import ConversationSession
from django_agent_sessions.content import dialects
from django_agent_sessions.exceptions import PayloadError, SessionNotFoundError
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store._sessions import Sessions
from tests.adapters.processes import work_together
from tests.store.cutting import commit_lost, user
from tests.texts import text_of

pytestmark = pytest.mark.django_db(transaction=True)


def conversation(**options) -> ConversationSession:
    return ConversationSession(SessionStore(**options), "chat", dialects.OPENAI, title="Trip")


def stored() -> list[str]:
    return [item["content"] for item in conversation().read()]


@pytest.fixture
def together(monkeypatch):
    """Let another writer do something just before the first one creates the session."""

    def meanwhile(do) -> None:
        start = Sessions.start

        def late(self, *arguments, **options):
            monkeypatch.setattr(Sessions, "start", start)
            do()
            return start(self, *arguments, **options)

        monkeypatch.setattr(Sessions, "start", late)

    return meanwhile


def test_the_first_message_is_one_transaction():
    with CaptureQueriesContext(connection) as captured:
        conversation().append([user("a")])

    # One look, and the rows of the session, the agent and the message.
    look, begin, *told, commit = [query["sql"].split()[0] for query in captured.captured_queries]
    assert (look, begin, commit) == ("SELECT", "BEGIN", "COMMIT")
    # MariaDB locks the session's row before an append.
    locks = ["SELECT"] if connection.vendor == "mysql" else []
    assert told == ["INSERT", "INSERT", *locks, "INSERT"]
    session = Session.objects.get()
    assert (session.title, session.message_count) == ("Trip", 1)


def test_several_first_messages_are_in_order():
    texts = ["a", 'b"', "c\\", "d"]
    conversation(scope="tenant").append([user(text) for text in texts])

    assert [item["content"] for item in conversation(scope="tenant").read()] == texts
    assert Session.objects.get().message_count == 4


def test_a_receiver_of_signals_is_told_of_the_rows():
    told: list[object] = []

    def receive(sender: type, instance: object, **kwargs: object) -> None:
        told.append(instance)

    for model in (Session, SessionAgent):
        post_save.connect(receive, sender=model)
    try:
        conversation().append([user("a")])
    finally:
        for model in (Session, SessionAgent):
            post_save.disconnect(receive, sender=model)

    assert told == [Session.objects.get(), SessionAgent.objects.get()]
    assert stored() == ["a"]


@pytest.mark.process
@pytest.mark.parametrize("kind", ["openai", "strands"])
def test_processes_that_write_it_at_the_same_moment_lose_and_double_none(kind):
    told = work_together("tests.adapters.first_writer", kind, 20, processes=4)

    expected = sorted(f"{each}-{number}" for each in range(20) for number in range(4))
    assert sorted(text for one in told for text in one) == expected
    assert sorted(text_of(row) for row in SessionMessage.objects.all()) == expected
    assert Session.objects.count() == SessionAgent.objects.count() == 20
    places = SessionMessage.objects.order_by("agent", "message_id").values_list("message_id")
    assert [place for (place,) in places] == [*range(4)] * 20


def test_two_first_messages_are_both_kept(together):
    first, second = conversation(), conversation()
    together(lambda: second.append([user("b")]))

    first.append([user("a")])
    second.append([user("c")])

    assert stored() == ["b", "a", "c"]
    assert Session.objects.get().message_count == 3
    assert SessionAgent.objects.count() == 1


def test_a_session_without_the_agent_gets_it(together):
    together(lambda: SessionStore().open("chat"))
    conversation().append([user("a")])

    assert stored() == ["a"]
    assert Session.objects.count() == SessionAgent.objects.count() == 1


def test_another_owner_is_not_reached(together):
    other = get_user_model().objects.create(username="other")
    together(lambda: SessionStore(owner=other).open("chat"))

    with pytest.raises(SessionNotFoundError):
        conversation().append([user("a")])

    assert not SessionAgent.objects.exists()


def test_a_store_that_creates_none_creates_none():
    with pytest.raises(SessionNotFoundError):
        conversation(create=False).append([user("a")])

    assert not Session.objects.exists()


def test_an_invalid_message_creates_nothing():
    with pytest.raises(PayloadError):
        conversation().append([user("a"), object()])

    assert not Session.objects.exists()


def test_a_rollback_of_the_caller_is_known():
    session = conversation()
    with transaction.atomic():
        session.run(lambda: session.append([user("a")]))
        transaction.set_rollback(True)
    session.run(lambda: session.append([user("b")]))

    assert stored() == ["b"]
    assert Session.objects.get().message_count == 1


def test_a_transaction_that_fails_is_forgotten():
    session = conversation()
    table = SessionMessage._meta.db_table

    def fail(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if f"INSERT INTO {table}" in sql:
            raise InternalError("refused")
        return result

    with connection.execute_wrapper(fail), transaction.atomic():
        with pytest.raises(InternalError):
            session.run(lambda: session.append([user("a")]))
        transaction.set_rollback(True)
    assert not Session.objects.exists()

    session.run(lambda: session.append([user("b")]))
    assert stored() == ["b"]


def test_a_commit_whose_answer_is_lost_is_written_once():
    session = conversation()
    with commit_lost():
        session.append([user("a")])
    session.append([user("b")])

    assert stored() == ["a", "b"]
    assert Session.objects.get().message_count == 2
    connection.close()


def test_a_deleted_session_is_created_again():
    session = conversation()
    session.append([user("a")])
    SessionStore().delete("chat")
    session.append([user("b")])

    assert stored() == ["b"]
