"""A person's page: what it shows to whom, its statements, the export and the erasure."""

from __future__ import annotations

import io
import json
import re
import urllib.parse
import zipfile
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models import Q
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_agent_sessions.governance.erasure import verify
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.models import (
    AuditEvent,
    MessageFeedback,
    Session,
    SessionMessage,
    UsageRollup,
)
from django_agent_sessions.models.access import AccessRule
from django_agent_sessions.store import SessionStore
from django_agent_sessions.usage import today

from .people import NOON, grant, staff

pytestmark = pytest.mark.django_db

VIEW, READ, EXPORT = "view_session", "read_transcript", "export"
ERASE = (VIEW, "delete_session", "redact")


def signed_in(*permissions: str) -> Client:
    client = Client()
    client.force_login(staff("clerk", *permissions))
    return client


def page_of(user: Any, name: str = "person") -> str:
    return reverse(f"admin:agent_sessions_session_{name}", args=[user.pk])


@pytest.fixture
def talk(ada, bob):
    """A session of Ada's with a message that Ada and Bob have rated, and one of Bob's."""
    store = SessionStore(owner=ada)
    session = store.open("trip", title="plantedtitle")
    store.append(store.agents.open(session), {"role": "assistant", "content": "plantedtext"})
    message = SessionMessage.objects.get()
    store.feedback.save(message.pk, -1, comment="plantedcomment")
    store.feedback.save(message.pk, 1, source="reviewer", user=bob)
    SessionStore(owner=bob).open("bobs-own")
    month = today().replace(day=1)
    UsageRollup.objects.create(
        dimension="owner", period=month, key=str(ada.pk), messages=4711, sessions=17
    )
    return Session.objects.get(pk=session.id)


def test_everything_of_one_user_is_shown_and_nothing_of_another(talk, ada):
    client = signed_in(VIEW, READ, "view_usagerollup", "view_auditevent")
    page = client.get(page_of(ada)).content.decode()
    assert "plantedtitle" in page
    assert reverse("admin:agent_sessions_session_change", args=[talk.pk]) in page
    assert f"?owner={ada.pk}&amp;held=yes" in page
    assert f"?actor_id={ada.pk}" in page
    assert "4,711" in page or "4711" in page
    assert "<td>Bad</td>" in page
    assert "<td>Good</td>" not in page
    assert "bobs-own" not in page
    assert "plantedcomment" not in page
    assert not AuditEvent.objects.exists()


def test_a_viewer_sees_no_title_usage_audit_or_buttons_without_their_permissions(talk, ada):
    page = signed_in(VIEW).get(page_of(ada)).content.decode()
    assert "trip" in page
    for hidden in ("plantedtitle", "4711", "4,711", "actor_id", "Export", "Erasure", "/auth/user/"):
        assert hidden not in page


def test_who_may_act_on_all_of_it_has_a_button(talk, ada):
    url = f"{reverse('admin:agent_sessions_session_all')}?owner={ada.pk}"
    client = signed_in(VIEW)
    assert f'href="{url}"' not in client.get(page_of(ada)).content.decode()
    grant(get_user_model().objects.get(username="clerk"), "delete_session")
    assert f'href="{url}"' in client.get(page_of(ada)).content.decode()
    assert "<strong>1 session matches.</strong>" in client.get(url).content.decode()


def test_the_account_of_a_user_and_the_page_lead_to_each_other(talk, ada):
    client = signed_in(VIEW)
    clerk = get_user_model().objects.get(username="clerk")
    account = reverse("admin:auth_user_change", args=[ada.pk])
    clerk.user_permissions.add(Permission.objects.get(codename="view_user"))
    assert f'href="{account}"' in client.get(page_of(ada)).content.decode()
    assert f'href="{page_of(ada)}"' in client.get(account).content.decode()
    clerk.user_permissions.set(Permission.objects.filter(codename="view_user"))
    assert page_of(ada) not in client.get(account).content.decode()


