"""The preview of a redaction of all sessions that match."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

import pytest
from django.db.models import Q
from django.urls import reverse

from django_agent_sessions.models import AuditEvent, Operation, Session
from django_agent_sessions.models.access import AccessRule
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from tests.operations.making import SECRET, begin, carry_out, officer, talk

from .people import staff

pytestmark = pytest.mark.django_db

START = reverse("admin:agent_sessions_session_all")
LIMITS = "django_agent_sessions.admin.redaction.bulk_preview"


@pytest.fixture
def user(client):
    found = officer()
    client.force_login(found)
    return found


def preview(client, query: str = "", **fields: Any) -> str:
    asked = {"step": "preview", "kind": "redact", "what": "text", "text": SECRET, **fields}
    response = client.post(f"{START}{query}", asked)
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def figure(page: str, name: str) -> int:
    (found,) = re.findall(rf"<dt>{name}</dt><dd>(\d+)</dd>", page)
    return int(found)


def test_it_shows_the_places_before_and_after_and_starts_nothing(client, user):
    sessions = talk(2, namespace="support")
    store = SessionStore(namespace="support")
    store.append(store.agents.open(store.open("other")), {"role": "user", "content": "Hello"})
    talk(1, namespace="sales")

    page = preview(client, "?namespace=support", reason="Case 7", confirm="redact")

    assert figure(page, "Searched sessions") == 3
    assert figure(page, "With a match") == figure(page, "Places") == 2
    assert page.count(f"my card is <del>{SECRET}</del>") == 2
    assert page.count('my card is <ins class="as-redact-chip">[REDACTED]</ins>') == 2
    link = reverse("admin:agent_sessions_session_change", args=[sessions[0].pk])
    assert f'<h3><a href="{link}">' in page
    # What was entered is kept, and nothing is called an error.
    assert "Case 7</textarea>" in page
    assert re.search(r'value="redact"[^>]* checked', page)
    assert 'role="alert"' not in page
    assert not Operation.objects.exists()


def test_what_was_searched_is_recorded_as_read(client, user):
    (session,) = talk(1)
    (other,) = talk(1, namespace="other", text="nothing of that kind")

    preview(client)

    events = AuditEvent.objects.values_list("action", "actor", "session", "details__hits")
    assert set(events) == {
        ("read", "officer", session.pk, 1),
        ("read", "officer", other.pk, 0),
    }


class OnlyInB(AccessRule):
    def sessions(self, user: Any, action: Any) -> Any:
        is_limited = action in (SessionPermission.READ, SessionPermission.REDACT)
        return Q(namespace="b") if is_limited else EVERYBODY


def test_it_searches_what_the_operation_would_redact(client, user, settings):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.OnlyInB", "OPERATIONS_IN_PROCESS": False}
    talk(3, namespace="b")
    talk(3, namespace="a")

    with patch(f"{LIMITS}.MAX_SEARCHED", 3):
        page = preview(client)

    assert figure(page, "With a match") == figure(page, "Searched sessions") == 3
    assert carry_out(begin("redact", user)).done == 3


def test_what_is_skipped_is_not_shown(client, user):
    held, missing = talk(2)
    Session.objects.filter(pk=held.pk).update(legal_hold=True)
    page = preview(client)
    assert figure(page, "Searched sessions") == 1

    with patch(f"{LIMITS}.get_viewer_or_404") as viewer:
        viewer.return_value.can_redact = False
        page = preview(client)
    assert figure(page, "Searched sessions") == 0
    assert "<del>" not in page
    Session.objects.filter(pk=missing.pk).delete()
    assert figure(preview(client), "Searched sessions") == 0


def test_only_the_most_recent_sessions_and_some_places_of_each_are_searched(client, user):
    talk(4, text=f"{SECRET}, {SECRET}, {SECRET}")

    with patch(f"{LIMITS}.MAX_SEARCHED", 3), patch(f"{LIMITS}.MAX_PLACES", 2):
        page = preview(client)

    assert figure(page, "Searched sessions") == 3
    assert figure(page, "Places") == 9
    assert page.count("<del>") == 6
    assert page.count("The first 2 of 3 places are shown") == 3


def test_the_work_of_the_request_is_limited(client, user, settings):
    talk(2)
    settings.AGENT_SESSIONS = {"REDACTION_SECONDS": 0.000001}

    page = preview(client)

    assert "ended early" in page
    assert figure(page, "Searched sessions") == 0


def test_a_missing_text_is_an_error(client, user):
    talk(1)
    page = preview(client, text="")
    assert "Enter the text to search for" in page
    assert 'id="as-preview"' not in page


def test_without_the_permission_there_is_none(client):
    talk(1)
    client.force_login(staff("reader", "view_session", "change_session", "read_transcript"))
    page = preview(client)
    assert 'id="as-preview"' not in page
    assert "as-redact-hit" not in page
    assert not AuditEvent.objects.exists()


def test_another_kind_has_none_and_starts_as_always(client, user):
    talk(1)
    asked = {"step": "preview", "kind": "hold", "reason": "Case 7"}
    assert client.post(START, asked).status_code == 302
    assert Operation.objects.get().kind == "hold"
