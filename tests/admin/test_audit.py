from __future__ import annotations

import csv
import re
import uuid
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.admin import audit as audit_admin
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.access import AccessRule
from django_agent_sessions.store import SessionStore

from .people import staff

pytestmark = pytest.mark.django_db

LIST = "/admin/agent_sessions/auditevent/"
Action = AuditEvent.Action


def page_of(event) -> str:
    return reverse("admin:agent_sessions_auditevent_change", args=[event.pk])


def key_at(moment) -> uuid.UUID:
    return uuid.UUID(int=(int(moment.timestamp() * 1000) << 80) | (7 << 76) | (2 << 62))


@pytest.fixture
def auditor(client):
    """Somebody who may see the audit trail and nothing else."""
    user = get_user_model().objects.create_user("auditor", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_auditevent"))
    client.force_login(user)
    return client


def shown(client, **parameters) -> list[AuditEvent]:
    response = client.get(LIST, parameters)
    assert response.status_code == 200
    return list(response.context["cl"].result_list)


def test_an_event_says_who_did_what_to_which_session_and_why(auditor, store, ada):
    session = store.open("talk")
    event = audit.record(
        Action.EXPORTED, session=session.id, actor=ada, reason="ticket 7", details={"messages": 3}
    )

    for url in (LIST, page_of(event)):
        page = auditor.get(url).content.decode()
        assert "ada" in page
        assert "ticket 7" in page
        assert "exported" in page
        assert "3 messages" in page
        assert reverse("admin:agent_sessions_session_change", args=[session.id]) in page


def test_a_session_that_is_gone_has_no_link(auditor, store):
    session = store.open("talk")
    store.delete("talk")
    event = AuditEvent.objects.get(action=Action.DELETED)

    for url in (LIST, page_of(event)):
        page = auditor.get(url).content.decode()
        assert str(session.id) in page
        assert reverse("admin:agent_sessions_session_change", args=[session.id]) not in page


def test_what_people_typed_is_escaped(auditor):
    hostile = "<script>alert('x')</script>"
    event = audit.record(
        Action.READ, session=uuid.uuid4(), actor=hostile, reason=hostile, details={hostile: hostile}
    )

    for url in (LIST, page_of(event), f"{LIST}?q={hostile}", f"{LIST}?actor_id={hostile}"):
        assert "<script>alert(" not in auditor.get(url).content.decode()


def test_events_are_found_by_session_actor_action_and_time(auditor, ada, bob):
    one, two = uuid.uuid4(), uuid.uuid4()
    read = audit.record(Action.READ, session=one, actor=ada)
    held = audit.record(Action.HELD, session=two, actor=bob, target=uuid.uuid4())
    then = timezone.now() - timedelta(days=8)
    old = AuditEvent.objects.create(
        id=key_at(then), created_at=then, action=Action.READ, actor="ada", actor_id="gone"
    )

    assert shown(auditor) == [held, read, old]
    assert shown(auditor, session=one) == [read]
    assert shown(auditor, session=two.hex) == [held]
    assert shown(auditor, actor_id=ada.pk) == [read]
    assert shown(auditor, action__exact="held") == [held]
    page = auditor.get(LIST, {"action__exact": "held"}).content.decode()
    assert '<option value="held" selected>Put under legal hold</option>' in page
    assert shown(auditor, action__exact="", when="7d") == [held, read]
    assert shown(auditor, when="7d") == [held, read]
    assert shown(auditor, when="30d") == [held, read, old]
    assert shown(auditor, when_until=(then + timedelta(days=1)).date().isoformat()) == [old]
    assert shown(auditor, q="ada") == [read, old]
    assert shown(auditor, q=str(bob.pk)) == [held]
    assert shown(auditor, q=str(one)) == [read]
    assert shown(auditor, q=held.target) == [held]
    assert shown(auditor, q="nobody") == []


def test_events_are_found_by_the_id_that_a_conversation_has_on_its_page(auditor, store):
    session = store.open("chat-20501")
    read = audit.record(Action.READ, session=session.id, actor=None)
    audit.record(Action.READ, session=store.open("chat-2050").id, actor=None)

    assert shown(auditor, q="chat-20501") == [read]


class Support(AccessRule):
    """Permissions are valid in one namespace."""

    def sessions(self, user, action):
        return None if super().sessions(user, action) is None else Q(namespace="support")


def test_sessions_out_of_reach_do_not_hide_one_with_the_same_id(auditor, settings, monkeypatch):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.Support"}
    monkeypatch.setattr("django_agent_sessions.admin.audit._MOST_NAMED", 1)
    events = [
        audit.record(Action.READ, session=SessionStore(namespace=name).open("main").id, actor=None)
        for name in ("sales", "support", "travel")
    ]

    assert shown(auditor, q="main") == [events[1]]


@pytest.mark.parametrize(
    "query", ["session=x", "after=x", "actor_id=%00", "session=", "title=x", "reason__contains=a"]
)
def test_a_link_that_makes_no_sense_leads_back_to_the_list(auditor, query):
    response = auditor.get(f"{LIST}?{query}", follow=True)

    assert response.status_code == 200


def test_pages_follow_one_another_and_nothing_is_counted(auditor):
    events = [audit.record(Action.READ, actor=f"user {n}") for n in range(230)]
    statements = []
    found, query = [], ""
    while True:
        with CaptureQueriesContext(connection) as captured:
            response = auditor.get(f"{LIST}{query}")
        statements.append(len(captured))
        assert not any("COUNT(" in statement["sql"] for statement in captured)
        changelist = response.context["cl"]
        found += changelist.result_list
        if not changelist.older_url:
            break
        query = changelist.older_url
        assert query in response.content.decode()

    assert found == events[::-1]
    assert len(statements) == 3
    assert len(set(statements)) == 1


def test_nobody_can_add_change_or_delete_events(admin_client):
    event = audit.record(Action.READ, reason="as it was")
    url = page_of(event)

    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(f"{LIST}add/", {"action": "read"}).status_code == 403
    assert admin_client.post(url, {"reason": "another"}).status_code == 403
    delete = url.replace("change/", "delete/")
    assert admin_client.get(delete).status_code == 403
    assert admin_client.post(delete, {"post": "yes"}).status_code == 403
    selected = {"action": "delete_selected", "_selected_action": [str(event.pk)], "post": "yes"}
    admin_client.post(LIST, selected)

    assert AuditEvent.objects.get().reason == "as it was"
    assert not LogEntry.objects.exists()
    page = admin_client.get(LIST).content.decode()
    assert "delete_selected" not in page
    assert "_selected_action" not in page


def test_whoever_may_not_see_the_audit_trail_sees_none_of_it(client, store):
    event = audit.record(Action.READ)
    user = get_user_model().objects.create_user("reader", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="agent_sessions").exclude(
            codename="view_auditevent"
        )
    )
    client.force_login(user)

    assert client.get(LIST).status_code == 403
    assert client.get(page_of(event)).status_code == 404
    assert client.get(page_of(event).replace("change/", "history/")).status_code == 404
    assert client.get(page_of(event).replace("change/", "delete/")).status_code == 403


