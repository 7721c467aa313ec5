from __future__ import annotations

import json
import logging
import re
import sys
from html import unescape
from html.parser import HTMLParser
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session as WebSession
from django.core.signals import got_request_exception
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.views.debug import ExceptionReporter

from django_agent_sessions.admin.redacting.preview import SHOWN
from django_agent_sessions.holds import hold
from django_agent_sessions.models import (
    AuditEvent,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.records import AgentState

from .people import staff
from .transcripts import call, result, said

pytestmark = pytest.mark.django_db

SECRET = "planted-secret"
ENOUGH = ("view_session", "read_transcript", "redact")
TEXT = {"what": "text", "text": SECRET}


@pytest.fixture
def clerk(db):
    return staff("clerk", *ENOUGH)


@pytest.fixture
def browser(client, clerk):
    client.force_login(clerk)
    return client


@pytest.fixture
def talk(store):
    """The secret in every place that a session has."""
    session = store.open("talk", title=f"About {SECRET}", metadata={"note": SECRET})
    data = AgentState(state={"note": SECRET}, conversation_manager_state={"summary": SECRET})
    agent = store.open_agent(session, dialect="strands", data=data)
    store.append_many(
        agent,
        [
            said("user", f"My {SECRET} is mine", "and another block"),
            said("assistant", call("c1", "look", word=SECRET)),
            said("user", result("c1", f"found {SECRET.upper()} there")),
            said("assistant", f"It is {SECRET}. Write to ada@example.org"),
        ],
    )
    store.create_multi_agent(session, "graph", {"node_results": {"a": {"result": SECRET}}})
    return session


def url_of(session) -> str:
    return reverse("admin:agent_sessions_session_redact", args=[session.id])


def message(position: int) -> SessionMessage:
    return SessionMessage.objects.get(message_id=position, session__session_id="talk")


def preview(browser, session, **data) -> str:
    answer = browser.post(url_of(session), {"step": "preview", **data})
    assert answer.status_code == 200
    return str(answer.content.decode())


def fields(page: str) -> dict[str, list[str]]:
    """The hidden fields of the form that confirms."""
    form = re.search(r'<form class="as-redact-confirm.*?</form>', page, re.DOTALL)
    assert form is not None, "there is nothing to confirm"
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[0]):
        found.setdefault(name, []).append(unescape(value))
    return found


def confirm(browser, session, page: str, reason: str = "as she asked", **changes):
    return browser.post(url_of(session), {**fields(page), "reason": reason, **changes})


def stored() -> str:
    """Everything that a redaction may change."""
    tables = (Session, SessionAgent, SessionMessage, SessionMultiAgent)
    return str([list(table._base_manager.order_by("pk").values()) for table in tables])


def shown(page: str) -> str:
    """A page's text as people read it."""
    return unescape(re.sub(r"<[^>]+>", "", page))


def redactions() -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action=AuditEvent.Action.REDACTED))


# --- the way through it ----------------------------------------------------------------------


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


def test_a_very_large_message_is_not_read_for_an_excerpt(browser, store):
    session = store.open("talk")
    agent = store.open_agent(session, dialect="strands")
    store.append(agent, said("user", SECRET * 40_000))
    where = {"message": str(message(0).pk), "path": json.dumps(["content", 0])}

    page = preview(browser, session, what="part", **where)
    assert "<del>all of it</del>" in page
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
    assert "The same words elsewhere" in shown(page)

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


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"what": "text", "text": "  "}, "Say which text to look for."),
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


@pytest.mark.parametrize("reason", ["", "  ", "ab"])
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
    agent = store.open_agent(session, dialect="strands")
    store.append_many(agent, [said("user", f"{SECRET} {n}") for n in range(SHOWN + 25)])

    page = preview(browser, session, **TEXT)
    assert f"The first {SHOWN} of {SHOWN + 25} places are shown" in shown(page)
    assert page.count('<li class="as-redact-hit">') == SHOWN
    confirm(browser, session, page)

    assert SECRET not in stored()


def test_ids_that_stay_are_named(browser, store):
    session = store.open(f"of-{SECRET}")
    store.append(store.open_agent(session, dialect="strands"), said("user", SECRET))

    page = preview(browser, session, **TEXT)

    assert "It also stands in an id" in shown(page)
    assert "session, session_id" in shown(page)


# --- meanwhile -------------------------------------------------------------------------------


