"""Management commands, called and in a process of their own."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from django.core.management import call_command
from django.db import transaction

from tests.processes import ROOT

from .chats import said, turns
from .management.commands.converse import Command

pytestmark = pytest.mark.django_db(transaction=True)


def call(*arguments: str) -> list[str]:
    out = io.StringIO()
    call_command(Command(), *arguments, stdout=out)
    return out.getvalue().splitlines()


def manage(*arguments: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "django", "converse", *arguments],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.contexts.settings"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout.splitlines()


@pytest.mark.parametrize("options", [[], ["--asyncio"]], ids=["sync", "asyncio"])
def test_a_command_that_is_called(sdk, options):
    answers = call(sdk.name, "s", "one", "two", *options)

    assert answers == ["You said: one", "You said: two"]
    assert said("s") == turns("one", "two")


@pytest.mark.parametrize("options", [[], ["--asyncio"]], ids=["sync", "asyncio"])
def test_a_command_that_rolls_back_leaves_nothing(sdk, options):
    call(sdk.name, "s", "one", "--undo", *options)
    assert said("s") == []

    with transaction.atomic():
        call(sdk.name, "s", "two", *options)
        assert said("s") == turns("two")
        transaction.set_rollback(True)
    assert said("s") == []


@pytest.mark.process
def test_a_command_in_a_process_of_its_own(sdk):
    assert manage(sdk.name, "s", "one", "two") == ["You said: one", "You said: two"]
    manage(sdk.name, "s", "undone", "--undo", "--asyncio")
    sdk("s").say("three")

    assert said("s") == turns("one", "two", "three")
