"""The measurement can be run: on short conversations, on SQLite, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from xml.etree import ElementTree

import pytest

from benchmarks.budgets import judge
from benchmarks.measure import Figures
from benchmarks.plain_ways import MECHANISMS
from benchmarks.report import BEGIN, END, THEMES, write
from benchmarks.tables import DASH
from tests.processes import ROOT, unmeasured


@pytest.mark.process
def test_a_quick_run_prints_a_row_for_every_store():
    # Without Strands' S3SessionManager, whose server takes seconds.
    stores = ("SessionStore", "DjangoStorage", "OpenAI", "FileSessionManager")
    wanted = [part for name in stores for part in ("--store", name)]
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--database", "sqlite", *wanted],
        cwd=ROOT,
        env=unmeasured(),
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert run.returncode == 0, run.stderr
    rows = {line.split(" | ")[0].rstrip() for line in run.stdout.splitlines()}
    for store in ("raw sqlite3, WAL", "SessionStore", "OpenAI DjangoSession"):
        assert f"| {store}" in rows
    assert str(ROOT) not in run.stdout


@pytest.mark.process
def test_a_database_of_the_first_schema_is_upgraded_and_taken_back_in_use():
    run = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.upgrades"),
            *("--database", "sqlite"),
            "--messages=500",
        ],
        cwd=ROOT,
        env=unmeasured(),
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert run.returncode == 0, run.stderr
    assert "| back to 0001_initial " in run.stdout
    assert "rows as before, after all migrations and after the way back: pass" in run.stdout


def test_a_budget_is_kept_up_to_its_multiple_of_the_other_store():
    raw = Figures(seconds={"latest": 0.001})

    def verdict(seconds):
        ours = Figures({"latest": seconds})
        measured = {"raw sqlite3, in a thread": raw, "SessionStore": ours}
        (found,) = (verdict for verdict in judge("sqlite", measured) if verdict.kept is not None)
        return found.kept

    assert verdict(0.0019)
    assert not verdict(0.0021)


def test_a_first_message_is_held_against_an_append_of_the_same_store():
    def kept(store, seconds):
        measured = {store: Figures({"append 0": seconds, "append some": 0.001})}
        (found,) = (verdict for verdict in judge("sqlite", measured) if verdict.kept is not None)
        return found.kept

    assert kept("SessionStore", 0.0019)
    assert not kept("SessionStore", 0.0021)
    assert kept("OpenAI DjangoSession", 0.0029)
    assert not kept("OpenAI DjangoSession", 0.0031)


def test_a_budget_against_several_stores_is_against_the_best_of_them():
    peers = {"agentic-django": 0.010, "LangGraph PostgresSaver": 0.002, "SessionStore": 0.003}
    measured = {name: Figures({"latest": seconds}) for name, seconds in peers.items()}

    (verdict,) = (verdict for verdict in judge("postgresql", measured) if verdict.kept is not None)

    assert verdict.against.startswith("LangGraph PostgresSaver, the fastest of 2 (not measured: ")
    assert not verdict.kept


def test_a_budget_without_its_figures_is_said_to_be_not_measured():
    verdicts = list(judge("sqlite", {}))

    assert verdicts
    assert {verdict.kept for verdict in verdicts} == {None}


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_each_mechanism_is_where_it_is_named_and_can_be_replaced(mechanism):
    with mechanism.replace():
        pass

    assert (ROOT / "django_agent_sessions" / mechanism.file).is_file()
    page = (ROOT / "ARCHITECTURE.md").read_text()
    assert f"| {mechanism.name} " in page
    assert f"`{mechanism.file}`" in page


IN_CHARTS = ("1,000 there", "50 at once (messages/s)", "restore 1,000", "latest 20 of 10,000")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("database", ["PostgreSQL", "SQLite"])
def test_a_chart_names_each_store_for_each_figure_of_the_page(database, theme):
    """The published charts, because Matplotlib is in the environment of `make bench` only."""
    page = (ROOT / "docs" / "discussions" / "performance.md").read_text().split(END)[0]
    section = re.split(r"^### ", page.split(f"### {database} ")[1], flags=re.M)[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line[:2] == "| "]
    rows = [[cell.strip() for cell in line] for line in lines]
    measured: Counter[str] = Counter()
    for store, *cells in rows:
        if store == "store":
            columns = cells
        for column, cell in zip(columns, cells, strict=True):
            measured[store.removesuffix(f", {database}")] += column in IN_CHARTS and cell != DASH
    del measured["store"]

    chart = ROOT / "docs" / "images" / f"bench-{database.lower()}-{theme}.svg"
    document = ElementTree.parse(chart)  # noqa: S314 - our own
    texts = Counter(element.text for element in document.iter())

    assert len(measured) >= 10
    assert min(measured.values()) >= 1
    assert {store: texts[store] for store in measured} == measured


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
