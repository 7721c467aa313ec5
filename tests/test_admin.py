from __future__ import annotations

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_agent_sessions.models import (
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.records import AgentState

from .test_fields import set_raw

MODELS = (Session, SessionAgent, SessionMessage, SessionMultiAgent)

pytestmark = pytest.mark.django_db


def list_url(model) -> str:
    return reverse(f"admin:agent_sessions_{model._meta.model_name}_changelist")


def row_url(row) -> str:
    return reverse(f"admin:agent_sessions_{row._meta.model_name}_change", args=[row.pk])


@pytest.fixture
def conversation(store, ada):
    """A row in every table, with content that tries to break pages."""
    session = store.open("<script>alert('id')</script>", title="<script>alert('title')</script>")
    Session.objects.filter(pk=session.id).update(owner=ada)
    agent = store.open_agent(
        session, data=AgentState(state={"a": b"\x00", "nul": "\x00"}, internal_state="\ud800")
    )
    store.append(agent, {"role": "user", "content": "<script>alert('text')</script>"})
    store.append(agent, {"role": "user", "content": "\x00 \ud800 🐇"})
    store.append(agent, "only \ud800 text")
    store.append(agent, None)
    store.create_multi_agent(session, "graph", {"nodes": [b"x"]}, kind="graph")
    return agent


@pytest.mark.parametrize("model", MODELS)
def test_every_table_can_be_listed_and_every_row_opened(admin_client, conversation, model):
    page = admin_client.get(list_url(model))
    assert page.status_code == 200
    assert "<script>alert(" not in page.content.decode()

    for row in model._base_manager.all():
        page = admin_client.get(row_url(row))
        assert page.status_code == 200
        assert "<script>alert(" not in page.content.decode()


@pytest.mark.parametrize("model", MODELS)
def test_nothing_can_be_added_changed_or_deleted(admin_client, conversation, model):
    row = model._base_manager.first()
    url = row_url(row)

    assert admin_client.get(url.replace(f"{row.pk}/change/", "add/")).status_code == 403
    assert admin_client.post(url, {"title": "changed"}).status_code == 403
    delete = url.replace("change/", "delete/")
    assert admin_client.post(delete, {"post": "yes"}).status_code == 403
    admin_client.post(
        list_url(model),
        {"action": "delete_selected", "_selected_action": [str(row.pk)], "post": "yes"},
    )
    assert model._base_manager.filter(pk=row.pk).exists()
    assert not Session.objects.filter(title="changed").exists()


def test_only_staff_with_the_permission_sees_anything(client, conversation):
    reader = get_user_model().objects.create_user("reader", is_staff=True)
    client.force_login(reader)
    assert client.get(list_url(Session)).status_code == 403

    reader.user_permissions.add(
        Permission.objects.get(content_type__app_label="agent_sessions", codename="view_session")
    )
    assert client.get(list_url(Session)).status_code == 200
    assert client.get(list_url(SessionMessage)).status_code == 403
    assert client.get(row_url(SessionMessage.objects.first())).status_code == 403


def test_a_corrupt_message_is_shown_as_corrupt_beside_the_others(admin_client, conversation):
    set_raw(0, '{"plantedsecret')

    assert admin_client.get(list_url(SessionMessage)).status_code == 200
    page = admin_client.get(row_url(SessionMessage.objects.get(message_id=0))).content.decode()
    assert "CorruptPayload of 15 characters" in page
    page = admin_client.get(row_url(SessionMessage.objects.get(message_id=1))).content.decode()
    assert "🐇" in page


def test_sessions_are_found_by_their_exact_id_and_by_words_of_their_title(admin_client, store):
    store.open("user-1", title="Holiday plans")
    store.open("user-12", title="Tax return")

    def found(query: str) -> list[bool]:
        page = admin_client.get(list_url(Session), {"q": query}).content.decode()
        return [title in page for title in ("Holiday plans", "Tax return")]

    assert found("user-1") == [True, False]
    assert found("holiday") == [True, False]
    assert found("return") == [False, True]
    assert found("nothing") == [False, False]


@pytest.mark.parametrize("model", MODELS)
def test_a_page_takes_as_many_statements_for_many_rows_as_for_few(admin_client, store, ada, model):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(list_url(model)).status_code == 200
        return len(captured)

    def add(number: int) -> None:
        session = store.open(f"session-{number}")
        Session.objects.filter(pk=session.id).update(owner=ada)
        store.append_many(store.open_agent(session), [{"role": "user", "content": "x"}] * 3)
        store.create_multi_agent(session, "graph", {})

    add(0)
    few = statements()
    for number in range(1, 10):
        add(number)

    assert statements() == few


def test_a_user_with_a_session_under_legal_hold_is_shown_as_protected(admin_client, store, ada):
    Session.objects.filter(pk=store.open("s", title="Held plans").id).update(
        owner=ada, legal_hold=True
    )
    url = reverse("admin:auth_user_delete", args=[ada.pk])

    page = admin_client.get(url).content.decode()
    assert "Cannot delete user" in page
    assert "Held plans" in page
    assert admin_client.post(url, {"post": "yes"}).status_code == 200
    assert get_user_model().objects.filter(pk=ada.pk).exists()


def test_a_user_can_be_deleted_together_with_sessions(admin_client, conversation, ada):
    url = reverse("admin:auth_user_delete", args=[ada.pk])

    assert "Are you sure" in admin_client.get(url).content.decode()
    assert admin_client.post(url, {"post": "yes"}).status_code == 302
    for model in MODELS:
        assert not model._base_manager.exists()


def test_whoever_may_not_delete_sessions_may_not_delete_their_owner(client, conversation, ada):
    clerk = get_user_model().objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__in=["delete_user", "view_user"]))
    client.force_login(clerk)

    page = client.post(reverse("admin:auth_user_delete", args=[ada.pk]), {"post": "yes"})

    assert page.status_code == 403
    assert get_user_model().objects.filter(pk=ada.pk).exists()


def test_all_our_models_are_in_the_admin():
    assert all(admin.site.is_registered(model) for model in MODELS)
