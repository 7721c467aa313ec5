"""Only who may redact finds the page, and what is of its session; a preview leaves a trace."""

from __future__ import annotations

import json
import re
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from tests.admin.people import staff
from tests.admin.transcripts import said

from .pages import ENOUGH, SECRET, TEXT, fields, message, preview, shown, stored, url_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("missing", ENOUGH)
@pytest.mark.parametrize("step", ["", "preview", "confirm"])
def test_whoever_lacks_a_permission_finds_no_page(browser, client, talk, missing, step):
    page = fields(preview(browser, talk, **TEXT))
    before, events = stored(), AuditEvent.objects.count()
    client.force_login(staff("other", *(set(ENOUGH) - {missing})))

    if step:
        answer = client.post(url_of(talk), {**page, "step": step, "reason": "because"})
    else:
        answer = client.get(url_of(talk))

    assert answer.status_code == 404
    assert (stored(), AuditEvent.objects.count()) == (before, events)


def test_whoever_is_no_staff_is_sent_to_the_login(client, talk, ada):
    client.force_login(ada)
    answer = client.post(url_of(talk), {"step": "preview", **TEXT})
    assert answer.status_code == 302
    assert "/login/" in answer["Location"]
    assert SECRET not in answer["Location"]


def test_a_forged_request_is_refused(clerk, talk):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(clerk)
    before = stored()

    for step in ("preview", "confirm"):
        data = {"step": step, **TEXT, "reason": "because"}
        assert browser.post(url_of(talk), data).status_code == 403
    assert stored() == before

    form = browser.get(url_of(talk)).content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert token is not None
    data = {"step": "preview", **TEXT, "csrfmiddlewaretoken": token[1]}
    assert browser.post(url_of(talk), data).status_code == 200


def test_a_get_changes_nothing_and_looks_for_nothing(browser, talk):
    page = fields(preview(browser, talk, **TEXT))
    before, events = stored(), AuditEvent.objects.count()

    answer = browser.get(url_of(talk), {**page, "step": "confirm", "reason": "because"})

    assert answer.status_code == 200
    assert "as-redact-hit" not in answer.content.decode()
    assert (stored(), AuditEvent.objects.count()) == (before, events)
    assert browser.put(url_of(talk), json.dumps(page)).status_code == 405
    assert stored() == before


@pytest.mark.parametrize("what", ["part", "message", "text", "detect"])
@pytest.mark.parametrize("step", ["preview", "confirm"])
def test_another_sessions_message_cannot_be_reached(browser, store, talk, what, step):
    other = store.open("other")
    agent = store.agents.open(other, dialect="strands")
    store.append(agent, said("user", f"{SECRET} and ada@example.org"))
    foreign = SessionMessage.objects.get(session=other.id)
    before = stored()

    data = {
        **TEXT, "what": what, "step": step, "detectors": "email", "reason": "because",
        "message": foreign.pk, "path": '["content",0]', "where": "message",
    }  # fmt: skip
    assert browser.post(url_of(talk), data).status_code == 404
    assert browser.get(url_of(talk), {"message": foreign.pk}).status_code == 404
    assert stored() == before


@pytest.mark.parametrize(
    "pointed",
    [
        {"message": "nose"},
        {"message": str(uuid4())},
        {"path": "nose"},
        {"path": "{}"},
        {"path": "[1.5]"},
        {"path": "[true]"},
        {"path": "[" * 900},
        {"path": json.dumps(["x"] * 51)},
    ],
)
def test_what_is_no_address_is_not_found(browser, talk, pointed):
    given = {"message": str(message(0).pk), **pointed}
    assert browser.get(url_of(talk), given).status_code == 404
    assert browser.post(url_of(talk), {**given, **TEXT}).status_code == 404


@pytest.mark.parametrize("path", [["content", 9], ["nose"], [0], ["content", 0, "text", 0, "x"]])
def test_a_path_that_leads_nowhere_is_said(browser, talk, path):
    before = stored()
    data = {"what": "part", "message": message(0).pk, "path": json.dumps(path)}
    page = preview(browser, talk, **data)
    assert "has no content at this path" in shown(page)
    assert stored() == before


def test_there_is_no_page_for_a_session_that_is_not_there(browser):
    answer = browser.get(reverse("admin:agent_sessions_session_redact", args=[uuid4()]))
    assert answer.status_code == 404


def test_a_preview_is_recorded_as_reading_unless_it_is_ones_own(browser, clerk, talk):
    preview(browser, talk, **TEXT)
    (event,) = AuditEvent.objects.all()
    assert (event.action, event.session) == (AuditEvent.Action.READ, talk.id)
    assert event.details == {"page": "redact", "hits": 9}

    Session.objects.update(owner=clerk)
    preview(browser, talk, **TEXT)
    assert AuditEvent.objects.count() == 1
