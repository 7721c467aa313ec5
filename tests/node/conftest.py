"""Node's packages, for the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import running


@pytest.fixture(scope="session")
def node_modules() -> Iterator[Path]:
    """The directory of Node's packages; skips, and says why, where they cannot be had."""
    if reason := running.missing():
        if "REQUIRE_CLIENTS" in os.environ:
            pytest.fail(f"The JavaScript clients have to run here: {reason}.")
        pytest.skip(f"The JavaScript clients were not run: {reason}.")
    try:
        yield running.install()
    except running.UnavailableError as error:
        pytest.skip(f"The JavaScript clients were not run: {error}.")
