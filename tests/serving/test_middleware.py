from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.urls import reverse

from django_agent_sessions import audit
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.serving.middleware import acting_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def owned(store, ada, settings):
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "django_agent_sessions.serving.middleware.acting_user",
    ]
    session = store.open("s")
    Session.objects.filter(pk=session.id).update(owner=ada)
    return session


def test_whoever_deletes_a_user_is_named_for_the_sessions_that_go_along(
    owned, ada, admin_user, admin_client
):
    url = reverse("admin:auth_user_delete", args=[ada.pk])

    assert admin_client.post(url, {"post": "yes"}).status_code == 302

    event = AuditEvent.objects.get()
    assert (event.action, event.session, event.actor) == ("deleted", owned.id, "admin")


async def test_in_an_async_stack_the_user_is_named_while_the_view_runs_and_not_after_it(rf):
    async def view(request):
        # Who acts goes along into the view's threads, as every context variable does.
        await asyncio.to_thread(lambda: named.append(audit._acting.get().actor))
        return HttpResponse()

    named: list[Any] = []
    request = rf.get("/")
    request.user = get_user_model()(username="ada")

    stack: Any = acting_user(view)
    response = await stack(request)

    assert response.status_code == 200
    assert [user.get_username() for user in named] == ["ada"]
    assert audit._acting.get().actor is None


def test_a_stranger_is_nobody(owned, client):
    assert client.get(reverse("admin:login")).status_code == 200
    assert not AuditEvent.objects.exists()


def test_before_the_user_is_known_it_says_where_it_has_to_stand(client, settings):
    settings.MIDDLEWARE = [
        "django_agent_sessions.serving.middleware.acting_user",
        *settings.MIDDLEWARE,
    ]

    with pytest.raises(ImproperlyConfigured, match=r"must come after .*AuthenticationMiddleware"):
        client.get(reverse("admin:login"))
