"""All of a redaction or nothing, what is kept where, and how much it takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.exceptions import (
    ConfigurationError,
    InvalidIdError,
    LegalHoldError,
    ReasonRequiredError,
    RedactionScopeError,
    SessionNotFoundError,
)
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import (
    Block,
    Detect,
    Find,
    Span,
    WholeMessage,
    redact,
)
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.testing import columns_containing, files_containing
from tests.sealed import update_content

from .planting import SECRET, plant

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def text_of(store, agent, position: int) -> str:
    return str(store.messages.find(agent, position).content["content"])


# --- scopes ----------------------------------------------------------------------------------


def test_several_spans_of_one_text_are_cut_where_they_were(store, session, agent):
    message = store.append(agent, user("pin 1234 and card 4111 and pin 5678."))
    spans = [Span(message.id, ("content",), *at) for at in ((4, 8), (31, 35), (18, 22), (20, 22))]

    done = redact(session.id, *spans, Find("and"), reason="r")

    cut = "pin [REDACTED] [REDACTED] card [REDACTED] [REDACTED] pin [REDACTED]."
    assert text_of(store, agent, 0) == cut
    assert (done.messages, done.epoch) == (1, 1)


def test_a_span_that_cuts_a_mask_takes_all_of_it_and_one_on_a_mask_nothing(store, session, agent):
    message = store.append(agent, user("a plantedsecret b"))
    redact(session.id, Find(SECRET), reason="r")

    assert redact(session.id, Span(message.id, ("content",), 4, 8), reason="r").messages == 0
    redact(session.id, Span(message.id, ("content",), 5, 14), reason="r")

    assert text_of(store, agent, 0) == "a [REDACTED]"


def test_a_span_in_json_arguments_leaves_json(store, session, agent):
    arguments = json.dumps({"card": SECRET, "a": 1})
    call = {"type": "function_call", "call_id": "1", "name": "f", "arguments": arguments}
    message = store.append(agent, call)
    at = arguments.index(SECRET)

    redact(session.id, Span(message.id, ("arguments",), at, at + 13), reason="r")
    assert json.loads(store.payloads(agent)[0]["arguments"]) == {"card": "[REDACTED]", "a": 1}
    redact(session.id, Span(message.id, ("arguments",), 2, 12), reason="r")
    assert isinstance(json.loads(store.payloads(agent)[0]["arguments"]), dict)


def test_a_find_in_one_message_leaves_the_others(store, session, agent):
    one, other = store.append_many(agent, [user(SECRET), user(SECRET)])

    redact(session.id, Find(SECRET, message=other.id), reason="r")

    assert [text_of(store, agent, at) for at in (0, 1)] == [SECRET, "[REDACTED]"]
    assert SessionMessage.objects.get(pk=one.id).redacted_at is None


@pytest.mark.parametrize("position", range(11))
def test_a_whole_message_says_nothing_any_more_and_nothing_else_changes(store, position):
    session = plant(store)
    rows = SessionMessage.objects.filter(session=session.id).order_by("id")
    target = rows[position]
    before = list(rows.exclude(pk=target.pk).values())

    redact(session.id, WholeMessage(target.pk), reason=f"it said {SECRET}?")

    after = rows.get(pk=target.pk)
    assert SECRET not in str(after.message).lower()
    assert after.message == after.redact_message
    assert SECRET not in after.text.lower()
    assert after.role == target.role
    assert list(rows.exclude(pk=target.pk).values()) == before
    again = redact(session.id, WholeMessage(target.pk), reason="r")
    assert again.messages == 0
    assert AuditEvent.objects.get().target == target.pk


def test_a_damaged_message_stays_damaged(store):
    session = plant(store)
    row = SessionMessage.objects.filter(session=session.id).order_by("id")[11]

    redact(session.id, WholeMessage(row.pk), reason="r")

    row.refresh_from_db()
    assert row.message == CorruptPayload("[REDACTED]")
    assert len(store.payloads(store.agents.find(session, "openai"))) == 5


@pytest.mark.parametrize(
    "scope",
    [
        lambda key: Span(key, ("content",), 0, 99),
        lambda key: Span(key, ("content",), 3, 3),
        lambda key: Span(key, ("role", "x"), 0, 1),
        lambda key: Block(key, ("content", 0, "text")),
        lambda key: Find("  "),
        lambda key: Find("plantedsecret(", pattern=True),
    ],
)
def test_a_scope_that_names_nothing_changes_nothing_and_says_no_content(
    store, session, agent, scope
):
    message = store.append(agent, user(SECRET))

    with pytest.raises(RedactionScopeError) as caught:
        redact(session.id, Find(SECRET), scope(message.id), reason="r")

    assert SECRET not in str(caught.value)
    assert text_of(store, agent, 0) == SECRET
    assert AuditEvent.objects.count() == 0


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("descendants", [False, True])
def test_a_session_is_redacted_by_any_name_and_another_value_is_refused_without_content(
    store, agent, dry_run, descendants
):
    session = store.open(f"support-4711 {SECRET}", title=SECRET)
    store.append(store.agents.open(session), user(SECRET))

    wrong: Any
    for wrong in (f"{SECRET} 4711", None, "", SECRET * 300, 4711):
        with pytest.raises((InvalidIdError, SessionNotFoundError)) as caught:
            redact(wrong, Find(SECRET), reason="r", dry_run=dry_run, descendants=descendants)
        assert SECRET not in str(caught.value)
        # Nor by way of what led to it, which a report of errors shows too.
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
    assert AuditEvent.objects.count() == 0

    for name in (str(session.id), session.session_id, session):
        assert len(redact(name, SECRET, dry_run=True).hits) == 2


@pytest.mark.parametrize(
    ("scope", "advice"),
    [
        (lambda: 4711, r"a int is no scope: pass Find\(text\)"),
        (lambda: b"x", "a bytes is no scope"),
        (lambda: None, "a NoneType is no scope"),
        (lambda: ["x"], "a list is no scope"),
        (lambda: WholeMessage(4711), "a scope names no message: pass its record"),  # type: ignore[arg-type] # wrong on purpose
        (lambda: WholeMessage("17"), "a scope names no message"),
        (lambda: WholeMessage(None), "a scope names no message"),  # type: ignore[arg-type] # wrong on purpose
        (lambda: Find(4711), "the text to find is a int, not a str"),  # type: ignore[arg-type] # wrong on purpose
    ],
)
def test_what_is_no_scope_is_refused_with_advice(session, scope, advice):
    with pytest.raises(RedactionScopeError, match=advice):
        redact(session.id, scope(), reason="r")


@pytest.mark.parametrize(
    "name",
    [
        lambda record: record,
        lambda record: SessionMessage.objects.get(pk=record.id),
        lambda record: record.id,
        lambda record: str(record.id),
    ],
    ids=["record", "model", "key", "text of the key"],
)
def test_a_scope_takes_a_message_by_whatever_names_it(store, session, agent, name):
    record = store.append(agent, user("My card is 4111 1111 1111 1111."))

    assert redact(session.id, Find("4111", message=name(record)), reason="", dry_run=True).total
    assert redact(session.id, WholeMessage(name(record)), reason="r").messages == 1


def test_a_string_is_a_text_to_find_and_one_detector_needs_no_list(store, session, agent):
    store.append(agent, user("My card is 4111 1111 1111 1111."))

    assert redact(session.id, "4111-1111-1111-1111", dry_run=True).total == 1
    assert redact(session.id, Detect("card"), reason="r").total == 1
    assert text_of(store, agent, 0) == "My card is [REDACTED:CARD]."


def test_an_unknown_detector_is_named_but_not_content_in_its_place(session):
    with pytest.raises(ConfigurationError, match="Unknown detector 'crad'"):
        redact(session.id, Detect("crad"), reason="r")
    with pytest.raises(ConfigurationError, match=r"Unknown detector\. Available") as caught:
        redact(session.id, Detect("4111 1111"), reason="r")
    assert "4111" not in str(caught.value)


@pytest.mark.parametrize("actor", ["ada", 4711, b"ada"])
def test_the_name_of_a_user_is_no_program(store, session, agent, ada, actor):
    store.append(agent, user(SECRET))

    with pytest.raises(ConfigurationError, match="the actor"):
        redact(session.id, SECRET, reason="r", actor=actor)
    with pytest.raises(ConfigurationError, match="the actor"):
        legal_hold.hold(session.id, reason="r", actor=actor)
    with pytest.raises(ConfigurationError, match="the actor"):
        store.messages.redact(agent, 0, user("x"), actor=actor)

    assert AuditEvent.objects.count() == 0
    assert redact(session.id, SECRET, reason="r", actor="nightly job").total == 1
    assert AuditEvent.objects.get().actor == "nightly job"


@pytest.mark.parametrize(
    "kind",
    [WholeMessage, lambda key: Block(key, ("content",)), lambda key: Find(SECRET, message=key)],
)
def test_what_names_no_message_is_told_so_without_its_words(store, session, agent, kind):
    store.append(agent, user(SECRET))

    for wrong in (SECRET, 0):
        with pytest.raises(RedactionScopeError, match="names no message") as caught:
            redact(session.id, kind(wrong), reason="r")
        assert SECRET not in str(caught.value)
    assert text_of(store, agent, 0) == SECRET


def test_what_a_redaction_needs(store, session, agent):
    message = store.append(agent, user(SECRET))
    other = store.open("other")

    with pytest.raises(ReasonRequiredError):
        redact(session.id, Find(SECRET), reason=" ")
    with pytest.raises(RedactionScopeError):
        redact(session.id, reason="r")
    with pytest.raises(SessionNotFoundError):
        redact(message.id, Find(SECRET), reason="r")
    with pytest.raises(SessionNotFoundError):
        redact(other.id, WholeMessage(message.id), reason="r")
    assert text_of(store, agent, 0) == SECRET


# --- all or nothing --------------------------------------------------------------------------


def test_an_audit_that_fails_takes_all_back(store, monkeypatch):
    session = plant(store)

    def fail(*args, **kwargs):
        raise RuntimeError("no audit")

    monkeypatch.setattr("django_agent_sessions.store._redaction.audit.record_checked", fail)
    with pytest.raises(RuntimeError, match="no audit"):
        redact(session.id, Find(SECRET), reason="r")

    assert Session.objects.get().redaction_epoch == 0
    assert not SessionMessage.objects.filter(redacted_at__isnull=False).exists()
    assert columns_containing(SECRET)


def test_an_error_at_the_last_statement_takes_all_back(store, monkeypatch):
    session = plant(store)

    def fail(*args, **kwargs):
        raise RuntimeError("no epoch")

    monkeypatch.setattr(
        "django_agent_sessions.store._redaction.increment_redaction_epoch",
        fail,
    )
    with pytest.raises(RuntimeError, match="no epoch"):
        redact(session.id, Find(SECRET), reason="r")

    assert AuditEvent.objects.count() == 0
    assert not SessionMessage.objects.filter(redacted_at__isnull=False).exists()
    assert Session.objects.get().title == f"About {SECRET}"


def test_a_rollback_of_the_caller_takes_it_back(store):
    session = plant(store)
    with transaction.atomic():
        redact(session.id, Find(SECRET), reason="r")
        transaction.set_rollback(True)

    assert AuditEvent.objects.count() == 0
    assert Session.objects.get().redaction_epoch == 0


def test_in_a_transaction_it_is_in_no_file_after_the_commit(upstream_sqlite, store):
    session = plant(store)
    with transaction.atomic():
        redact(session.id, Find(SECRET), reason="r")

    assert files_containing(SECRET) == []
    assert columns_containing(SECRET) == []


# --- originals -------------------------------------------------------------------------------


def test_a_held_session_refuses_a_redaction_and_tells_what_it_would_find(store):
    session = plant(store)
    legal_hold.hold(session.id, reason="court")
    message = SessionMessage.objects.order_by("id")[0]

    for scope in (Find(SECRET), Find(SECRET, message=message.pk)):
        with pytest.raises(LegalHoldError):
            redact(session.id, scope, reason="r")
    assert redact(session.id, Find(SECRET), reason="", dry_run=True).states == 4 - 1
    assert not SessionMessage.objects.filter(redacted_at__isnull=False).exists()


def leave_originals() -> None:
    """Write the originals of redacted messages back: an earlier version could keep them."""
    for row in SessionMessage.objects.filter(redacted_at__isnull=False):
        original = {"role": "user", "content": SECRET}
        update_content(SessionMessage.objects.filter(pk=row.pk), {"message": original})


# --- how much --------------------------------------------------------------------------------


def statements_of(work) -> int:
    with CaptureQueriesContext(connection) as captured:
        work()
    ours = [query["sql"] for query in captured.captured_queries]
    return len([sql for sql in ours if not sql.startswith(("BEGIN", "COMMIT", "PRAGMA"))])


@pytest.mark.parametrize(("messages", "chunks"), [(1, 1), (1000, 6)])
def test_one_hit_takes_as_many_statements_as_there_are_chunks_to_read(
    store, session, agent, messages, chunks
):
    store.append_many(agent, [user("nothing")] * (messages - 1) + [user(SECRET)])

    # The session, agents, orchestrators, branches, snapshots, stored objects, feedback, notes,
    # labels, copies of a hold; with the lock, those and the messages again, to find out what was
    # written meanwhile; then the reasons of earlier events, the operations on the session (2), the
    # filters of those that run, the event, compactions of the message, its digest (2), the message,
    # its binaries (2), the epoch, and the mark by which a lost commit is found again.
    statements = statements_of(lambda: redact(session.id, Find(SECRET), reason="r"))
    assert statements == 10 + chunks + 11 + 13
    assert columns_containing(SECRET) == []


# Over a second: it writes thousands of messages.
@pytest.mark.large
def test_thousands_of_messages(store, session, agent):
    # A server does nothing else with more of them.
    count = 10_000 if connection.vendor == "sqlite" else 2_000
    store.append_many(agent, [user(f"ada{number}@example.org") for number in range(count)])

    done = redact(session.id, Detect(("email",)), reason="asked by ada77@example.org")

    assert (done.messages, done.total) == (count, count)
    assert columns_containing("example.org") == []


# Over a second: 36 megabytes are looked through.
@pytest.mark.large
def test_a_message_of_36_megabytes(store, session, agent):
    words = "nothing to see " * 1_200_000
    try:
        large = store.append(agent, user(f"{words}{SECRET}{words}"))
    except Exception as error:
        if "max_allowed_packet" not in str(error):
            raise
        pytest.skip("the server takes no statement that large")

    redact(session.id, Find(SECRET), reason="r")
    assert SECRET not in text_of(store, agent, 0)
    redact(session.id, WholeMessage(large.id), reason="large")
    assert text_of(store, agent, 0) == "[REDACTED]"
