"""Under legal hold, and where originals are kept, the page says what stays, and never shows it."""

from __future__ import annotations

import pytest

from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.models import Session

from .pages import SECRET, TEXT, confirm, message, preview, shown, stored

pytestmark = pytest.mark.django_db


def test_a_held_session_says_why_its_state_cannot_be_redacted(browser, talk):
    page = preview(browser, talk, **TEXT)
    Session.objects.update(legal_hold=True)
    before = stored()

    answer = confirm(browser, talk, page)
    assert "under legal hold" in shown(answer.content.decode())
    assert stored() == before

    page = preview(browser, talk, **TEXT)
    assert "Release the session first" in shown(page)
    assert "as-redact-confirm" not in page


def test_a_message_of_a_held_session_can_be_redacted_and_keeps_its_original(browser, talk):
    hold(talk.id, reason="a lawsuit")
    page = preview(browser, talk, **TEXT, message=message(0).pk, where="message")
    assert "hidden originals of the messages are kept until it is released" in shown(page)

    confirm(browser, talk, page)

    assert SECRET in str(message(0).message)
    assert SECRET not in str(message(0).redact_message)


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
