"""Processes whose asyncio or threads were patched by a library."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connections

from django_agent_sessions.models import Session
from tests.processes import start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


def run(library: str, sdk: str) -> tuple[str, str]:
    """Returns what the process printed and logged."""
    connections.close_all()
    out, err = start("tests.contexts.patched", library, sdk).communicate(timeout=60)
    assert out, err
    return out, err


def test_under_nest_asyncio_a_sync_tool_joins_where_it_is_declared(sdk):
    printed, logged = run("nest_asyncio", sdk.name)
    found: list[dict[str, Any]] = json.loads(printed)

    assert found[0]["users"] == ["ada"]
    assert "joined()" in logged
    assert found[1]["users"] == ["ada", "bob"]
    assert "ada, bob" in found[1]["said"]
    assert [each["left"] for each in found] == [0, 0]


def test_under_gevent_the_first_use_raises_an_error_that_names_what_works(sdk):
    printed, _ = run("gevent", sdk.name)

    assert "gevent" in printed
    assert "gthread" in printed
    assert not Session.objects.exists()
