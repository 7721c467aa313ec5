"""What only looks like something is left alone."""

from __future__ import annotations

import json

import pytest

from django_agent_sessions.content.detectors import available, detect

from .lookalikes import lookalikes


def test_the_corpus_is_not_small():
    assert len(lookalikes()) > 250


@pytest.mark.parametrize("text", [text for _, text in lookalikes()])
def test_no_detector_finds_anything_in_what_only_looks_like_it(text):
    assert detect(text, available()) == []
    assert detect(json.dumps({"text": f"\n{text}\t"}), available()) == []
