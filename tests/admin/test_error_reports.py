"""A report of an error, which Django mails to the site's admins, holds nothing that was typed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.signals import got_request_exception
from django.urls import reverse
from django.views.debug import ExceptionReporter

from django_agent_sessions.models import Session, SessionMessage

from .redaction.pages import fields
from .transcripts import said

pytestmark = pytest.mark.django_db

SECRET = "planted-secret"
WHY = "because of whom"


@pytest.fixture
def root(client):
    client.force_login(get_user_model().objects.create_superuser("root"))
    client.raise_request_exception = False
    return client


@pytest.fixture
def talk(store):
    session = store.open("talk")
    store.append(store.agents.open(session, dialect="strands"), said("user", f"My {SECRET}"))
    return session


@pytest.fixture
def reports():
    """The reports of all errors, as a page and as text."""
    found: list[str] = []

    def report(request, **kwargs) -> None:
        reporter = ExceptionReporter(request, *sys.exc_info())
        found.extend([reporter.get_traceback_html(), reporter.get_traceback_text()])

    got_request_exception.connect(report)
    yield found
    got_request_exception.disconnect(report)


def page(talk, name: str) -> str:
    return reverse(f"admin:agent_sessions_session_{name}", args=[talk.id])


def redact(root, talk) -> Any:
    asked = {"what": "text", "text": SECRET}
    preview = root.post(page(talk, "redact"), {**asked, "step": "preview"}).content.decode()
    return root.post(page(talk, "redact"), {**fields(preview), "reason": WHY})


def export(root, talk) -> Any:
    return root.post(page(talk, "export"), {"form": "jsonl", "reason": f"{WHY} {SECRET}"})


def hold(root, talk) -> Any:
    return root.post(
        reverse("admin:agent_sessions_session_changelist"),
        {
            "action": "hold_selected",
            "_selected_action": [str(talk.id)],
            "reason": f"{WHY} {SECRET}",
        },
    )


def delete(root, talk) -> Any:
    return root.post(page(talk, "delete"), {"post": "yes", "reason": f"{WHY} {SECRET}"})


def delete_selected(root, talk) -> Any:
    asked = {"action": "delete_selected", "_selected_action": [str(talk.id)], "post": "yes"}
    url = reverse("admin:agent_sessions_session_changelist")
    return root.post(url, {**asked, "reason": f"{WHY} {SECRET}"})


def fork(root, talk) -> Any:
    message = SessionMessage.objects.get().pk
    url = reverse("admin:agent_sessions_session_fork", args=[talk.id, message])
    seen = root.get(url).context["question"].seen
    return root.post(url, {"seen": seen, "reason": f"{WHY} {SECRET}"})


@pytest.mark.parametrize("do", [redact, export, hold, delete, delete_selected, fork])
def test_it_holds_neither_secrets_nor_reasons(
    root, talk, reports, monkeypatch, do: Callable[..., Any]
):
    def broken(*args, **kwargs):
        raise RuntimeError("broken")

    monkeypatch.setattr("django_agent_sessions.audit.mask_reason", broken)
    # Reading one's own is not recorded, so that the preview of a redaction works.
    Session.objects.update(owner=get_user_model().objects.get())

    assert do(root, talk).status_code == 500
    assert len(reports) == 2
    assert all("RuntimeError" in report and "mask_reason" in report for report in reports)
    assert all(SECRET not in report and WHY not in report for report in reports)