@pytest.mark.parametrize("key", ["x", "9" * 40, "-1", "0", "_00"])
def test_a_key_of_nobody_is_missing(talk, key):
    client = signed_in(VIEW, *ERASE)
    url = page_of(get_user_model()(pk=123456)).replace("123456", key)
    assert client.get(url).status_code == 404


def test_a_user_without_sessions_and_a_deleted_one_with_feedback_have_a_page(talk, bob):
    client = signed_in(VIEW)
    Session.objects.filter(owner=bob).delete()
    assert client.get(page_of(bob)).status_code == 200
    key = bob.pk
    bob.delete()
    url = reverse("admin:agent_sessions_session_person", args=[key])
    assert f"deleted user {key}" in client.get(url).content.decode()
    MessageFeedback.objects.filter(user=str(key)).delete()
    assert client.get(url).status_code == 404


def test_names_of_users_and_sessions_are_escaped(talk, ada):
    evil = "<script>alert(1)</script>"
    get_user_model().objects.filter(pk=ada.pk).update(username=evil)
    SessionStore(owner=ada).sessions.update(talk.pk, title=evil)
    Session.objects.filter(pk=talk.pk).update(session_id=evil)
    client = signed_in(VIEW, READ, EXPORT, *ERASE)
    for name in ("person", "person_erase"):
        page = client.get(page_of(ada, name)).content.decode()
        assert evil not in page
        assert "&lt;script&gt;" in page


class Trips(AccessRule):
    """Permissions are valid in one session."""

    def sessions(self, user: Any, action: Any) -> Any:
        return None if super().sessions(user, action) is None else Q(session_id="trip")


def test_a_rule_limits_the_page_and_refuses_what_reaches_further(talk, ada, bob, settings):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.Trips"}
    SessionStore(owner=ada).open("secret-id")
    client = signed_in(VIEW, READ, EXPORT, "view_usagerollup", *ERASE)
    page = client.get(page_of(ada)).content.decode()
    assert "plantedtitle" in page
    assert "secret-id" not in page
    assert "4,711" not in page
    assert client.post(page_of(ada), {"reason": "asked"}).status_code == 404
    assert client.get(page_of(ada, "person_erase")).status_code == 404
    # Bob has no session that is reached, though he rated a message in one.
    assert client.get(page_of(bob)).status_code == 404
    assert not AuditEvent.objects.exists()


def test_ratings_come_in_pages(ada):
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.open("long"))
    store.append_many(agent, [{"role": "assistant", "content": str(n)} for n in range(45)])
    for row in SessionMessage.objects.order_by("pk"):
        store.feedback.save(row.pk, 1)
    client, url, seen = signed_in(VIEW), page_of(ada), []
    for count in (20, 20, 5):
        page = client.get(url).content.decode()
        found = re.findall(r"\?at=([0-9a-f-]+)", page)
        assert len(found) == count
        seen += found
        more = re.search(r'href="(\?before=[^#"]+)', page)
        url = page_of(ada) + (more[1] if more else "")
    rows = SessionMessage.objects.order_by("-pk")
    assert seen == [str(key) for key in rows.values_list("pk", flat=True)]
    assert client.get(page_of(ada) + "?before=x").status_code == 404


def test_the_number_of_sessions_changes_neither_statements_nor_the_size_of_the_page(ada):
    client = signed_in(VIEW, READ, EXPORT, "view_usagerollup", "view_auditevent", *ERASE[1:])

    def looked() -> tuple[int, int]:
        with CaptureQueriesContext(connection) as queries:
            page = client.get(page_of(ada)).content.decode()
        return len(queries), page.count("<tr>")

    def add(first: int, count: int) -> None:
        Session.objects.bulk_create(
            Session(session_id=f"s-{n}", owner=ada, last_activity_at=NOON + timedelta(minutes=n))
            for n in range(first, first + count)
        )

    add(0, 25)
    before = looked()
    add(25, 300)
    assert looked() == before
    assert before[0] <= 12