def test_what_was_written_after_the_preview_is_shown_before_it_goes(browser, store, talk):
    page = preview(browser, talk, **TEXT)
    agent = store.open_agent(talk, dialect="strands")
    store.append(agent, said("user", f"once more: {SECRET}"))
    before = stored()

    answer = confirm(browser, talk, page)

    assert answer.status_code == 200
    again = answer.content.decode()
    assert "Somebody wrote to this session meanwhile" in shown(again)
    assert "10 places would be redacted" in shown(again)
    assert 'value="as she asked"' in again
    assert stored() == before
    assert not redactions()
    assert confirm(browser, talk, again).status_code == 302
    assert SECRET not in stored()


def test_a_second_confirmation_of_the_same_preview_finds_nothing_left(browser, talk):
    page = preview(browser, talk, **TEXT)
    assert confirm(browser, talk, page).status_code == 302
    after = stored()

    again = confirm(browser, talk, page)

    assert "Nothing of it is there any more" in shown(again.content.decode())
    assert stored() == after
    assert len(redactions()) == 1


def test_what_an_agent_says_elsewhere_meanwhile_is_in_nobodys_way(browser, store, talk):
    page = preview(browser, talk, **TEXT)
    store.append(store.open_agent(talk, dialect="strands"), said("user", "something else"))

    assert confirm(browser, talk, page).status_code == 302
    assert SECRET not in stored()


# --- holds and originals ---------------------------------------------------------------------


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
    assert "messages keep their originals, hidden, as long as it is" in shown(page)

    confirm(browser, talk, page)

    assert SECRET in str(message(0).message)
    assert SECRET not in str(message(0).redact_message)


def test_kept_originals_are_announced_and_never_shown_by_a_preview(browser, talk, settings):
    settings.AGENT_SESSIONS = {"REDACTION_KEEP_ORIGINAL": True}
    page = preview(browser, talk, **TEXT)
    assert "Messages keep their originals, hidden, until" in shown(page)
    confirm(browser, talk, page)
    settings.AGENT_SESSIONS = {}

    page = preview(browser, talk, what="text", text="planted")

    assert "it is not shown here" in shown(page)
    assert "secret" not in shown(page)
    confirm(browser, talk, page)
    assert SECRET not in stored()


# --- who may ---------------------------------------------------------------------------------


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
    assert SECRET not in answer.content.decode()
    assert (stored(), AuditEvent.objects.count()) == (before, events)
    assert browser.put(url_of(talk), json.dumps(page)).status_code == 405
    assert stored() == before


@pytest.mark.parametrize("what", ["part", "message", "text", "detect"])
@pytest.mark.parametrize("step", ["preview", "confirm"])
def test_another_sessions_message_cannot_be_reached(browser, store, talk, what, step):
    other = store.open("other")
    agent = store.open_agent(other, dialect="strands")
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
    assert "has nothing at this path" in shown(page)
    assert stored() == before


def test_there_is_no_page_for_a_session_that_is_not_there(browser):
    answer = browser.get(reverse("admin:agent_sessions_session_redact", args=[uuid4()]))
    assert answer.status_code == 404


# --- what must not leak ----------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</textarea><script>alert(1)</script>",
    "{{ 7|add:7 }}{% now 'Y' %}",
    "' onmouseover='alert(1)",
    "\u202egnitset",
]


