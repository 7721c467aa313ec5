"""What a preview and a redaction ask of the database grows no faster than what they write."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.admin.transcripts import said

from .pages import SECRET, TEXT, confirm, preview

pytestmark = pytest.mark.django_db


def test_a_preview_takes_as_many_statements_for_many_places_as_for_few(browser, store):
    def statements(session) -> int:
        with CaptureQueriesContext(connection) as captured:
            preview(browser, session, **TEXT)
        return len(captured)

    def conversation(name: str, count: int):
        session = store.open(name)
        agent = store.agents.open(session, dialect="strands")
        store.append_many(agent, [said("user", f"{SECRET} {n}") for n in range(count)])
        return session

    few = statements(conversation("few", 2))
    assert statements(conversation("many", 150)) == few


def test_a_redaction_takes_as_many_statements_for_many_messages_as_for_few(browser, store):
    def statements(name: str, count: int) -> int:
        session = store.open(name)
        agent = store.agents.open(session, dialect="strands")
        store.append_many(agent, [said("user", f"{SECRET} {SECRET} {n}") for n in range(count)])
        page = preview(browser, session, **TEXT)
        with CaptureQueriesContext(connection) as captured:
            assert confirm(browser, session, page).status_code == 302
        return len(captured)

    assert statements("many", 52) == statements("few", 2)
