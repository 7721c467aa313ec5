"""Each promise names tests that exist."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from .processes import ROOT

PROMISES: dict[str, dict[str, Any]] = tomllib.loads(
    (ROOT / "maintenance" / "promises.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_names_tests_that_exist(promise):
    assert PROMISES[promise]["tests"]
    for test in PROMISES[promise]["tests"]:
        path, _, name = test.partition("::")
        source = (ROOT / path).read_text()
        assert re.search(rf"^ *(async )?def {name}\(", source, re.MULTILINE), test
