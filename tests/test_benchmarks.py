"""The measurement can be run: on short conversations, on SQLite, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.budgets import judge
from benchmarks.measure import Figures
from benchmarks.report import BEGIN, END, write

ROOT = Path(__file__).resolve().parent.parent


def test_a_quick_run_prints_a_row_for_every_store():
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--database", "sqlite"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert run.returncode == 0, run.stderr
    rows = {line.split(" | ")[0] for line in run.stdout.splitlines()}
    for store in ("raw sqlite3, WAL", "SessionStore", "Strands FileSessionManager"):
        assert f"| {store}" in rows
    assert str(ROOT) not in run.stdout


def test_a_budget_is_kept_up_to_its_multiple_of_the_other_store():
    raw = Figures(seconds={"latest": 0.001})

    def verdict(seconds):
        measured = {"raw sqlite3, WAL": raw, "SessionStore": Figures({"latest": seconds})}
        (found,) = judge("sqlite", measured)
        return found.kept

    assert verdict(0.0029)
    assert not verdict(0.0031)


def test_results_replace_those_between_the_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    write(page, "new")

    assert page.read_text() == f"before\n{BEGIN}\n\nnew\n{END}\nafter\n"


def test_a_page_without_marks_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no place")

    with pytest.raises(ValueError, match="has no lines"):
        write(page, "new")

    assert page.read_text() == "no place"
