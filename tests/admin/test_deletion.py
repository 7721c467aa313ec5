from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.urls import reverse

from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import (
    AuditEvent,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)

from .people import staff
from .test_list import LIST

MODELS = (Session, SessionAgent, SessionMessage, SessionMultiAgent)

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation(store, ada):
    """A row in every table."""
    session = store.open("session-1", title="Holiday plans")
    Session.objects.filter(pk=session.id).update(owner=ada)
    agent = store.agents.open(session)
    store.append(agent, {"role": "user", "content": "Where to?"})
    store.multi_agents.create(session, "graph", {"nodes": [b"x"]}, kind="graph")
    return session


@pytest.fixture
def officer(client):
    client.force_login(staff("officer", "view_session", "delete_session"))
    return client


def delete_url(session) -> str:
    return reverse("admin:agent_sessions_session_delete", args=[session.id])


def delete_selected(client, *sessions, **fields):
    keys = [str(session.id) for session in sessions]
    data = {"action": "delete_selected", "_selected_action": keys, **fields}
    return client.post(reverse(LIST), data)


def test_deletion_is_asked_about_then_done_and_recorded_with_who_did_it(officer, conversation):
    Session.objects.update(message_count=7)
    page = officer.get(delete_url(conversation)).content.decode()
    assert "This cannot be undone" in page
    assert "session-1" in page
    assert "Messages: 7" in page
    assert "Holiday" not in page
    assert "Where to" not in page

    assert officer.post(delete_url(conversation), {"post": "yes"}).status_code == 302
    assert not any(model._base_manager.exists() for model in MODELS)
    (event,) = AuditEvent.objects.all()
    assert (event.action, event.session, event.actor) == ("deleted", conversation.id, "officer")


def test_after_a_deletion_the_list_is_shown_as_it_was_filtered(officer, conversation):
    kept = "?_changelist_filters=held%3Dno"
    page = reverse("admin:agent_sessions_session_change", args=[conversation.id])
    assert f'"{delete_url(conversation)}{kept}"' in officer.get(page + kept).content.decode()

    answer = officer.post(f"{delete_url(conversation)}{kept}", {"post": "yes"})

    assert answer["Location"] == f"{reverse(LIST)}?held=no"
    assert "was deleted successfully" in officer.get(answer["Location"]).content.decode()


def test_selected_sessions_are_deleted_and_recorded_with_who_did_it(officer, conversation, store):
    other = store.open("session-2")
    kept = store.open("session-3")

    assert "This cannot be undone" in delete_selected(officer, conversation, other).content.decode()
    assert Session.objects.count() == 3
    assert delete_selected(officer, conversation, other, post="yes").status_code == 302

    assert [*Session.objects.values_list("pk", flat=True)] == [kept.id]
    events = AuditEvent.objects.filter(action="deleted")
    assert {(event.session, event.actor) for event in events} == {
        (conversation.id, "officer"),
        (other.id, "officer"),
    }


@pytest.mark.parametrize(
    ("permissions", "name"),
    [(["read_transcript"], "Holiday plans (session-1)"), ([], "session-1")],
)
@pytest.mark.parametrize("held", [False, True])
def test_a_deletion_names_sessions_by_title_for_who_may_read_it(
    client, conversation, permissions, name, held
):
    client.force_login(staff("officer", "view_session", "delete_session", *permissions))
    Session.objects.update(legal_hold=held)
    link = reverse("admin:agent_sessions_session_change", args=[conversation.id])

    for answer in (client.get(delete_url(conversation)), delete_selected(client, conversation)):
        assert f'<a href="{link}">{name}</a>' in answer.content.decode()


def test_what_goes_with_a_session_is_told_without_reading_its_messages(
    officer, conversation, django_assert_max_num_queries
):
    SessionMessage.objects.update(message='{"secret')
    with django_assert_max_num_queries(6) as captured:
        officer.get(delete_url(conversation))

    # Only the beginning of a text is read, for the title.
    whole = '"agent_sessions_sessionmessage"."message"'
    assert not [q for q in captured.captured_queries if whole in q["sql"]]


def test_nothing_of_it_is_in_djangos_own_log(officer, conversation, store):
    officer.post(delete_url(conversation), {"post": "yes"})
    delete_selected(officer, store.open("session-2"), post="yes")

    assert not Session.objects.exists()
    assert not LogEntry.objects.exists()


