"""A test that leaves another codec than it found fails, and changes none of those after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_agent_sessions.content import codec
from tests.conftest import codec_guard
from tests.sealed import ToyCodec


@pytest.fixture
def found() -> codec.Codec | None:
    return codec.installed()


def test_a_codec_that_is_left_fails_the_test_and_is_gone_after_it(found) -> None:
    guard: Iterator[None] = codec_guard()
    next(guard)
    codec.install(ToyCodec())

    with pytest.raises(pytest.fail.Exception, match="ToyCodec"):
        next(guard)

    assert codec.installed() is found