def test_more_sessions_than_are_counted_are_said_to_be_more(ada, monkeypatch):
    monkeypatch.setattr("django_agent_sessions.admin.person.COUNTED", 2)
    for number in range(3):
        SessionStore(owner=ada).open(f"s-{number}")
    page = signed_in(VIEW).get(page_of(ada)).content.decode()
    assert "Figures of the 2 most recent sessions" in page


# --- export ---------------------------------------------------------------------------------------


def test_everything_is_exported_with_a_reason_and_recorded_once(talk, ada):
    client = signed_in(VIEW, READ, EXPORT)
    refused = client.post(page_of(ada), {"reason": " "})
    assert "This field is required" in refused.content.decode()
    assert not AuditEvent.objects.exists()
    answer: Any = client.post(page_of(ada), {"reason": "Request 32"})
    assert answer["Content-Disposition"] == f'attachment; filename="person-{ada.pk}.zip"'
    archive = zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))
    assert f"sessions/{talk.pk}/transcript.md" in archive.namelist()
    event = AuditEvent.objects.get()
    assert (event.action, event.reason) == ("exported", "Request 32")


# --- erasure --------------------------------------------------------------------------------------


def seen_on(page: str) -> str:
    found = re.search(r'name="seen" value="([^"]*)"', page)
    assert found is not None
    return found[1]


@pytest.mark.django_db(transaction=True)
def test_a_person_is_erased_after_what_would_be_erased_was_shown(talk, ada):
    url = page_of(ada, "person_erase")
    client = signed_in(*ERASE)
    page = client.get(url).content.decode()
    assert "Nothing has been erased yet" in page
    data = {"seen": seen_on(page), "forks": "redact", "reason": "Request 31"}

    for wrong in ({"reason": " "}, {"seen": "0"}, {"forks": "keep"}):
        assert "Nothing has been erased yet" in client.post(url, data | wrong).content.decode()
        assert Session.objects.filter(owner=ada).exists()

    page = client.post(url, data).content.decode()
    assert not Session.objects.filter(owner=ada).exists()
    assert AuditEvent.objects.get(action="erased").reason == "Request 31"
    link = re.search(r'href="data:application/json;charset=utf-8,([^"]+)" download', page)
    assert link is not None
    receipt = urllib.parse.unquote(link[1])
    assert json.loads(receipt)["receipt"]["counts"]["sessions"] == 1
    assert verify(receipt) == []


@pytest.mark.django_db(transaction=True)
def test_what_was_written_since_the_page_was_shown_is_shown_first(talk, ada):
    url, client = page_of(ada, "person_erase"), signed_in(*ERASE)
    seen = seen_on(client.get(url).content.decode())
    SessionStore(owner=ada).open("later")
    page = client.post(url, {"seen": seen, "forks": "redact", "reason": "asked"})
    assert "The data changed" in page.content.decode()
    assert Session.objects.filter(owner=ada).count() == 2


def test_a_legal_hold_blocks_an_erasure_and_names_the_sessions(talk, ada):
    hold(talk.pk, reason="case 7")
    page = signed_in(*ERASE).get(page_of(ada, "person_erase")).content.decode()
    assert "1 session is under legal hold" in page
    assert str(talk.pk) in page
    assert "Erase permanently" not in page


def test_too_many_sessions_are_left_to_the_command(talk, ada, monkeypatch):
    monkeypatch.setattr("django_agent_sessions.admin.person.MOST_ERASED", 0)
    client, url = signed_in(*ERASE), page_of(ada, "person_erase")
    assert f"agent_sessions_erase --owner {ada.pk}" in client.get(url).content.decode()
    client.post(url, {"seen": "", "forks": "redact", "reason": "asked"})
    assert Session.objects.filter(owner=ada).exists()


@pytest.mark.django_db(transaction=True)
def test_an_erasure_works_with_transactions_around_requests(talk, ada, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    url, client = page_of(ada, "person_erase"), signed_in(*ERASE)
    seen = seen_on(client.get(url).content.decode())
    page = client.post(url, {"seen": seen, "forks": "delete", "reason": "asked"})
    assert "Download the receipt" in page.content.decode()
    assert not Session.objects.filter(owner=ada).exists()
