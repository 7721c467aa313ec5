"""The AI SDK's ``useChat``, in the component of the documentation, against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.rest.chat.ai_sdk.clients import Browser
from tests.rest.chat.ai_sdk.server import Server

from . import running


@pytest.fixture(scope="module")
def chats(tmp_path_factory, django_db_setup) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("chats")) as server:
        yield server


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("major", ["6", "7"])
def test_the_component_of_the_documentation_talks_with_an_agent(node_modules, chats, ada, major):
    with Browser(chats, ada) as browser:
        running.run(
            "ai-sdk.test.mjs",
            AI_MAJOR=major,
            SERVER=chats.url,
            COOKIES=json.dumps(browser.cookies),
            GATES=str(chats.gates),
        )
