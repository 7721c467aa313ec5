"""What the AI SDK's client does by itself, which docs/reference/client-behaviour.md lists."""

from __future__ import annotations

import pytest

from . import running


@pytest.mark.parametrize("major", ["6", "7"])
def test_the_ai_sdk_does_what_the_page_says(node_modules, major):
    running.run("client-behaviour.test.mjs", AI_MAJOR=major)
