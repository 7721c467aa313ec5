"""With ``ATOMIC_REQUESTS``, the writes of a request are one transaction."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.urls import include, path
from django.utils.decorators import method_decorator

from django_agent_sessions.models import Session
from django_agent_sessions.rest.problems import Conflict
from django_agent_sessions.rest.routers import SessionRouter
from django_agent_sessions.rest.viewsets import SessionViewSet

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls(__name__)]


class Sessions(SessionViewSet):
    """Creates a session, then fails if the request says so."""

    failure: Exception | None = None

    def create(self, request: Any) -> Any:
        response = super().create(request)
        if self.failure:
            raise self.failure
        return response


@method_decorator(transaction.non_atomic_requests, name="dispatch")
class Exempt(Sessions):
    pass


class Router(SessionRouter):
    sessions = Sessions


class ExemptRouter(SessionRouter):
    sessions = Exempt


urlpatterns = [
    path("atomic/", include((Router().urls, "atomic"))),
    path("exempt/", include((ExemptRouter().urls, "exempt"))),
]


@pytest.fixture(autouse=True)
def atomic(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)


@pytest.fixture
def create(api, monkeypatch):
    api.raise_request_exception = False

    def send(site: str, failure: Exception | None = None) -> int:
        monkeypatch.setattr(Sessions, "failure", failure)
        answer = api.post(f"/{site}/sessions/", {"title": "New"}, format="json")
        assert not connection.in_atomic_block
        return int(answer.status_code)

    return send


def test_a_request_is_one_transaction(create):
    assert create("atomic", Conflict()) == 409
    assert create("atomic", ValueError("a bug")) == 500
    assert Session.objects.count() == 0

    assert create("atomic") == 201
    assert Session.objects.count() == 1


def test_a_commit_that_fails_is_a_problem_for_later(create, monkeypatch):
    def refuse() -> None:
        raise OperationalError("the server is gone")

    monkeypatch.setattr(connection, "commit", refuse)

    assert create("atomic") == 503
    assert Session.objects.count() == 0


def test_a_view_that_is_exempt_commits_each_write(create):
    assert create("exempt", Conflict()) == 409
    assert Session.objects.count() == 1
