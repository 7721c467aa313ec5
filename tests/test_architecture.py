"""What ARCHITECTURE.md says and import-linter cannot check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.processes import ROOT

PACKAGE = ROOT / "django_agent_sessions"
SERVICES = (
    "audit", "blobs", "content", "db", "events", "governance", "integrity", "interchange", "leases",
    "models", "sql", "store", "usage",
)  # fmt: skip
HTTP = ("django.http", "django.shortcuts", "django.views", "rest_framework")
OPTIONAL = {"rest/chat/ai_sdk/run_registry.py"}
"""It connects its own signal, because the API is optional."""
PAGE = (ROOT / "ARCHITECTURE.md").read_text()


def imports(package: str) -> Iterator[tuple[str, str]]:
    """The modules of a package with the names of what they import."""
    for path in sorted((PACKAGE / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                yield str(path.relative_to(PACKAGE)), node.module or ""
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    yield str(path.relative_to(PACKAGE)), alias.name


@pytest.mark.parametrize("package", SERVICES)
def test_services_know_nothing_of_http(package):
    found = [(path, name) for path, name in imports(package) if name.startswith(HTTP)]
    assert found == []


def test_signals_are_connected_in_apps_ready_only():
    signals = re.compile(r"\b(?:pre|post)_\w+\.connect\(|\bconnection_created\.connect\(")
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if signals.search(path.read_text())
    }
    assert found == OPTIONAL | {"apps.py"}


def test_the_store_asks_for_a_legal_hold_where_it_locks_and_where_it_keeps_a_copy_only():
    asks = re.compile(r"\.legal_hold\b|\bmay_remove\(")
    found = {
        path.name for path in (PACKAGE / "store").glob("*.py") if asks.search(path.read_text())
    }
    # A compaction does not remove, but keeps the history, under legal hold.
    assert found == {"locking.py", "_held_copies.py", "_branches.py"}


def test_the_root_has_these_modules_only():
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    assert modules == {"__init__", "apps", "conf", "exceptions", "health", "signals"}


def test_every_package_and_file_that_the_page_names_exists():
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    table = PAGE.partition("## The packages")[2].partition("Further rules")[0]
    assert [name for name in packages - {"migrations"} if f"`{name}" not in table] == []
    files = re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE)
    assert files
    missing = [f for f in files if not (PACKAGE / f).exists() and not (ROOT / f).exists()]
    assert missing == []


OWN_FORMATS = ("adapters/", "rest/chat/assistant_ui/", "interchange/strands_", "content/dialects/")
"""These know the one format that they read or write; all others ask the dialect."""
NAMES_OF_FORMATS = {"STRANDS", "OPENAI", "ASSISTANT_UI"}


def test_a_message_format_is_compared_by_name_only_where_it_is_the_own_one():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if name.startswith(OWN_FORMATS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare | ast.Dict):
                words = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
                words |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
                if words & NAMES_OF_FORMATS and not name.startswith("management/"):
                    found.append((name, node.lineno))
    assert found == []
