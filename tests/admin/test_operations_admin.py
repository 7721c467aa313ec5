"""Actions on all sessions that match, and the pages of operations."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions import operations
from django_agent_sessions.models import AuditEvent, MessageFeedback, Operation, Session
from django_agent_sessions.models.access import AccessRule
from django_agent_sessions.operations import runner
from django_agent_sessions.values.owners import EVERYBODY
from tests.operations.making import (
    EVERYTHING,
    SECRET,
    begin,
    carry_out,
    expire,
    officer,
    storing_exports,
    talk,
)

from .people import staff
from .test_list import LIST, page_of

pytestmark = pytest.mark.django_db

START = "admin:agent_sessions_session_all"


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    for name, value in storing_exports(tmp_path).items():
        setattr(settings, name, value)


@pytest.fixture
def user(client):
    found = officer()
    client.force_login(found)
    return found


def url(name: str, operation: Operation) -> str:
    return reverse(f"admin:agent_sessions_operation_{name}", args=[operation.pk])


def ask(client, query: str = "", **fields: Any) -> Any:
    return client.post(f"{reverse(START)}{query}", {"reason": "Case 7", **fields})


def text_of(response) -> str:
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def test_the_list_leads_to_a_page_with_its_filters_in_words(client, user):
    sessions = talk(7, namespace="support")
    talk(2, namespace="sales")
    page = page_of(client, namespace="support", held="no", after="")
    (link,) = re.findall(r'href="(all/[^"]*)"', page)

    text = text_of(client.get(reverse(LIST) + link.replace("&amp;", "&")))

    assert "7 sessions match." in text
    assert "Namespace: <strong>support</strong>" in text
    assert "Legal hold: <strong>No</strong>" in text
    assert all(str(each.pk) in text for each in sessions[2:])
    assert str(sessions[1].pk) not in text


def test_without_a_filter_it_says_all_sessions(client, user):
    talk(1)
    assert "No filter: all sessions that you may see" in text_of(client.get(reverse(START)))


def test_a_nul_in_the_search_leads_to_the_list(client, user):
    response = client.get(reverse(START), {"q": "\0"})
    assert response["Location"] == reverse(LIST)


def test_many_matches_are_not_counted_to_the_end(client, user):
    talk(4)
    with patch("django_agent_sessions.admin.operations.MAX_COUNTED", 3):
        assert "More than 3 sessions match." in text_of(client.get(reverse(START)))


def test_a_hold_starts_with_the_filters_and_the_reason(client, user):
    talk(3, namespace="support")
    talk(1)

    response = ask(client, "?namespace=support&after=x", kind="hold")

    operation = Operation.objects.get()
    assert response["Location"] == url("change", operation)
    filters = {"namespace": ["support"]}
    assert operation.criteria == {
        "site": "admin",
        "time_zone": "America/Chicago",
        "filters": filters,
    }
    assert (operation.reason, operation.started_by) == ("Case 7", str(user.pk))
    assert carry_out(operation).done == 3
    assert Session.objects.filter(legal_hold=True).count() == 3


@pytest.mark.parametrize("kind", ["delete", "redact"])
@pytest.mark.parametrize("typed", ["", "yes"])
def test_what_cannot_be_undone_is_confirmed_by_its_name(client, user, kind, typed):
    talk(1)
    fields = {"kind": kind, "confirm": typed, "what": "text", "text": SECRET}
    text = text_of(ask(client, **fields))
    assert f"Type “{kind}” to confirm." in text
    assert not Operation.objects.exists()

    assert ask(client, **{**fields, "confirm": kind.title()}).status_code == 302
    assert carry_out(Operation.objects.get()).done == 1


def test_a_missing_reason_or_text_starts_nothing(client, user):
    talk(1)
    assert "This field is required" in text_of(ask(client, kind="hold", reason=" "))
    redaction = {"kind": "redact", "confirm": "redact", "what": "text"}
    assert "Enter the text to search for" in text_of(ask(client, **redaction))
    assert ask(client, kind="delete", confirm="delete", reason="").status_code == 302
    assert Operation.objects.get().kind == "delete"


def test_a_search_is_stored_as_what_it_found(client, user):
    sessions = talk(3, text="nothing")
    other = talk(2, namespace="other", text="a refund was promised")

    text = text_of(client.get(f"{reverse(START)}?q=refund"))
    assert "“refund”, 2 sessions found" in text
    ask(client, "?q=refund", kind="hold")

    operation = Operation.objects.get()
    assert operation.found == sorted(str(each.pk) for each in other)
    assert "refund" not in str(operation.__dict__)
    assert carry_out(operation).done == 2
    held = set(Session.objects.filter(legal_hold=True))
    assert held.isdisjoint(sessions)


def test_every_filter_of_the_list_is_understood(client, user, ada):
    (session,) = talk(1, namespace="support")
    Session.objects.update(owner=ada)
    message = session.messages.get()
    MessageFeedback.objects.create(session=session, message=message, user="1", value=-1)
    filters = {
        "activity": "1d",
        "framework": "openai",
        "namespace": "support",
        "owner": str(ada.pk),
        "owned": "yes",
        "feedback": "bad",
        "held": "no",
        "redacted": "no",
        "expired": "no",
        "archived": "no",
    }
    query = "?" + "&".join(f"{name}={value}" for name, value in filters.items())
    assert "ada" in text_of(client.get(reverse(START) + query))

    ask(client, query, kind="hold")

    assert carry_out(Operation.objects.get()).done == 1


def test_only_what_the_user_may_do_is_offered(client):
    talk(1)
    client.force_login(staff("holder", "view_session", "change_session"))

    text = text_of(client.get(reverse(START)))

    assert set(re.findall(r'name="kind" value="(\w+)"', text)) == {"hold", "release"}
    assert "Select a valid choice" in text_of(ask(client, kind="delete", confirm="delete"))


def test_without_a_storage_no_export_is_offered(client, user, settings):
    settings.AGENT_SESSIONS = {"OPERATIONS_IN_PROCESS": False}
    assert 'value="export"' not in text_of(client.get(reverse(START)))


def test_a_viewer_finds_neither_the_link_nor_the_page(client):
    talk(1)
    client.force_login(staff("viewer", "view_session"))
    assert 'href="all/' not in page_of(client)
    assert client.get(reverse(START)).status_code == 404


def test_the_page_shows_progress_and_names_what_was_skipped(client, user):
    sessions = talk(4)
    Session.objects.filter(pk=sessions[2].pk).update(legal_hold=True)
    operation = begin("delete", user)
    text = text_of(client.get(url("change", operation)))
    assert "<strong>Waiting</strong>" in text
    carry_out(operation)

    text = text_of(client.get(url("change", operation)))
    assert "<strong>Done</strong>" in text
    assert re.search(r'<progress [^>]*value="4" max="4"', text)
    link = reverse("admin:agent_sessions_session_change", args=[sessions[2].pk])
    assert f'<a href="{link}">my card is {SECRET} (-2)</a>: skipped, under legal hold' in text
    figures = client.get(url("progress", operation)).json()
    assert (figures["state"], figures["handled"], figures["skipped"]) == ("done", 4, 1)
    assert client.get(url("report", operation)).content.decode().splitlines() == [
        "session,session_id,outcome,code",
        f"{sessions[2].pk},'-2,skipped,held",
    ]


def test_an_operation_whose_process_died_offers_to_go_on(client, user):
    talk(2)
    operation = begin("hold", user)
    Operation.objects.update(status="running")
    expire(operation)
    text = text_of(client.get(url("change", operation)))
    assert "<strong>Stopped</strong> – its process ended." in text
    assert 'value="resume"' in text

    client.post(url("act", operation), {"action": "resume"})

    assert Operation.objects.get().status == "waiting"
    client.post(url("act", operation), {"action": "cancel"})
    assert Operation.objects.get().status == "cancelled"
    last = AuditEvent.objects.filter(action="operation").latest("pk")
    assert (last.actor, last.details["state"]) == ("officer", "cancelled")


def test_the_page_of_an_operation_that_an_error_stopped_names_the_error(client, user, monkeypatch):
    talk(2)
    operation = begin("hold", user)
    monkeypatch.setattr(runner, "sessions_of", lambda operation: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        carry_out(operation)

    text = text_of(client.get(url("change", operation)))

    assert (
        "<strong>Stopped</strong> – an error stopped it (ZeroDivisionError, see the server log). "
        "What is done stays done; “Continue” does the rest."
    ) in text
    assert 'value="resume"' in text


def test_a_file_cannot_be_downloaded_after_its_time(client, user, settings):
    talk(2)
    operation = begin("export", user)
    carry_out(operation)
    assert "Download the file" in text_of(client.get(url("change", operation)))
    Operation.objects.update(finished_at=timezone.now() - timedelta(days=7, seconds=1))

    assert "Download the file" not in text_of(client.get(url("change", operation)))
    assert client.post(url("file", operation)).status_code == 404
    assert not AuditEvent.objects.filter(details__operation="download").exists()

    month = {"EXPORT_SECONDS": 30 * 24 * 60 * 60}
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, **month}
    assert "Download the file" in text_of(client.get(url("change", operation)))
    assert client.post(url("file", operation)).status_code == 200


def test_only_who_started_an_export_gets_its_file_and_it_is_recorded(client, user):
    talk(2)
    operation = begin("export", user)
    carry_out(operation)

    response = client.post(url("file", operation))
    assert b"".join(response.streaming_content).count(b"\n") == 2
    last = AuditEvent.objects.latest("pk")
    assert (last.action, last.details["operation"]) == ("operation", "download")
    assert client.get(url("file", operation)).status_code == 405

    other = officer("other", "view_session", "read_transcript", "export", "view_operation")
    client.force_login(other)
    assert client.get(url("change", operation)).status_code == 200
    assert client.post(url("file", operation)).status_code == 404


def test_operations_of_others_need_a_permission(client, user):
    talk(1)
    operation = begin("hold", user)
    client.force_login(staff("other", "view_session", "change_session"))
    for name in ("change", "progress", "report"):
        assert client.get(url(name, operation)).status_code == 404
    assert client.post(url("act", operation), {"action": "cancel"}).status_code == 404
    assert "officer" not in page_of_operations(client)
    client.force_login(staff("auditor", "view_session", "view_operation"))
    # Without the permission for holds, only the list.
    assert client.get(url("change", operation)).status_code == 404
    assert "officer" in page_of_operations(client)


def test_operations_of_others_are_cancelled_and_continued_by_permission(client, user):
    talk(1)
    operation = begin("hold", user)
    names = ("view_session", "change_session", "view_operation")
    client.force_login(staff("viewer", *names))
    assert 'value="cancel"' not in text_of(client.get(url("change", operation)))
    for action in ("cancel", "resume"):
        assert client.post(url("act", operation), {"action": action}).status_code == 404
    assert Operation.objects.get().status == "waiting"

    client.force_login(staff("lead", *names, "change_operation"))
    assert 'value="cancel"' in text_of(client.get(url("change", operation)))
    assert client.post(url("act", operation), {"action": "cancel"}).status_code == 302
    assert Operation.objects.get().status == "cancelled"


class OneTenant(AccessRule):
    def sessions(self, user: Any, action: Any) -> Any:
        return EVERYBODY if user.username == "officer" else Q(namespace="t1")


def test_an_access_rule_hides_the_operations_of_others(client, user, settings):
    talk(1, namespace="t2")
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "ACCESS": f"{__name__}.OneTenant"}
    operation = begin("hold", user)
    client.force_login(officer("tenant", *EVERYTHING, "view_operation", "change_operation"))

    assert client.get(url("change", operation)).status_code == 404
    assert client.post(url("act", operation), {"action": "cancel"}).status_code == 404
    assert "officer" not in page_of_operations(client)


@pytest.mark.parametrize(
    ("permissions", "shown"),
    [
        ((), set()),
        (("read_transcript",), {"blue"}),
        (("read_transcript", "review_session"), {"blue", "Hushfield"}),
    ],
)
def test_filters_by_content_are_shown_to_those_who_may_read_it(
    client, user, settings, permissions, shown
):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "METADATA_FILTERS": ("team",)}
    operation = begin("hold", user, held="no", metadata_team="blue", label="Hushfield")
    names = ("view_session", "change_session", "view_operation", *permissions)
    client.force_login(staff("other", *names))

    text = text_of(client.get(url("change", operation)))

    assert {word for word in ("blue", "Hushfield") if word in text} == shown
    assert ("not shown" in text) == (len(shown) < 2)


def page_of_operations(client) -> str:
    response = client.get(reverse("admin:agent_sessions_operation_changelist"))
    return text_of(response)


@pytest.mark.django_db(transaction=True)
def test_by_default_it_runs_in_a_thread_of_this_process(client, user, settings):
    settings.AGENT_SESSIONS = {}
    talk(30)
    started = []
    run = operations.run_in_thread

    def start(*args, **kwargs):
        started.append(run(*args, **kwargs))

    with patch.object(operations, "run_in_thread", start):
        ask(client, kind="hold")
    started[0].join(60)

    operation = Operation.objects.get()
    assert (operation.status, operation.done) == ("done", 30)
