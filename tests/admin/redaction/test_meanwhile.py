"""What was written between a preview and its confirmation is shown before it goes."""

from __future__ import annotations

import pytest

from tests.admin.transcripts import said

from .pages import SECRET, TEXT, confirm, preview, redactions, shown, stored

pytestmark = pytest.mark.django_db


def test_what_was_written_after_the_preview_is_shown_before_it_goes(browser, store, talk):
    page = preview(browser, talk, **TEXT)
    agent = store.agents.open(talk, dialect="strands")
    store.append(agent, said("user", f"once more: {SECRET}"))
    before = stored()

    answer = confirm(browser, talk, page)

    assert answer.status_code == 200
    again = answer.content.decode()
    assert "The session changed after the preview" in shown(again)
    assert "10 places would be redacted" in shown(again)
    assert "as she asked</textarea>" in again
    assert stored() == before
    assert not redactions()
    assert confirm(browser, talk, again).status_code == 302
    assert SECRET not in stored()


def test_a_second_confirmation_of_the_same_preview_finds_nothing_left(browser, talk):
    page = preview(browser, talk, **TEXT)
    assert confirm(browser, talk, page).status_code == 302
    after = stored()

    again = confirm(browser, talk, page)

    assert "There is nothing left to redact: it was redacted or deleted" in shown(
        again.content.decode()
    )
    assert stored() == after
    assert len(redactions()) == 1


def test_what_an_agent_says_elsewhere_meanwhile_is_in_nobodys_way(browser, store, talk):
    page = preview(browser, talk, **TEXT)
    store.append(store.agents.open(talk, dialect="strands"), said("user", "something else"))

    assert confirm(browser, talk, page).status_code == 302
    assert SECRET not in stored()
