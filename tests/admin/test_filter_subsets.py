"""An operation never matches more sessions than its filters did, whatever its user loses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.contrib.admin import SimpleListFilter, site
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions.admin.filters import FILTERS
from django_agent_sessions.admin.sessions import SessionAdmin
from django_agent_sessions.models import (
    Label,
    MessageFeedback,
    Operation,
    Review,
    RunLease,
    Session,
    SessionAgent,
    SessionMessage,
)
from django_agent_sessions.models.access import AccessRule
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.queries.matching import sessions_of
from django_agent_sessions.values.prices import UNITS
from tests.operations.making import EVERYTHING, begin, carry_out, officer, talk

pytestmark = pytest.mark.django_db

START = "admin:agent_sessions_session_all"
PERMISSIONS = [SessionPermission(name) for name in (*EVERYTHING, "review_session")]


class FailingRule(AccessRule):
    fails_for: ClassVar[SessionPermission | None] = None

    def sessions(self, user: Any, action: SessionPermission) -> Any:
        if action == self.fails_for:
            raise TimeoutError("the directory does not answer")
        return super().sessions(user, action)


@pytest.fixture(autouse=True)
def _settings(settings, monkeypatch):
    settings.AGENT_SESSIONS = {
        "OPERATIONS_IN_PROCESS": False,
        "PRICES": {"m": {"input": "1", "output": "2"}},
        "METADATA_FILTERS": ("team",),
        "ACCESS": f"{__name__}.FailingRule",
    }
    monkeypatch.setattr(FailingRule, "fails_for", None)


@pytest.fixture
def user(client):
    found = officer("officer", *PERMISSIONS)
    client.force_login(found)
    return found


@pytest.fixture
def one(user, ada) -> Session:
    """The only session of three that any of the filters matches."""
    talk(2, namespace="other")
    (session,) = talk(1, namespace="support")
    agents = SessionAgent.objects.filter(session=session)
    agents.update(agent_id="researcher", dialect="strands")
    now = timezone.now()
    Session.objects.exclude(pk=session.pk).update(last_activity_at=now - timedelta(days=60))
    message = SessionMessage.objects.get(session=session)
    MessageFeedback.objects.create(session=session, message=message, user="1", value=-1)
    review = {"state": "open", "assignee_id": str(user.pk), "assignee": "officer"}
    Review.objects.create(session=session, **review)
    Label.objects.create(session=session, name="spam")
    RunLease.objects.create(session=session, expires_at=now + timedelta(hours=1))
    Session.objects.filter(pk=session.pk).update(
        owner=ada,
        legal_hold=True,
        redactions=1,
        has_errors=True,
        expires_at=now - timedelta(days=1),
        archived_at=now,
        cost=6 * UNITS,
        metadata={"team": "blue"},
    )
    return session


def values(ada: Any) -> dict[str, str]:
    """Return a value of each parameter of the list's filters that one session matches."""
    today = timezone.localdate().isoformat()
    return {
        "activity": "7d",
        "activity_from": today,
        "activity_until": (timezone.localdate() - timedelta(days=30)).isoformat(),
        "agent": "researcher",
        "framework": "strands",
        "namespace": "support",
        "owner": str(ada.pk),
        "owned": "yes",
        "feedback": "bad",
        "review": "open",
        "assignee": "officer",
        "label": "spam",
        "running": "yes",
        "errors": "yes",
        "held": "yes",
        "redacted": "yes",
        "expired": "yes",
        "archived": "yes",
        "cost": "",
        "cost_from": "5",
        "cost_until": "9",
        "by_agent": "",
        "by_metadata": "",
        "metadata_team": "blue",
    }


def parameters() -> list[str]:
    """Return the parameters of all filters of the list, as they are with our settings."""
    names = [name for one in FILTERS for name in getattr(one, "inputs", dict)()]
    own = [one.parameter_name for one in FILTERS]
    return sorted({*own, *names, "cost_from", "cost_until", "metadata_team"})


def matched(operation: Operation) -> set[Any]:
    """Return what the operation would reach; nothing if it stops."""
    try:
        found = sessions_of(operation)
    except Exception:
        return set()
    return set() if found is None else set(found.values_list("pk", flat=True))


