"""Access rules: what they may answer, and what becomes of those that fail."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.db.models import Q

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session
from django_agent_sessions.models.access import AccessRule, reach_of
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.models.roles import owned_by_viewer, owns
from django_agent_sessions.values.owners import EVERYBODY

pytestmark = pytest.mark.django_db

VIEW, READ = SessionPermission.VIEW, SessionPermission.READ


class Answering(AccessRule):
    """Answers what a test wants; an error is raised."""

    answers: ClassVar[dict[Any, Any]] = {}

    def sessions(self, user: Any, action: SessionPermission) -> Any:
        answer = self.answers[action]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def answer(settings, monkeypatch):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.Answering"}
    monkeypatch.setattr(Answering, "answers", {})
    return lambda view, read=EVERYBODY: Answering.answers.update({VIEW: view, READ: read})


@pytest.fixture
def rows(ada, bob):
    """Ada's, Bob's and nobody's session."""
    return [
        Session.objects.create(session_id=f"s-{number}", namespace="x" * number, owner=owner)
        for number, owner in enumerate((ada, bob, None))
    ]


def reached(user: Any, *actions: SessionPermission) -> list[str]:
    found = reach_of(user, *actions)
    rows = found.filter(Session.objects.order_by("session_id"))
    keys = [row.session_id for row in rows]
    # Each way to ask says the same.
    assert {row.session_id for row in Session.objects.all() if found.includes(row)} == set(keys)
    assert len(found.among(Session.objects.all())) == len(keys)
    assert found.is_everything <= bool(found)
    return keys


def test_by_default_a_permission_reaches_all_sessions(rows, ada, root, admin_user):
    assert reached(ada, VIEW) == []
    assert not reach_of(ada, VIEW)
    assert reached(admin_user, VIEW, READ) == ["s-0", "s-1", "s-2"]
    assert reach_of(admin_user, VIEW).is_everything
    assert not reach_of(AnonymousUser(), VIEW)


def test_a_rule_answers_with_a_condition_or_a_queryset_and_all_actions_count(rows, ada, answer):
    answer(Q(namespace="x"))
    assert reached(ada, VIEW) == reached(ada, VIEW, READ) == ["s-1"]
    answer(Session.objects.filter(owner=ada).order_by("-id"), ~Q(namespace="x"))
    assert reached(ada, VIEW, READ) == ["s-0"]
    answer(Session.objects.none())
    assert reached(ada, VIEW) == []
    answer(Q(namespace="x"), None)
    assert not reach_of(ada, VIEW, READ)


def test_a_condition_with_a_join_repeats_no_session(rows, ada, answer):
    for name in ("one", "two"):
        ada.groups.add(Group.objects.create(name=name))
    answer(Q(owner__groups__isnull=False))
    assert reached(ada, VIEW, READ) == ["s-0"]
    assert Session.objects.filter(Q(owner__groups__isnull=False)).count() == 2


@pytest.mark.parametrize(
    "wrong",
    [
        RuntimeError("broken"),
        KeyError("team"),
        PermissionDenied(),
        Q(no_such_column=1),
        Q(owner="no key of a user"),
        Session.objects.all()[:5],
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_an_error_denies_and_is_logged(rows, ada, answer, caplog, wrong):
    answer(wrong)
    assert not reach_of(ada, VIEW)
    assert not reach_of(ada, READ, VIEW)
    assert reached(ada, VIEW) == []
    assert "Answering failed and denies view_session" in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [True, False, Q(), [], Session(), Group.objects.all(), "all"],
    ids=lambda wrong: type(wrong).__name__,
)
def test_another_answer_is_a_wrong_configuration(rows, ada, answer, wrong):
    answer(wrong)
    with pytest.raises(ConfigurationError, match=r"Answering\.sessions returned"):
        reach_of(ada, VIEW)


def test_an_error_of_the_database_is_raised(ada, answer):
    answer(OperationalError("gone"))
    with pytest.raises(OperationalError):
        reach_of(ada, VIEW)


@pytest.mark.parametrize("path", ["no.such.Rule", "", f"{__name__}.rows", ["a", "list"]])
def test_a_path_that_is_no_rule_opens_nothing(settings, admin_user, path):
    settings.AGENT_SESSIONS = {"ACCESS": path}
    with pytest.raises((ConfigurationError, TypeError)):
        reach_of(admin_user, VIEW)


def test_owners_are_known_by_their_keys(rows, ada, bob):
    mine, theirs, nobodys = rows
    assert [row.pk for row in Session.objects.filter(owned_by_viewer(ada))] == [mine.pk]
    assert not Session.objects.filter(owned_by_viewer(AnonymousUser())).exists()
    assert owns(ada, mine)
    assert not owns(ada, theirs)
    assert not owns(ada, nobodys)
    assert not owns(AnonymousUser(), nobodys)
