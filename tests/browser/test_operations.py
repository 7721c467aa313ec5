"""From the list to the report of an operation on all matches, as a person sees it."""

from __future__ import annotations

import pytest

from django_agent_sessions.models import Operation, Session, SessionMessage
from django_agent_sessions.operations import run
from tests.operations.making import begin, expire, talk

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_person_deletes_all_that_match_and_reads_the_report(open_page):
    sessions = talk(60, namespace="support")
    talk(5, namespace="sales")
    Session.objects.filter(pk=sessions[30].pk).update(legal_hold=True)
    page = open_page("/admin/agent_sessions/session/?namespace=support")
    page.get_by_role("link", name="Act on all matching sessions").click()
    assert page.get_by_text("60 sessions match.").is_visible()
    confirm = page.get_by_label("Confirmation")
    page.get_by_label("Put under legal hold").check()
    assert not confirm.is_visible()
    page.get_by_label("Redact", exact=True).check()
    assert page.get_by_label("The text").is_visible()
    page.get_by_label("Delete", exact=True).check()
    assert not page.get_by_label("The text").is_visible()
    confirm.fill("delete")

    page.get_by_role("button", name="Start").click()

    # The page follows by itself.
    page.get_by_text("Done", exact=True).first.wait_for()
    page.locator("[role=status]", has_text="Done").wait_for(timeout=60_000)
    assert page.get_by_role("link", name="support-30").is_visible()
    assert Session.objects.count() == 6


def test_a_person_sees_what_a_redaction_would_change_and_starts_it(open_page):
    talk(3, namespace="support")
    page = open_page("/admin/agent_sessions/session/all/?namespace=support")
    page.get_by_label("Redact", exact=True).check()
    page.get_by_label("A text", exact=True).check()
    page.get_by_label("The text").fill("4111")

    page.get_by_role("button", name="Preview").click()

    page.get_by_role("heading", name="Preview").wait_for()
    assert page.locator("del", has_text="4111").count() == 3
    assert page.get_by_label("The text").input_value() == "4111"
    page.get_by_label("Reason").fill("Ticket 5121")
    page.get_by_label("Confirmation").fill("redact")
    page.get_by_role("button", name="Start").click()
    page.locator("[role=status]", has_text="Done").wait_for(timeout=60_000)
    assert not SessionMessage.objects.filter(text__contains="4111").exists()


def test_a_person_goes_on_with_a_stopped_operation_and_cancels_another(open_page, clerk):
    talk(60)
    stopped = begin("hold", clerk)
    run(stopped.pk, seconds=1e-9)
    Operation.objects.update(status="running", done=20, matched=60)
    expire(stopped)
    page = open_page(f"/admin/agent_sessions/operation/{stopped.pk}/change/")
    assert page.get_by_text("Stopped").is_visible()

    page.get_by_role("button", name="Continue").click()
    page.locator("[role=status]", has_text="Done").wait_for(timeout=60_000)

    waiting = begin("release", clerk)
    page.goto(f"/admin/agent_sessions/operation/{waiting.pk}/change/")
    page.get_by_role("button", name="Cancel").click()
    assert page.get_by_text("Cancelled").is_visible()
    page.goto("/admin/agent_sessions/operation/")
    assert page.locator("#result_list tbody tr").count() == 2
