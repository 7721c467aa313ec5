"""Every page of the admin, with something on it, by the folder of the menu that leads there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.content import dialects
from django_agent_sessions.governance import legal_hold, reviews, sharing
from django_agent_sessions.models import (
    AuditEvent,
    Note,
    Operation,
    Session,
    SessionAgent,
)
from django_agent_sessions.operations import run
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentState
from tests.admin.people import grant
from tests.admin.transcripts import said
from tests.operations.making import begin, expire

from . import example
from .time_pages import address, pages_about_time

if TYPE_CHECKING:
    from playwright.sync_api import Page

SETTINGS = {**example.WITH_PRICES, "SHARE_LINKS": True}
LIST = "/admin/agent_sessions/session/"
USAGE = "/admin/agent_sessions/usagerollup/"
AUDIT = "/admin/agent_sessions/auditevent/"

Pages = Iterator[tuple[str, str, dict[str, Any] | None]]
"""The name of a page, its address, and what is sent there, if it is the answer to a form."""


def lists(clerk: Any) -> Pages:
    """The list of sessions, what is asked before its actions, and what they report."""
    session, others = _shop(clerk)
    yield "list", LIST, None
    yield "list-search", f"{LIST}?q=refund", None
    yield "list-nothing", f"{LIST}?q=nothing+like+this", None
    columns = "active,created,owned_by,agent_names,tokens,of_namespace,review_state"
    yield "list-view", f"{LIST}?columns={columns}&held=yes", None
    keys = [str(each.pk) for each in others[2:5]]
    for name, action in {"hold": "hold_selected", "delete-selected": "delete_selected"}.items():
        yield name, LIST, {"action": action, "_selected_action": keys}
    yield "delete", address(session, "delete"), None
    yield "delete-held", address(others[3], "delete"), None
    yield "all", f"{LIST}all/?held=no", None
    yield "all-error", f"{LIST}all/?held=no", {"kind": "delete", "confirm": "no"}
    redaction = {"kind": "redact", "what": "text", "text": example.SECRET, "step": "preview"}
    yield "all-preview", f"{LIST}all/?held=no", redaction
    yield "all-none", f"{LIST}all/?namespace=none", None
    for name, operation in _operations(clerk).items():
        yield name, f"/admin/agent_sessions/operation/{operation.pk}/change/", None
    yield "operations", "/admin/agent_sessions/operation/", None


def transcripts(clerk: Any) -> Pages:
    """A conversation, read in every way, and its pages about time."""
    session = example.conversation()
    alone = _alone()
    message = session.messages.order_by("id")[3]
    yield "transcript", address(session, "change", **{"from": "start"}), None
    yield "transcript-alone", address(alone, "change"), None
    yield "transcript-plain", address(session, "change", at=message.pk, plain=1), None
    yield "transcript-found", address(session, "find"), {"query": "refund"}
    yield "transcript-not-found", address(session, "find"), {"query": "xylophone"}
    yield "transcript-empty", address(_empty(), "change"), None
    yield "compare-choose", address(session, "compare_with"), None
    yield "compare", address(session, "compare_with", **{"with": alone.session_id}), None
    yield "export", address(session, "export"), None
    for name, path in pages_about_time(session).items():
        yield f"time-{name}", path, None
    _overwrite_under_hold(session)
    yield "transcript-held", address(session, "change", **{"from": "start"}), None
    yield "held", address(session, "held"), None
    yield "held-error", address(session, "held"), {"reason": " "}
    yield "held-shown", address(session, "held"), {"reason": "Case 2026/17"}


def _overwrite_under_hold(session: Session) -> None:
    """Have an agent replace its state and a message of a session under legal hold."""
    legal_hold.hold(session.pk, reason="Case 2026/17")
    store = SessionStore(owner=EVERYBODY, namespace=session.namespace, scope=session.scope)
    record = store.get(session.session_id)
    agent = store.agents.list(record)[0]
    changed = {"role": "user", "content": [{"text": "Something else, " * 20}]}
    store.messages.update(agent, 0, changed, epoch=record.redaction_epoch)
    store.agents.update(agent, AgentState(state={"step": "refunded"}))


def changes(clerk: Any) -> Pages:
    """Reviewing, sharing and redacting a conversation."""
    grant(clerk, "share")
    session = example.conversation()
    message = session.messages.earliest("id")
    for text in ("Was the refund promised?\nAsk Jonas on Tuesday.", "One_word_" * 40):
        reviews.add_note(session.pk, text, author=clerk, message=message.pk)
    reviews.set_labels(session.pk, ["refund", "w" * 50, "urgent"], actor=clerk)
    reviews.set_labels(session.pk, ["promise"], actor=clerk, message=message.pk)
    reviews.assign(session.pk, clerk, actor=clerk)
    yield "review", address(session, "review"), None
    yield "review-message", address(session, "review", message=message.pk), None
    note = Note.objects.earliest("id")
    yield "review-note", address(session, "review", note=note.pk), None
    yield "review-list", f"{LIST}?columns=active,review_state&review=mine", None
    yield "transcript-reviewed", address(session, "change"), None
    yield "sharing-empty", address(session, "sharing"), None
    sharing.add_participant(session.pk, example.owner("jonas.weber"), "reader", actor=clerk)
    sharing.add_participant(session.pk, example.owner("a" * 80), "writer", actor=clerk)
    sharing.create_link(session.pk, timedelta(days=1), actor=clerk)
    yield "sharing", address(session, "sharing"), None
    yield "sharing-error", address(session, "sharing"), {"step": "add", "user": "nobody"}
    redact = address(session, "redact")
    what = {"what": "text", "text": example.SECRET}
    yield "redact", redact, None
    yield "redact-error", redact, {"what": "text", "text": ""}
    yield "redact-nothing", redact, {"what": "text", "text": "xylophone"}
    yield "redact-preview", redact, what
    yield "redact-done", redact, {**what, "step": "confirm", "reason": "Ticket 5121", "seal": None}


def people(clerk: Any) -> Pages:
    """Pages of a person, usage, and the audit trail."""
    example.usage_of_90_days()
    session, _others = _shop(clerk)
    day = example.dear_day()
    yield "usage", USAGE, None
    yield "usage-day", f"{USAGE}?from={day}&until={day}", None
    yield "usage-error", f"{USAGE}?from=2020-13-01&until={day}", None
    audit.record(AuditEvent.Action.EXPORTED, session=session.pk, actor=clerk, reason="Ticket 7")
    yield "audit", AUDIT, None
    yield "audit-nothing", f"{AUDIT}?q=nobody", None
    event = AuditEvent.objects.latest("id")
    yield "audit-event", reverse("admin:agent_sessions_auditevent_change", args=[event.pk]), None
    yield "history", address(session, "history"), None
    person = reverse("admin:agent_sessions_session_person", args=[session.owner_id])
    yield "person", person, None
    yield "person-error", person, {"reason": ""}
    yield "person-erase", f"{person}erase/", None
    yield "receipt", f"{person}erase/", {"reason": "Asked for", "forks": "redact", "seen": None}


PARTS: dict[str, Callable[[Any], Pages]] = {
    "lists": lists,
    "transcripts": transcripts,
    "changes": changes,
    "people": people,
}


def _shop(clerk: Any) -> tuple[Session, list[Session]]:
    example.others(12)
    session = example.conversation()
    reviews.assign(session.pk, clerk, actor=clerk)
    others = list(Session.objects.exclude(pk=session.pk).recent_first())
    return session, others


def _operations(clerk: Any) -> dict[str, Operation]:
    """Operations that wait, stopped, and are done with some sessions skipped."""
    done = begin("hold", clerk)
    Session.objects.filter(pk=Session.objects.recent_first()[0].pk).update(legal_hold=True)
    run(done.pk)
    deleted = begin("delete", clerk)
    run(deleted.pk)
    stopped = begin("release", clerk)
    Operation.objects.filter(pk=stopped.pk).update(
        status=Operation.Status.RUNNING, done=20, matched=60
    )
    expire(stopped)
    return {"operation": done, "operation-skipped": deleted, "operation-stopped": stopped}


def _alone() -> Session:
    """A customer and one agent, whose last answer is missing."""
    session = Session.objects.create(
        session_id="support-2024-71836", namespace="shop-eu", owner=example.owner("jonas.weber")
    )
    agent = SessionAgent.objects.create(
        session=session, agent_id="support", dialect=dialects.STRANDS
    )
    began = timezone.now() - timedelta(minutes=9)
    texts = [
        said("user", "Hello! My parcel has not arrived. Can I get my money back?"),
        said("assistant", "I am sorry to hear that. **May I see the number of the order?**"),
        said("user", "It is 71836."),
    ]
    example.write(agent, [(began + timedelta(minutes=n), text) for n, text in enumerate(texts)])
    return session


def _empty() -> Session:
    return Session.objects.create(session_id="support-2024-71837", namespace="shop-eu")


SEND = """([path, fields, names]) => {
  const form = document.createElement("form");
  form.method = "post";
  form.action = path;
  const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
  const shown = (name) => document.querySelector(`[name=${name}]`).value;
  for (const [name, value] of [...fields, ["csrfmiddlewaretoken", token]]) {
    const input = document.createElement("input");
    input.name = name;
    input.value = value ?? shown(name);
    form.append(input);
  }
  document.body.append(form);
  document.documentElement.dataset.left = 1;
  form.submit();
}"""
"""Sends a form from the page that is open; without a value, it takes the one that is there."""


def go(page: Page, path: str, fields: dict[str, Any] | None) -> None:
    """Opens a page, or sends a form and opens the answer."""
    if fields is None:
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, f"{path}: {answer.status}"
        return
    pairs = [
        (name, each)
        for name, value in fields.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    if "seal" not in fields:
        page.goto(path if "find/" not in path else path.replace("find/", "change/"))
    page.evaluate(SEND, [path, pairs])
    page.wait_for_selector("html:not([data-left])", state="attached")
    # Until then, the new page may have no content yet.
    page.wait_for_load_state()
