"""Under legal hold, and where originals are kept, the page says what stays, and never shows it."""

from __future__ import annotations

import pytest

from django_agent_sessions.models import Session

from .pages import SECRET, TEXT, confirm, preview, shown, stored

pytestmark = pytest.mark.django_db


def test_a_held_session_says_why_nothing_of_it_can_be_redacted(browser, talk):
    page = preview(browser, talk, **TEXT)
    Session.objects.update(legal_hold=True)
    before = stored()

    answer = confirm(browser, talk, page)
    assert "under legal hold" in shown(answer.content.decode())
    assert stored() == before

    page = preview(browser, talk, **TEXT)
    assert "nothing in it can be redacted" in shown(page)
    assert "as-redact-confirm" not in page


def test_kept_originals_are_announced_and_never_shown_by_a_preview(browser, talk, settings):
    settings.AGENT_SESSIONS = {"REDACTION_KEEP_ORIGINAL": True}
    page = preview(browser, talk, **TEXT)
    assert "Hidden originals of the messages are kept until" in shown(page)
    confirm(browser, talk, page)
    settings.AGENT_SESSIONS = {}

    page = preview(browser, talk, what="text", text="planted")

    assert "which is not shown here" in shown(page)
    assert "secret" not in shown(page)
    confirm(browser, talk, page)
    assert SECRET not in stored()