class Attributes(HTMLParser):
    """The names of all attributes of a page, as a browser would read it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag, attrs) -> None:
        self.names.update(name for name, value in attrs)

    @classmethod
    def of(cls, page: str) -> set[str]:
        parser = cls()
        parser.feed(page)
        return parser.names


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_only_texts(browser, store, text):
    session = store.open("talk", title=text)
    agent = store.open_agent(session, dialect="strands")
    store.append(agent, said("user", f"before {text} after"))

    page = preview(browser, session, what="text", text=text)

    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert not Attributes.of(page) & {"style", "onerror", "onmouseover"}
    assert f"<del>{text}</del>" in unescape(page)
    assert fields(page)["text"] == [text]
    confirm(browser, session, page)
    assert text not in str(SessionMessage.objects.get().message)


def test_a_mask_that_a_model_wrote_is_not_taken_for_the_new_one(browser, store):
    session = store.open("talk")
    agent = store.open_agent(session, dialect="strands")
    store.append(agent, said("user", f"[REDACTED] {SECRET} [REDACTED]"))

    page = preview(browser, session, **TEXT)

    assert f"[REDACTED] <del>{SECRET}</del> [REDACTED]" in page
    assert '[REDACTED] <ins class="as-redact-chip">[REDACTED]</ins> [REDACTED]' in page


def test_the_secret_is_in_no_url_log_message_cookie_or_other_table_afterwards(
    browser, talk, caplog
):
    caplog.set_level(logging.DEBUG)
    # Statements of a redaction hold what they write; whoever logs those logs everything.
    logging.getLogger("django.db.backends").setLevel(logging.INFO)
    page = preview(browser, talk, **TEXT)
    actions = re.findall(r'(?:href|action|src)="([^"]*)"', page)
    answer = confirm(browser, talk, page, reason=f"she said {SECRET}")

    assert answer.status_code == 302
    assert not any(SECRET in unescape(action) for action in actions)
    assert SECRET not in answer["Location"]
    assert SECRET not in answer.content.decode()
    assert SECRET not in str(answer.cookies) + str(browser.cookies)
    assert SECRET not in caplog.text
    assert SECRET not in str([entry.get_decoded() for entry in WebSession.objects.all()])
    assert not LogEntry.objects.exists()
    assert SECRET not in str(list(AuditEvent.objects.values()))
    assert redactions()[0].reason == "she said [REDACTED]"
    assert SECRET not in stored()


def test_a_report_of_an_error_does_not_hold_the_secret(browser, talk, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("broken")

    reports: list[str] = []

    def report(request, **kwargs) -> None:
        reporter = ExceptionReporter(request, *sys.exc_info())
        reports.extend([reporter.get_traceback_html(), reporter.get_traceback_text()])

    browser.raise_request_exception = False
    monkeypatch.setattr("django_agent_sessions.admin.redacting.views.preview", broken)
    got_request_exception.connect(report)
    try:
        answer = browser.post(url_of(talk), {"step": "preview", **TEXT, "reason": "what for"})
    finally:
        got_request_exception.disconnect(report)

    assert answer.status_code == 500
    assert all("RuntimeError" in report for report in reports)
    assert SECRET not in str(reports)
    assert "what for" not in str(reports)


def test_pages_are_kept_by_no_cache(browser, talk):
    for answer in (
        browser.get(url_of(talk)),
        browser.post(url_of(talk), {"step": "preview", **TEXT}),
    ):
        assert "no-store" in answer["Cache-Control"]


def test_a_preview_is_recorded_as_reading_unless_it_is_ones_own(browser, clerk, talk):
    preview(browser, talk, **TEXT)
    (event,) = AuditEvent.objects.all()
    assert (event.action, event.session) == (AuditEvent.Action.READ, talk.id)
    assert event.details == {"page": "redact", "hits": 9}

    Session.objects.update(owner=clerk)
    preview(browser, talk, **TEXT)
    assert AuditEvent.objects.count() == 1


def test_a_preview_takes_as_many_statements_for_many_places_as_for_few(browser, store):
    def statements(session) -> int:
        with CaptureQueriesContext(connection) as captured:
            preview(browser, session, **TEXT)
        return len(captured)

    def conversation(name: str, count: int):
        session = store.open(name)
        agent = store.open_agent(session, dialect="strands")
        store.append_many(agent, [said("user", f"{SECRET} {n}") for n in range(count)])
        return session

    few = statements(conversation("few", 2))
    assert statements(conversation("many", 150)) == few


def test_a_redaction_takes_one_statement_more_for_each_message_more(browser, store):
    def statements(name: str, count: int) -> int:
        session = store.open(name)
        agent = store.open_agent(session, dialect="strands")
        store.append_many(agent, [said("user", f"{SECRET} {SECRET} {n}") for n in range(count)])
        page = preview(browser, session, **TEXT)
        with CaptureQueriesContext(connection) as captured:
            assert confirm(browser, session, page).status_code == 302
        return len(captured)

    assert statements("many", 52) - statements("few", 2) == 50


# --- from the conversation -------------------------------------------------------------------


def test_the_conversation_leads_to_every_message_and_part(browser, talk):
    page = browser.get(reverse("admin:agent_sessions_session_change", args=[talk.id]))
    links = {
        unescape(link) for link in re.findall(r'href="([^"]*/redact/[^"]*)"', page.content.decode())
    }

    assert f"{url_of(talk)}" in links
    assert len(links) > 4
    for link in links:
        assert browser.get(link).status_code == 200


def test_the_conversation_has_the_form_for_selections_only_for_who_may_redact(
    browser, client, talk
):
    url = reverse("admin:agent_sessions_session_change", args=[talk.id])
    assert "data-as-redact-selection" in browser.get(url).content.decode()

    client.force_login(staff("reader", "view_session", "read_transcript"))
    page = client.get(url).content.decode()
    assert "data-as-redact-selection" not in page
    assert "/redact/" not in page
