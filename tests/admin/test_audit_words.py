"""What an audit event's details say to people."""

from __future__ import annotations

import pytest

from django_agent_sessions.admin.audit_descriptions import describe_details


@pytest.mark.parametrize(
    ("details", "words"),
    [
        (
            {"page": "messages", "messages": 50, "first": "a", "last": "b"},
            "conversation, 50 messages",
        ),
        ({"page": "messages", "messages": 1}, "conversation, 1 message"),
        ({"page": "redact", "hits": 2}, "preview of a redaction, 2 places"),
        ({"page": "state", "column": "metadata"}, "stored state, metadata"),
        ({"format": "jsonl", "messages": 0}, "as JSON Lines, 0 messages"),
        ({"found": 3}, "3 sessions found"),
        (
            {"messages": 2, "states": 1, "hits": 3, "kinds": {"EMAIL": 2, "NAMED": 1}},
            "2 messages, 1 title, state or other row, 3 places, of which EMAIL 2, named text 1",
        ),
        ({"labels_added": 1, "labels_removed": 2}, "1 label added, 2 labels removed"),
        ({"state": "in_review"}, "in review"),
        ({"assignee": "grace", "user_id": "7"}, "assigned to grace"),
        ({"assignee": "", "user_id": ""}, "assigned to nobody"),
        ({"note": "0190"}, ""),
        ({}, ""),
    ],
)
def test_details_are_said_in_words(details, words):
    assert describe_details(details) == words


def test_what_was_found_in_a_session_are_messages():
    assert (
        describe_details({"found": 1, "first": "a", "last": "a"}, within=True) == "1 message found"
    )


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({"page": "another", "colour": "red"}, "page another, colour red"),
        ({"messages": "many", "found": None, "hits": True}, "messages many, found None, hits True"),
        ({"page": ["x"], "format": {"a": 1}}, "page x, format a 1"),
        ({"kinds": ["x", "y"]}, "kinds x, y"),
        ({"100%": "%(count)s"}, "100% %(count)s"),
        ("text", "text"),
        (None, "None"),
        ([1, {"a": [2]}], "1, a 2"),
    ],
)
def test_details_that_nobody_here_wrote_are_shown_as_they_stand(details, words):
    assert describe_details(details) == words
