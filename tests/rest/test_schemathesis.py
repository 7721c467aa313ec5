"""Requests that schemathesis makes from the OpenAPI document, against a real server.

All its checks: no error of the server, every answer as it is described, what fits the document is
accepted and what does not is refused, no answer without a login, nothing there after it was
deleted, and chains of requests that build on each other's answers. ``tests.rest.fuzzed_run`` is
the same at length, and as somebody who may see everything.
"""

from __future__ import annotations

import pytest

from .fuzzed_data import seeded
from .fuzzed_run import SETTINGS, ask
from .server import Server

pytestmark = pytest.mark.process


@pytest.mark.timeout(400)
def test_every_answer_to_any_request_is_as_the_document_says(transactional_db, tmp_path):
    keys = seeded(6)
    errors = tmp_path / "errors.log"
    with Server(SETTINGS, errors) as server:
        # Its phase of boundary values takes a minute by itself: the long run has it.
        phases = ("--phases", "examples,fuzzing,stateful")
        outcome = ask(server.url, keys, tmp_path, examples=4, options=phases)
    assert outcome.code == 0, outcome.output
    assert errors.read_text() == ""
    assert outcome.requests > 100
    assert not [status for status in outcome.statuses if status >= 500]
    # Not all of it was refused.
    assert outcome.statuses[200] > 20
