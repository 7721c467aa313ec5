from __future__ import annotations

from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from django_agent_sessions.governance.legal_hold import release
from django_agent_sessions.models import Session, SessionAgent, SessionMessage, SessionMultiAgent
from django_agent_sessions.models.users import UserKey
from django_agent_sessions.values.ids import SessionKey

pytestmark = pytest.mark.django_db


def test_the_migrations_are_those_of_the_models():
    call_command("makemigrations", "agent_sessions", check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user-1", "USER-1"),
        ("josé", "JOSE"),
        ("josé", "jose"),
        ("a", "a "),
        ("ß", "ss"),
        ("İ", "i"),
    ],
)
def test_ids_compare_exactly_everywhere(one, other):
    for first, second in ((one, other), (other, one)):
        session = Session.objects.create(session_id=first, namespace=first)
        Session.objects.create(session_id=second, namespace=first)
        Session.objects.create(session_id=first, namespace=second)
        for agent_id in (first, second):
            SessionAgent.objects.create(session=session, agent_id=agent_id, dialect="openai")
            SessionMultiAgent.objects.create(session=session, multi_agent_id=agent_id)

        assert Session.objects.filter_key(SessionKey(first, "", first)).count() == 1
        assert SessionAgent.objects.get(agent_id=second).agent_id == second
        assert SessionMultiAgent.objects.get(multi_agent_id=second).multi_agent_id == second
        Session.objects.all().delete()


def test_ids_order_by_code_point_so_that_prefixes_are_ranges():
    for session_id in ("b", "A1", "a2", "Z", "a1", "ä", "a", "🐇", "\ue000"):
        Session.objects.create(session_id=session_id)

    ordered = Session.objects.order_by("session_id").values_list("session_id", flat=True)
    assert list(ordered) == ["A1", "Z", "a", "a1", "a2", "b", "ä", "\ue000", "🐇"]
    prefixed = Session.objects.filter(session_id__gte="a", session_id__lt="b")
    assert set(prefixed.values_list("session_id", flat=True)) == {"a", "a1", "a2"}


@pytest.mark.parametrize("length", [1, 255])
def test_a_name_is_unique_in_its_namespace_up_to_its_last_character(length):
    name = "🐇" * (length - 1)
    Session.objects.create(session_id=f"{name}a", namespace="🐇" * 255)
    Session.objects.create(session_id=f"{name}b", namespace="🐇" * 255)

    with pytest.raises(IntegrityError), transaction.atomic():
        Session.objects.create(session_id=f"{name}a", namespace="🐇" * 255)


def test_an_external_id_is_unique_among_the_sessions_of_one_owner(ada, bob):
    Session.objects.create(session_id="1", owner=ada, external_id="chat")
    Session.objects.create(session_id="2", owner=bob, external_id="chat")
    # Nobody's, and sessions without such an id, are as many as they like.
    Session.objects.create(session_id="3", external_id="chat")
    Session.objects.create(session_id="4", external_id="chat")
    Session.objects.create(session_id="5", owner=ada)
    Session.objects.create(session_id="6", owner=ada)

    with pytest.raises(IntegrityError), transaction.atomic():
        Session.objects.create(session_id="7", owner=ada, external_id="chat")


