"""What is looked for runs nowhere, and is kept by nothing afterwards."""

from __future__ import annotations

import logging
import re
import sys
from html import unescape
from html.parser import HTMLParser

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session as WebSession
from django.core.signals import got_request_exception
from django.views.debug import ExceptionReporter

from django_agent_sessions.models import AuditEvent, SessionMessage
from tests.admin.transcripts import said

from .pages import SECRET, TEXT, confirm, fields, preview, redactions, stored, url_of

pytestmark = pytest.mark.django_db


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
    agent = store.agents.open(session, dialect="strands")
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
    agent = store.agents.open(session, dialect="strands")
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
    monkeypatch.setattr("django_agent_sessions.admin.redaction.views.build_preview", broken)
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
