"""Whoever reads that a warning is not heeded reads why."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("django_agent_sessions", "example_project", "tests", "benchmarks", "docs", ".ci")
UNHEEDED = re.compile(r"# (noqa|type: ignore)\b.*")
WITH_REASON = re.compile(r"# (noqa: [A-Z0-9, ]+ - \w|type: ignore\[[a-z, -]+\] +# \w)")


def test_each_unheeded_warning_of_linter_and_types_has_its_reason_beside_it():
    bare = [
        f"{file.relative_to(ROOT)}:{number}: {found[0]}"
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if (found := UNHEEDED.search(line)) and not WITH_REASON.match(found[0])
    ]

    assert bare == []
