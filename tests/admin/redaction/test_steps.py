"""A redaction goes by a preview, a reason and a confirmation, and reaches what was chosen."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from django_agent_sessions.admin.redaction.preview import MAX_SHOWN_PLACES
from django_agent_sessions.models import Session
from tests.admin.transcripts import said

from .pages import (
    SECRET,
    TEXT,
    confirm,
    fields,
    message,
    preview,
    redactions,
    shown,
    stored,
    url_of,
)

pytestmark = pytest.mark.django_db


def test_a_text_goes_from_everywhere_after_a_preview_a_reason_and_a_confirmation(
    browser, clerk, talk
):
    page = preview(browser, talk, **TEXT)
    assert SECRET in stored()

    answer = confirm(browser, talk, page)

    assert answer.status_code == 302
    assert SECRET not in stored().lower()
    assert "[REDACTED]" in Session.objects.get().title
    (event,) = redactions()
    assert (event.session, event.actor_id, event.reason) == (
        talk.id,
        str(clerk.pk),
        "as she asked",
    )
    assert event.details["hits"] == 9
    first = message(0).pk
    assert answer["Location"].endswith(f"/change/?at={first}#m-{first}")
    landed = browser.get(answer["Location"].partition("#")[0]).content.decode()
    assert "9 places were redacted." in landed
    assert SECRET not in landed.lower()


def test_the_preview_shows_every_place_before_and_after(browser, talk):
    page = preview(browser, talk, **TEXT)

    text = shown(page)
    assert "9 places would be redacted" in text
    assert "4 messages" in text
    assert "state of 1 agent" in text
    assert "state of 1 orchestrator" in text
    assert {"Title", "Metadata"} <= set(re.findall(r"<li><b>(\w+)</b></li>", page))
    assert "The originals are overwritten" in text
    for place in ("Message 0", "Message 3", "State of agent default", "State of orchestrator"):
        assert place in text
    assert f"My <del>{SECRET}</del> is mine" in page
    assert 'My <ins class="as-redact-chip">[REDACTED]</ins> is mine' in page


@pytest.mark.parametrize("where", ["message", "session"])
def test_a_text_can_be_redacted_here_or_everywhere(browser, talk, where):
    row = message(0)
    page = preview(browser, talk, **TEXT, message=row.pk, where=where)
    confirm(browser, talk, page)

    assert SECRET not in str(message(0).message)
    assert (SECRET in str(message(3).message)) == (where == "message")
    assert (SECRET in Session.objects.get().title) == (where == "message")


def test_the_preview_of_a_selection_offers_to_look_everywhere(browser, talk):
    page = preview(browser, talk, **TEXT, message=message(0).pk, where="message")
    assert "1 place would be redacted" in shown(page)

    switch = re.search(r'<form class="as-redact-switch".*?</form>', page, re.DOTALL)
    assert switch is not None
    given = re.findall(r'name="(\w+)" value="([^"]*)"', switch[0])
    page = preview(browser, talk, **{name: unescape(value) for name, value in given})
    assert "9 places would be redacted" in shown(page)


def test_a_part_goes_and_the_others_stay(browser, talk):
    row = message(0)
    where = {"message": str(row.pk), "path": json.dumps(["content", 0])}
    form = browser.get(url_of(talk), where).content.decode()
    assert re.search(r'value="part"[^>]*checked', form)

    page = preview(browser, talk, what="part", **where)
    assert "1 place would be redacted" in shown(page)
    assert f"<del>My {SECRET} is mine</del>" in page
    assert "another block" not in shown(page)
    confirm(browser, talk, page)

    assert message(0).message["content"] == [
        {"text": "[REDACTED]"},
        {"text": "and another block"},
    ]


def test_a_tool_call_that_goes_is_shown_with_its_arguments_and_keeps_its_name(browser, talk):
    row = message(1)
    where = {"message": str(row.pk), "path": json.dumps(["content", 0])}

    page = preview(browser, talk, what="part", **where)
    assert f'<del>{{"word": "{SECRET}"}}</del>' in unescape(page)
    confirm(browser, talk, page)

    use = message(1).message["content"][0]["toolUse"]
    assert use == {"toolUseId": "c1", "name": "look", "input": {}}


def test_of_a_very_large_message_the_preview_shows_how_it_begins(browser, store):
    session = store.open("talk")
    agent = store.agents.open(session, dialect="strands")
    store.append(agent, said("user", SECRET * 40_000))
    where = {"message": str(message(0).pk), "path": json.dumps(["content", 0])}

    page = preview(browser, session, what="part", **where)
    [begins] = re.findall(r"<del>(.*?)</del>", page)
    assert begins.startswith(SECRET)
    assert len(begins) <= 301
    confirm(browser, session, page)

    assert message(0).message["content"] == [{"text": "[REDACTED]"}]


def test_a_tool_result_that_goes_keeps_its_id(browser, talk):
    row = message(2)
    where = {"message": str(row.pk), "path": json.dumps(["content", 0])}

    confirm(browser, talk, preview(browser, talk, what="part", **where))

    block = message(2).message["content"][0]["toolResult"]
    assert block["toolUseId"] == "c1"
    assert block["content"] == [{"text": "[REDACTED]"}]


def test_a_whole_message_goes_and_its_preview_shows_how_it_begins(browser, talk):
    row = message(0)
    page = preview(browser, talk, what="message", message=row.pk)
    assert f"My {SECRET} is mine" in shown(page)
    assert "The same words in other places" in shown(page)

    confirm(browser, talk, page)

    assert message(0).message["content"] == [{"text": "[REDACTED]"}, {"text": "[REDACTED]"}]
    assert SECRET in str(message(1).message)


def test_detectors_are_chosen_by_their_labels_and_name_the_kind(browser, talk):
    form = browser.get(url_of(talk)).content.decode()
    assert re.search(r'type="checkbox" name="detectors" value="email"', form)

    page = preview(browser, talk, what="detect", detectors=["email", "ip"])
    assert '<ins class="as-redact-chip">[REDACTED:EMAIL]</ins>' in page
    assert fields(page)["detectors"] == ["email", "ip"]
    confirm(browser, talk, page)

    assert "[REDACTED:EMAIL]" in str(message(3).message)
    assert "ada@example.org" not in stored()


def test_nothing_found_is_said_with_a_way_to_the_stored_text(browser, talk):
    row = message(0)
    page = preview(browser, talk, what="text", text="bold words", message=row.pk, where="message")

    assert "Nothing was found in this message." in shown(page)
    assert f"change/?plain=1&amp;at={row.pk}#m-{row.pk}" in page
    assert "as-redact-confirm" not in page


def test_the_form_says_that_a_text_with_formatting_in_it_is_not_found(browser, store, talk):
    store.append(store.agents.open(talk, dialect="strands"), said("user", "it is 12**34**"))

    assert (
        "does not find a text with formatting marks inside it"
        in browser.get(url_of(talk)).content.decode()
    )
    assert "Nothing was found" in preview(browser, talk, what="text", text="1234")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"what": "text", "text": "  "}, "Enter the text to search for."),
        ({"what": "text", "text": " a "}, "Enter at least 2 characters to search for."),
        ({"what": "text", "text": "x" * 2001}, "at most 2000 characters"),
        ({"what": "detect"}, "Choose at least one kind."),
        ({"what": "detect", "detectors": "nose"}, "not one of the available choices"),
        ({"what": "part"}, "not one of the available choices"),
        ({"what": "message"}, "not one of the available choices"),
        ({}, "This field is required."),
    ],
)
def test_a_form_that_says_too_little_is_shown_again(browser, talk, data, complaint):
    before = stored()
    page = preview(browser, talk, **data)
    assert complaint in shown(page)
    assert stored() == before


@pytest.mark.parametrize("reason", ["", "  "])
def test_without_a_reason_nothing_happens_and_the_preview_stays(browser, talk, reason):
    page = preview(browser, talk, **TEXT)
    before = stored()

    answer = confirm(browser, talk, page, reason=reason)

    assert answer.status_code == 200
    again = answer.content.decode()
    assert "9 places would be redacted" in shown(again)
    assert "as-redact-error" in again
    assert stored() == before
    assert not redactions()


def test_more_places_than_a_page_shows_are_counted_and_all_redacted(browser, store):
    session = store.open("talk")
    agent = store.agents.open(session, dialect="strands")
    store.append_many(agent, [said("user", f"{SECRET} {n}") for n in range(MAX_SHOWN_PLACES + 25)])

    page = preview(browser, session, **TEXT)
    assert f"The first {MAX_SHOWN_PLACES} of {MAX_SHOWN_PLACES + 25} places are shown" in shown(
        page
    )
    assert page.count('<li class="as-redact-hit">') == MAX_SHOWN_PLACES
    confirm(browser, session, page)

    assert SECRET not in stored()


def test_ids_that_stay_are_named(browser, store):
    session = store.open(f"of-{SECRET}")
    store.append(store.agents.open(session, dialect="strands"), said("user", SECRET))

    page = preview(browser, session, **TEXT)

    assert "An id also contains a match" in shown(page)
    assert "Session (session_id)" in shown(page)