def test_names_and_positions_are_unique_where_they_belong():
    session = Session.objects.create(session_id="s")
    agent = SessionAgent.objects.create(session=session, agent_id="a", dialect="openai")
    message = {"session": session, "agent": agent, "message": {}}
    SessionMessage.objects.create(**message, message_id=0)
    SessionMessage.objects.create(**message, message_id=0, branch=1)
    SessionMultiAgent.objects.create(session=session, multi_agent_id="m")

    for model, values in (
        (SessionAgent, {"session": session, "agent_id": "a", "dialect": "strands"}),
        (SessionMessage, {**message, "message_id": 0}),
        (SessionMultiAgent, {"session": session, "multi_agent_id": "m"}),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            model._base_manager.create(**values)


def test_with_a_user_go_the_sessions_and_all_that_belongs_to_them(ada, bob):
    for owner in (ada, bob):
        session = Session.objects.create(session_id=owner.username, owner=owner)
        agent = SessionAgent.objects.create(session=session, agent_id="a", dialect="openai")
        SessionMessage.objects.create(session=session, agent=agent, message_id=0, message={})
        SessionMultiAgent.objects.create(session=session, multi_agent_id="m")

    ada.delete()

    for model in (Session, SessionAgent, SessionMessage, SessionMultiAgent):
        assert model._base_manager.count() == 1
    assert Session.objects.get().owner == bob


def test_a_user_with_a_session_under_legal_hold_stays(ada, bob):
    for owner in (ada, bob):
        Session.objects.create(session_id=owner.username, owner=owner)
    Session.objects.create(session_id="held", owner=ada, legal_hold=True)

    with transaction.atomic():
        with pytest.raises(ProtectedError, match=r"Session\.owner") as refusal:
            ada.delete()
        with pytest.raises(ProtectedError):
            get_user_model().objects.filter(username__in=["ada", "bob"]).delete()
        bob.delete()

    assert [str(held) for held in refusal.value.protected_objects] == ["held"]
    assert set(Session.objects.values_list("session_id", flat=True)) == {"ada", "held"}
    release(Session.objects.get(session_id="held").pk, reason="closed")
    ada.delete()
    assert not Session.objects.exists()


def test_querysets_find_by_owner_and_activity(ada, bob):
    now = timezone.now()
    mine = Session.objects.create(session_id="mine", owner=ada)
    later = Session.objects.create(
        session_id="later", owner=ada, last_activity_at=now + timedelta(hours=1)
    )
    Session.objects.create(session_id="his", owner=bob)
    Session.objects.create(session_id="nobodys")
    Session.objects.create(session_id="archived", owner=ada, archived_at=now)
    Session.objects.create(session_id="expired", owner=ada, expires_at=now - timedelta(seconds=1))
    Session.objects.filter(pk=later.pk).update(expires_at=now + timedelta(days=1))

    assert list(Session.objects.owned_by(ada).active().recent_first()) == [later, mine]
    assert list(Session.objects.owned_by(ada.pk).active().recent_first()) == [later, mine]
    assert Session.objects.owned_by(None).count() == 0


def test_rows_are_named_for_people():
    # Never by the title, which is content.
    assert str(Session(session_id="s-1", title="Holiday")) == "s-1"
    assert str(SessionAgent(agent_id="researcher")) == "researcher"
    assert str(SessionMultiAgent(multi_agent_id="graph")) == "graph"
    assert str(SessionMessage(role="user", message_id=3)) == "user 3"
    assert str(SessionMessage(message_id=3)) == "message 3"


def test_constraints_and_indexes_have_names_of_our_own():
    with connection.cursor() as cursor:
        for model in (Session, SessionAgent, SessionMessage, SessionMultiAgent):
            there = connection.introspection.get_constraints(cursor, model._meta.db_table)
            named = [*model._meta.constraints, *model._meta.indexes]
            assert all(each.name.startswith("agent_sessions_") for each in named)
            assert {each.name for each in named} <= set(there)


def test_every_reference_to_a_user_works_across_databases():
    user = get_user_model()
    for model in apps.get_app_config("agent_sessions").get_models():
        for field in model._meta.concrete_fields:
            if field.related_model is user:
                assert isinstance(field, UserKey), field
                assert getattr(field.remote_field.on_delete, "lazy_sub_objs", False), field


def test_a_messages_redacted_version_is_its_payload(store, agent):
    said, gone = {"role": "user", "content": "a"}, {"role": "user", "content": "[gone]"}
    stored = {"agent_id": agent.id, "session_id": agent.session, "message": said}

    row = SessionMessage.objects.create(**stored, message_id=0)
    assert (row.message, row.redact_message) == (said, None)
    row.redact_message = None
    assert row.message == said
    row.redact_message = gone
    row.save()
    redacted = {"redact_message": gone}
    SessionMessage.objects.create(**stored, message_id=1, **redacted)

    for row in SessionMessage.objects.filter(redacted_at__isnull=False):
        assert row.message == row.redact_message == gone
    assert [row.redact_message for row in SessionMessage.objects.all()] == [gone, gone]
    store.messages.update(agent, 0, said, epoch=store.get("session-1").redaction_epoch)
    assert SessionMessage.objects.get(message_id=0).redact_message == said
