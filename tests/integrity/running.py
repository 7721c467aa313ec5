"""Running the command, and reading what it says."""

from __future__ import annotations

import io
import json
from typing import Any

from django.core.management import CommandError, call_command


def check(*arguments: object) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Runs it for programs; what was found, and the summary."""
    out = io.StringIO()
    code = 0
    try:
        call_command(
            "agent_sessions_check",
            *map(str, arguments),
            "--grace=0",
            "--format=json",
            stdout=out,
            stderr=io.StringIO(),
        )
    except CommandError as error:
        code = error.returncode
    *found, last = map(json.loads, out.getvalue().splitlines())
    summary = last["summary"]
    assert code == int(summary["left"] > 0)
    return found, summary


def codes(*arguments: object) -> list[str]:
    """What was found, by code."""
    return [finding["code"] for finding in check(*arguments)[0]]


def told(*arguments: object) -> str:
    """What it prints for people; it must be content with what there is."""
    out = io.StringIO()
    call_command("agent_sessions_check", *map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()
