"""Fixtures of the tests of ``StorageSessionRepository``: places, and what is in them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.strands.layouts import Bucket, Directory, agent
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture


@pytest.fixture
def place(tmp_path) -> Directory:
    return Directory(tmp_path)


@pytest.fixture(params=["directory", "bucket"])
def damaged(request, tmp_path) -> Any:
    """A place with a conversation, to be damaged."""
    made: Any = (
        Directory(tmp_path)
        if request.param == "directory"
        else Bucket(request.getfixturevalue("bucket"))
    )
    first = agent(made.ours("s"), "One.", "Two.", state={"mood": "good"})
    first("First")
    first("Second")
    return made