def test_a_held_session_is_shown_as_protected_and_stays(officer, conversation):
    legal_hold.hold(conversation.id, reason="Case 7", actor="court")
    events = AuditEvent.objects.count()

    page = officer.get(delete_url(conversation)).content.decode()
    assert "Cannot delete" in page
    assert "Release these sessions first" in page
    assert "session-1</a> – under legal hold" in page
    page = officer.post(delete_url(conversation), {"post": "yes"}).content.decode()
    assert "Cannot delete" in page

    assert all(model._base_manager.exists() for model in MODELS)
    assert AuditEvent.objects.count() == events


def test_no_selected_session_is_deleted_if_one_of_them_is_held(officer, conversation, store):
    other = store.open("session-2")
    legal_hold.hold(conversation.id, reason="Case 7")

    page = delete_selected(officer, conversation, other, post="yes").content.decode()

    assert "Cannot delete" in page
    assert "session-1" in page
    assert "session-2" not in page
    assert Session.objects.count() == 2


@pytest.mark.parametrize("way", ["page", "action"])
def test_a_hold_that_comes_between_question_and_answer_is_said(
    officer, conversation, monkeypatch, way
):
    from django_agent_sessions.admin.deletion import SessionDeletionMixin

    shown = SessionDeletionMixin.get_deleted_objects

    def hold_right_after(self, objs, request):
        result = shown(self, objs, request)
        legal_hold.hold(conversation.id, reason="Case 7")
        return result

    monkeypatch.setattr(SessionDeletionMixin, "get_deleted_objects", hold_right_after)
    if way == "page":
        response = officer.post(delete_url(conversation), {"post": "yes"}, follow=True)
    else:
        keys = {"action": "delete_selected", "_selected_action": [str(conversation.id)]}
        response = officer.post(reverse(LIST), {**keys, "post": "yes"}, follow=True)

    assert "at least one session is under legal hold" in response.content.decode()
    assert Session.objects.exists()


@pytest.mark.parametrize("permission", ["change_session", "read_transcript", "redact", "export"])
def test_who_may_not_delete_sessions_cannot(client, conversation, permission):
    client.force_login(staff("other", "view_session", permission))

    assert client.get(delete_url(conversation)).status_code == 404
    assert client.post(delete_url(conversation), {"post": "yes"}).status_code == 404
    assert "delete_selected" not in client.get(reverse(LIST)).content.decode()
    delete_selected(client, conversation, post="yes")
    assert Session.objects.exists()


def test_a_session_that_is_not_there_cannot_be_deleted(officer, conversation):
    url = delete_url(conversation)
    officer.post(url, {"post": "yes"})

    assert officer.get(url).status_code == 302
    assert officer.get(url.replace(str(conversation.id), "x")).status_code == 302


# --- with their owner --------------------------------------------------------------------------


def test_a_user_with_a_session_under_legal_hold_is_shown_as_protected(
    admin_client, conversation, ada
):
    legal_hold.hold(conversation.id, reason="Case 7")
    url = reverse("admin:auth_user_delete", args=[ada.pk])

    page = admin_client.get(url).content.decode()
    assert "Cannot delete user" in page
    assert "session-1" in page
    assert "Holiday" not in page
    assert admin_client.post(url, {"post": "yes"}).status_code == 200
    assert get_user_model().objects.filter(pk=ada.pk).exists()


def test_a_user_can_be_deleted_together_with_sessions(admin_client, conversation, ada):
    url = reverse("admin:auth_user_delete", args=[ada.pk])

    page = admin_client.get(url).content.decode()
    assert "Are you sure" in page
    assert "Agent sessions: 1" in page
    assert admin_client.post(url, {"post": "yes"}).status_code == 302
    assert not any(model._base_manager.exists() for model in MODELS)


def test_whoever_may_not_delete_sessions_may_not_delete_their_owner(client, conversation, ada):
    clerk = get_user_model().objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__in=["delete_user", "view_user"]))
    client.force_login(clerk)

    page = client.post(reverse("admin:auth_user_delete", args=[ada.pk]), {"post": "yes"})

    assert page.status_code == 403
    assert get_user_model().objects.filter(pk=ada.pk).exists()
