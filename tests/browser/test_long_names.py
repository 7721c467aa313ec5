"""Names that are one long word: no page is wider than its screen for them."""

from __future__ import annotations

import pytest
from django.urls import reverse

from django_agent_sessions import audit
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.store import SessionStore
from tests.admin.transcripts import said

from .test_pages import LOOKS
from .time_pages import address

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = ("change", "branches", "snapshots", "redact", "export", "delete")


@pytest.fixture
def session(clerk):
    store = SessionStore()
    record = store.open("i" * 255)
    for letter in "ab":
        agent = store.agents.open(record, letter * 200, dialect="strands")
        store.append(agent, said("user", "hello"))
    audit.record(AuditEvent.Action.EXPORTED, session=record.id, actor="p" * 150, reason="r" * 300)
    return Session.objects.get()


@pytest.mark.parametrize("look", ["narrow", "light"])
def test_a_long_word_makes_no_page_wider_than_its_screen(open_page, session, look):
    page = open_page(**LOOKS[look])
    found = {}
    for name in PAGES:
        page.goto(address(session, name))
        wide, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        if wide > width:
            found[name] = wide
    assert not found


def test_a_long_word_pushes_no_column_of_the_audit_trail_off_the_page(open_page, session):
    page = open_page(reverse("admin:agent_sessions_auditevent_changelist"), **LOOKS["light"])
    table, room = page.evaluate(
        "['#result_list', '.results'].map((each) => document.querySelector(each).offsetWidth)"
    )
    assert table <= room
    columns = page.evaluate(
        "[...document.querySelectorAll('#result_list thead th')].map((each) => each.offsetWidth)"
    )
    assert min(columns) > 50