def test_the_page_of_an_event_says_one_time_only(auditor):
    event = audit.record(Action.EXPORTED)
    page = auditor.get(page_of(event)).content.decode()

    local = f"{timezone.localtime(event.created_at):%Y-%m-%d %H:%M}"
    assert set(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d", page)) == {local}


def test_reading_the_audit_trail_takes_as_many_statements_for_many_rows_as_for_few(auditor, store):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            auditor.get(LIST)
        return len(captured)

    for number in range(2):
        audit.record(Action.READ, session=store.open(f"s-{number}").id)
    few = statements()
    for number in range(2, 30):
        audit.record(Action.READ, session=store.open(f"s-{number}").id)

    assert statements() == few
    assert Session.objects.count() == 30


def test_a_session_is_shown_by_its_title_to_who_may_read_it_and_by_its_id_to_others(client, store):
    session = store.open("talk-7", title="Broken teapot")
    audit.record(Action.READ, session=session.id)

    client.force_login(staff("auditor", "view_auditevent"))
    page = client.get(LIST).content.decode()
    assert "talk-7" in page
    assert "Broken teapot" not in page
    client.force_login(staff("reader", "view_auditevent", "view_session", "read_transcript"))
    assert "Broken teapot" in client.get(LIST).content.decode()


def test_a_period_of_events_includes_both_its_days(auditor):
    events = [
        AuditEvent.objects.create(action=Action.READ, id=key_at(moment), created_at=moment)
        for moment in (datetime(2026, 3, day, 23, 59, tzinfo=UTC) for day in (1, 2, 3))
    ]

    assert shown(auditor, when_from="2026-03-02", when_until="2026-03-02") == [events[1]]
    assert shown(auditor, when_until="2026-03-02") == [events[1], events[0]]


def test_events_are_downloaded_as_the_filters_select_them_and_no_cell_is_a_formula(auditor, ada):
    audit.record(Action.EXPORTED, actor=ada, reason="=1+1")
    audit.record(Action.HELD, actor=ada, reason="not this")

    response = auditor.get(f"{LIST}csv/", {"action__exact": "exported"})

    rows = list(csv.DictReader(StringIO(response.getvalue().decode())))
    # The download itself is the newest one.
    assert [(row["actor"], row["action"]) for row in rows] == [
        ("auditor", "exported"),
        ("ada", "exported"),
    ]
    assert rows[1]["reason"] == "'=1+1"
    assert "no-store" in response["Cache-Control"]


def test_a_file_that_has_only_the_newest_events_is_named_so(auditor, ada, monkeypatch):
    monkeypatch.setattr(audit_admin, "MAX_EVENTS", 2)
    monkeypatch.setattr(audit_admin, "_BATCH", 1)
    # The download itself is an event.
    for number, name in ((2, "audit-events.csv"), (4, "audit-events-newest-2.csv")):
        audit.record(Action.HELD, actor=ada)
        response = auditor.get(f"{LIST}csv/")
        rows = list(csv.DictReader(StringIO(response.getvalue().decode())))
        assert response["Content-Disposition"] == f'attachment; filename="{name}"'
        assert (AuditEvent.objects.count(), len(rows)) == (number, 2)


def test_only_who_may_see_the_audit_trail_downloads_it(client):
    client.force_login(staff("clerk", "view_session"))

    assert client.get(f"{LIST}csv/").status_code == 404