@pytest.mark.parametrize("name", parameters())
def test_what_an_operation_matches_is_a_subset(name, user, one, ada, settings, monkeypatch):
    given = values(ada)
    assert name in given, "give a new filter a value that only one of the sessions has"
    if not given[name]:
        return
    operation = begin("delete", user, **{name: given[name]})
    confirmed = matched(operation)
    # Of "until", it is the others that match.
    assert confirmed
    assert confirmed < set(Session.objects.values_list("pk", flat=True))

    for permission in PERMISSIONS:
        with monkeypatch.context() as changed:
            changed.setattr(FailingRule, "fails_for", permission)
            assert matched(operation) <= confirmed, f"the rule fails for {permission}"
        row = Permission.objects.get(
            codename=permission, content_type__app_label=Session._meta.app_label
        )
        user.user_permissions.remove(row)
        assert matched(operation) <= confirmed, f"without {permission}"
        user.user_permissions.add(row)
    without: list[dict[str, Any]] = [{"PRICES": {}}, {"METADATA_FILTERS": ()}]
    for emptied in without:
        before = settings.AGENT_SESSIONS
        settings.AGENT_SESSIONS = {**before, **emptied}
        assert matched(operation) <= confirmed, f"without {[*emptied]}"
        settings.AGENT_SESSIONS = before
    for removed in FILTERS:
        with monkeypatch.context() as changed:
            rest = [each for each in FILTERS if each is not removed]
            changed.setattr(SessionAdmin, "list_filter", rest)
            assert matched(operation) <= confirmed, f"without {removed.__name__}"
    assert matched(operation) == confirmed


@pytest.mark.parametrize("name", ["review", "assignee", "label", "metadata_team"])
def test_an_operation_whose_filter_its_user_lost_stops_and_says_so(client, user, one, ada, name):
    operation = begin("hold", user, **{name: values(ada)[name]})
    codes = ["review_session", "read_transcript"]
    user.user_permissions.remove(*Permission.objects.filter(codename__in=codes))

    with pytest.raises(Exception, match=name):
        carry_out(operation)

    operation.refresh_from_db()
    assert (operation.status, operation.done) == ("stopped", 0)
    page = client.get(reverse("admin:agent_sessions_operation_change", args=[operation.pk]))
    assert "one of its filters no longer applies" in page.content.decode()


@pytest.mark.parametrize("permission", ["review_session", "view_session", "change_session"])
def test_an_operation_stops_if_the_access_rule_fails(user, one, monkeypatch, permission):
    operation = begin("hold", user, label="spam")
    with monkeypatch.context() as changed:
        changed.setattr(FailingRule, "fails_for", SessionPermission(permission))
        try:
            carry_out(operation)
        except Exception:
            operation.refresh_from_db()
    assert Operation.objects.get().status == "stopped"

    carry_out(operation)
    assert Operation.objects.get().status == "done"


@pytest.mark.parametrize("query", ["held=maybe", "label=spam", "by_agent=x", "review=other"])
def test_an_operation_is_not_started_with_a_filter_that_has_no_effect(client, one, query):
    client.force_login(officer("holder", "view_session", "change_session"))

    response = client.post(f"{reverse(START)}?{query}", {"kind": "hold", "reason": "Case 7"})

    assert response["Location"] == reverse("admin:agent_sessions_session_changelist")
    assert not Operation.objects.exists()


def test_the_list_of_a_user_who_may_not_review_has_no_session_with_a_label(client, one):
    client.force_login(officer("viewer", "view_session"))
    page = client.get(reverse("admin:agent_sessions_session_changelist"), {"label": "spam"})
    assert str(one.pk) not in page.content.decode()


class TeamFilter(SimpleListFilter):
    title, parameter_name = "team", "team"

    def lookups(self, request: Any, model_admin: Any) -> Any:
        return [("support", "Support")]

    def queryset(self, request: Any, queryset: Any) -> Any:
        return queryset.filter(namespace=self.value()) if self.value() else queryset


def test_a_filter_of_the_project_is_stored_and_applied(client, one, monkeypatch):
    admin = site.get_model_admin(Session)
    monkeypatch.setattr(type(admin), "list_filter", (*FILTERS, TeamFilter))
    monkeypatch.setattr(type(admin), "lookup_allowed", lambda self, lookup, value, request: True)

    client.post(f"{reverse(START)}?team=support&cost_from=", {"kind": "hold", "reason": "Case 7"})

    operation = Operation.objects.get()
    assert operation.criteria["filters"] == {"team": ["support"]}
    assert matched(operation) == {one.pk}

    monkeypatch.setattr(type(admin), "list_filter", FILTERS)
    assert matched(operation) == set()
