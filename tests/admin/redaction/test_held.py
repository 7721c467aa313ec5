"""Under legal hold, the page says why nothing can be redacted."""

from __future__ import annotations

import pytest

from django_agent_sessions.models import Session

from .pages import TEXT, confirm, preview, shown, stored

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
