"""Comments on messages: redacted with their message, searched with the session."""

from __future__ import annotations

import pytest

from django_agent_sessions.content import masking
from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.governance.redaction import (
    Block,
    Detect,
    Find,
    Span,
    WholeMessage,
    redact,
)
from django_agent_sessions.models import AuditEvent, MessageFeedback, Session, SessionMessage

pytestmark = pytest.mark.django_db

SECRET = "plantedsecret"
MASK = masking.mask()


@pytest.fixture
def rated(store, agent):
    """Two messages with the same secret, each with comments that quote it."""
    store.append_many(
        agent,
        [{"role": "user", "content": [{"type": "text", "text": f"It is {SECRET}."}]}] * 2,
    )
    rows = list(SessionMessage.objects.order_by("message_id"))
    for row in rows:
        store.feedback.save(row.pk, -1, comment=f"It said {SECRET} to me.")
        store.feedback.save(row.pk, 1, comment="Nothing wrong here.", source="reviewer")
        store.feedback.save(row.pk, 0, source="judge")
    return rows


def comments(message: SessionMessage) -> list[str]:
    rows = MessageFeedback.objects.filter(message=message.pk).order_by("pk")
    return [str(row.comment) for row in rows]


def test_a_whole_message_is_redacted_with_all_comments_on_it(rated):
    first, second = rated
    scope = WholeMessage(first.pk)
    preview = redact(first.session_id, scope, reason="asked", dry_run=True)
    done = redact(first.session_id, scope, reason="asked", expected=preview.digest)

    assert comments(first) == [MASK, MASK, ""]
    assert comments(second) == [f"It said {SECRET} to me.", "Nothing wrong here.", ""]
    assert (done.messages, done.states, done.total) == (1, 2, 3)
    found = [(hit.place.kind, hit.before) for hit in preview.hits if hit.place.kind == "feedback"]
    assert found == [("feedback", f"It said {SECRET} to me."), ("feedback", "Nothing wrong here.")]
    assert not any(hit.before for hit in done.hits)
    # The ratings stay, and the audit event names the message.
    assert sorted(row.value for row in MessageFeedback.objects.filter(message=first.pk)) == [
        -1,
        0,
        1,
    ]
    assert AuditEvent.objects.get(action="redacted").target == first.pk
    assert redact(first.session_id, scope, reason="again").total == 0


@pytest.mark.parametrize(
    "scope",
    [
        lambda key: Find(SECRET, message=key),
        lambda key: Find("planted[a-z]+", pattern=True, message=key),
        lambda key: Span(key, ("content", 0, "text"), 6, 6 + len(SECRET)),
    ],
    ids=["find", "pattern", "span"],
)
def test_what_is_removed_from_a_message_is_removed_from_comments_on_it(rated, scope):
    first, second = rated
    redact(first.session_id, scope(first.pk), reason="asked")

    assert comments(first) == [f"It said {MASK} to me.", "Nothing wrong here.", ""]
    assert SECRET in comments(second)[0]


def test_a_block_is_removed_where_a_comment_quotes_it(rated):
    first, _second = rated
    MessageFeedback.objects.filter(message=first.pk, source="user").delete()
    redact(first.session_id, Block(first.pk, ("content", 0)), reason="asked")

    assert comments(first) == ["Nothing wrong here.", ""]


def test_the_session_is_searched_with_all_comments(rated):
    first, second = rated
    done = redact(first.session_id, Find(SECRET), reason="asked")

    assert done.total == 4
    for row in (first, second):
        assert comments(row)[0] == f"It said {MASK} to me."
    assert SECRET not in str(list(MessageFeedback.objects.values()))


def test_detectors_search_comments_on_a_message(store, rated):
    first, _second = rated
    store.feedback.save(first.pk, -1, comment="Write to ada@example.org.")
    redact(first.session_id, Detect(["email"], message=first.pk), reason="asked")

    assert comments(first)[0] == "Write to [REDACTED:EMAIL]."


def test_comments_on_copies_in_forks_are_redacted_too(store, rated):
    first, _second = rated
    fork = store.sessions.fork(store.get("session-1"))
    copy = SessionMessage.objects.get(session=fork.id, message_id=0)
    assert comments(copy) == []
    store.feedback.save(copy.pk, -1, comment=f"Again {SECRET}!")

    redact(first.session_id, WholeMessage(first.pk), reason="asked", descendants=True)

    assert comments(copy) == [MASK]


def test_a_comment_that_was_written_after_the_preview_is_redacted_too(store, rated):
    first, _second = rated
    scope = WholeMessage(first.pk)
    redact(first.session_id, scope, reason="asked")
    store.feedback.save(first.pk, -1, comment=f"Why is {SECRET} gone?", source="late")
    redact(first.session_id, scope, reason="asked again")

    assert comments(first) == [MASK, MASK, "", MASK]


def test_under_legal_hold_a_comment_is_not_overwritten(rated):
    first, _second = rated
    Session.objects.update(legal_hold=True)
    before = list(MessageFeedback.objects.values())
    with pytest.raises(LegalHoldError, match="legal hold"):
        redact(first.session_id, WholeMessage(first.pk), reason="asked")
    assert list(MessageFeedback.objects.values()) == before
