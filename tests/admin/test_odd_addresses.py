"""Addresses that make no sense, some of which databases and calendars refuse."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import override_settings
from django.urls import path, reverse

from django_agent_sessions import audit
from django_agent_sessions.admin.audit import AuditEventAdmin
from django_agent_sessions.models import AuditEvent

from .people import many, staff

pytestmark = pytest.mark.django_db

SESSIONS = "/admin/agent_sessions/session/"
EVENTS = "/admin/agent_sessions/auditevent/"
KEY = "0" * 32

site = admin.AdminSite(name="auditors")
site.register(AuditEvent, AuditEventAdmin)
urlpatterns = [path("auditors/", site.urls)]


@pytest.mark.parametrize(
    "query",
    [
        *(f"{name}=%00" for name in ("framework", "namespace", "owner", "owned", "activity")),
        *(f"{name}=%00" for name in ("held", "redacted", "expired", "archived", "after")),
        "held=yes&framework=a%00",
        f"after=0001-01-01T00:00:00%2B14:00~{KEY}",
        f"before=9999-12-31T23:59:59-14:00~{KEY}",
        f"after=0001-01-01T00:00:00%2B00:00~{KEY}",
        f"before=9999-12-31T23:59:59%2B00:00~{KEY}",
        f"after=2026-01-01T00:00:00~{KEY}",
        "after=x~y~z",
        "owner=99999999999999999999999",
    ],
)
def test_the_list_leads_back_from_an_address_that_makes_no_sense(root, query):
    many(1)

    answer = root.get(f"{SESSIONS}?{query}")
    assert answer.status_code in {200, 302}
    assert root.get(f"{SESSIONS}?{query}", follow=True).status_code == 200
    assert root.get(f"{SESSIONS}?{query}&e=1").status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        *(f"{name}=%00" for name in ("action__exact", "session", "actor_id", "when", "after")),
        *(f"{name}=%00" for name in ("reason__icontains", "action", "details", "q")),
        "created_at__year=99999999",
        "created_at__gt=0001-01-01T00:00:00%2B14:00",
        "action__isnull=x",
        "reason__contains=a",
    ],
)
def test_the_audit_trail_leads_back_from_an_address_that_makes_no_sense(root, query):
    audit.record(AuditEvent.Action.READ)

    answer = root.get(f"{EVENTS}?{query}")
    assert answer.status_code in {200, 302}
    assert root.get(f"{EVENTS}?{query}", follow=True).status_code == 200
    assert root.get(f"{EVENTS}?{query}&e=1").status_code == 200


@override_settings(ROOT_URLCONF="tests.admin.test_odd_addresses")
def test_an_admin_without_sessions_shows_which_session_it_was_without_a_link(client, store):
    client.force_login(staff("auditor", "view_auditevent"))
    session = store.open("talk")
    event = audit.record(AuditEvent.Action.READ, session=session.id)
    one = reverse("auditors:agent_sessions_auditevent_change", args=[event.pk])

    for url in (reverse("auditors:agent_sessions_auditevent_changelist"), one):
        answer = client.get(url)
        assert answer.status_code == 200
        page = answer.content.decode()
        assert str(session.id) in page
        assert "/session/" not in page
        assert "gone" not in page
        assert f"?session={session.id}" in page
