"""A long text that was made to keep a detector busy does not: quadratic work would take hours."""

from __future__ import annotations

import pytest

from django_agent_sessions.content.detectors import available, detect

SIZE = 250_000
PIECES = [
    *("a", "1", "-", ":", "(", "\\", "\\n", "a@", "a@a.", "%40", "1 ", "1-", "1.", "1:", "a:"),
    *("4111 ", "DE89 ", "DE89 1", "ssn ", "+1", " +1 415 ", "tel ", "::1 ", "://", "://a:a"),
    *("-----BEGIN ", "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nQUJD\n"),
    *("eyJ", "eyJ.", " eyJhbGciOiJ.", "sk-", " sk-", "AKIA", "xoxb-", ":AA", "Q~", "-us", "sig="),
    *("/api/webhooks/", "token=", "password ", "bearer ", "authorization:", "a\\u0040", "QUJD+/0"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", PIECES)
def test_a_megabyte_of_one_piece_is_looked_through(piece):
    text = piece * (SIZE // len(piece))
    for place in detect(text, available()):
        assert 0 <= place.start < place.end <= len(text)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "start", ["sk-proj-", "eyJ", "Bearer ", "password=", "DE89", "+1", "a@", "://a:"]
)
def test_a_start_without_an_end_is_looked_through(start):
    text = start + "a1" * (SIZE // 2)
    for place in detect(text, available()):
        assert 0 <= place.start < place.end <= len(text)
