"""Record the facts of a checkout: its tests, OpenAPI document, SQL statements and public names."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = "django_agent_sessions"
DATABASES = ("sqlite", "postgresql", "mariadb")
TEXT = {"description", "summary", "title", "example", "examples", "tags", "externalDocs"}
"""Keywords of an OpenAPI document that do not change what a client sends or receives."""
NAMED = {"properties", "schemas", "paths", "responses", "headers", "securitySchemes", "mapping"}
"""Keywords whose keys are names, so that a field that is called ``title`` is kept."""
DIRECTIVE = re.compile(r"^\s*\.\. (auto\w+|currentmodule|module):: *([\w.]+)", re.M)
IMPORT = re.compile(rf"from ({PACKAGE}[\w.]*) import (\([^)]*\)|[^\n]+)")


def record(tree: Path, trips: Path | None, size: Path | None) -> dict[str, Any]:
    """Record all facts of a checkout.

    Args:
        tree: The checkout; it has a ``.venv`` of its own.
        trips: A script that prints how many files a request enters, if that is recorded too.
        size: A script that prints the lines of the package as JSON, if that is recorded too.
    """
    totals, tests = all_tests(tree)
    facts: dict[str, Any] = {
        "commit": run(tree, "git", "describe", "--always", "--dirty", "--exclude=*").strip(),
        "collected": totals,
        "tests": tests,
        "statements": json.loads(python(tree, Path(__file__).with_name("statements.py"))),
        "openapi": structure(json.loads(next(tree.glob("tests/**/openapi.json")).read_text())),
        "public": public_names(tree),
    }
    if trips:
        line = r"^(\S.*?) +(\d+) files +(\d+) functions +(\d+) moves +(\d+) back"
        rows = re.findall(line, "".join(python(tree, trips) for _ in range(3)), re.M)
        # Threads race for a few calls; the largest moves come first, so that the smallest stay.
        rows.sort(key=lambda row: -int(row[3]))
        facts["trips"] = {
            name: dict(zip(("files", "functions", "moves", "back"), map(int, figures), strict=True))
            for name, *figures in rows
        }
    if size:
        facts["size"] = json.loads(python(tree, size, "--json"))["all"]
    return facts


def run(tree: Path, *command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=tree,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}")
    return done.stdout


def python(tree: Path, script: Path, *arguments: str) -> str:
    return run(tree, tree / ".venv/bin/python", script.resolve(), *arguments)


def all_tests(tree: Path) -> tuple[dict[str, int], dict[str, Any]]:
    """Count the tests of each sentence, whichever file they are in.

    Returns:
        The number of tests that each database collects; and for each sentence, ``Class::function``,
        how many parametrised tests each definition of it has, the largest first.
    """
    largest: Counter[tuple[str, str]] = Counter()
    totals = {}
    for database in DATABASES:
        if database == "mariadb" and not list(tree.glob(".venv/lib/*/site-packages/MySQLdb")):
            print(
                "MariaDB: mysqlclient is not installed, its tests are not recorded", file=sys.stderr
            )
            continue
        nodes = collected(tree, database)
        totals[database] = sum(nodes.values())
        largest |= nodes
    found = defaultdict(list)
    for (_, sentence), count in largest.items():
        found[sentence].append(count)
    for sentence in not_collected(tree, {file for file, _ in largest}):
        found[sentence].append(1)
    return totals, {
        sentence: counts[0] if len(counts) == 1 else sorted(counts, reverse=True)
        for sentence, counts in sorted(found.items())
    }


def collected(tree: Path, database: str) -> Counter[tuple[str, str]]:
    """Count what pytest collects: by file and sentence, whatever part runs it."""
    environment = {"TEST_DATABASE": database, "PYTHONHASHSEED": "0"}
    if database == "postgresql":
        # With it the tests of a replica are collected; no server is asked.
        environment["REPLICAPORT"] = "1"
    options = ["--collect-only", "-q", "-m", "", "-o", "addopts=--import-mode=importlib"]
    printed = run(tree, tree / ".venv/bin/python", "-m", "pytest", *options, **environment)
    nodes = re.findall(r"^([\w/.-]+\.py)::([\w:]+)", printed, re.M)
    return Counter((file, sentence) for file, sentence in nodes)


def not_collected(tree: Path, files: set[str]) -> Iterator[str]:
    """Yield the tests of other modules, skipped or started by a test, and those in JavaScript."""
    for path in (tree / "tests").rglob("*.py"):
        if str(path.relative_to(tree)) in files:
            continue
        for node in ast.parse(path.read_text()).body:
            inside = isinstance(node, ast.ClassDef) and node.name.startswith("Test")
            functions = getattr(node, "body", []) if inside else [node]
            for function in functions:
                name = getattr(function, "name", "")
                if name.startswith("test_"):
                    yield f"{node.name}::{name}" if isinstance(node, ast.ClassDef) else name
    for path in (tree / "tests").rglob("*.test.mjs"):
        if "node_modules" not in path.parts:
            for _, sentence in re.findall(r"\btest\(\s*([\"'`])(.+?)\1,", path.read_text()):
                yield f"node: {sentence}"


def structure(value: Any, named: bool = False) -> Any:
    """Reduce an OpenAPI document to what clients depend on.

    Args:
        value: The document, or a part of it.
        named: Whether the part's keys are names, not keywords.
    """
    if isinstance(value, list):
        if all(isinstance(one, dict) and "in" in one for one in value):
            return {f"{one['in']}:{one['name']}": structure(one) for one in value}
        if not any(isinstance(one, dict) for one in value):
            return sorted(value, key=str)
        return [structure(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: structure(one, not named and key in NAMED)
        for key, one in sorted(value.items())
        if named or key not in TEXT
    }


def public_names(tree: Path) -> dict[str, list[str]]:
    """List what the documentation publishes or imports, with the modules that it is in."""
    found: dict[str, set[str]] = defaultdict(set)
    modules, whole = set(), set()
    for page in [*(tree / "docs").rglob("*.md"), *tree.glob("*.md")]:
        if "_build" in page.parts:
            continue
        text, current = page.read_text(), ""
        for kind, target in DIRECTIVE.findall(text):
            if kind in ("automodule", "currentmodule", "module"):
                current = target
                modules.add(target)
                if kind == "automodule":
                    whole.add(target)
                continue
            dotted = target if target.startswith(PACKAGE) else f"{current}.{target}"
            module = dotted
            while source(tree, module) is None and "." in module:
                module = module.rpartition(".")[0]
            modules.add(module)
            found[dotted.removeprefix(f"{module}.")].add(module)
        for module, names in IMPORT.findall(text):
            modules.add(module)
            for name in re.findall(r"(\w+)(?: as \w+)?", re.sub(r"#.*|[()]", "", names)):
                found[name].add(module)
    for module in modules:
        for name in published(tree, module, module in whole):
            found[name].add(module)
    return {name: sorted(places) for name, places in sorted(found.items())}


def source(tree: Path, module: str) -> Path | None:
    path = tree / module.replace(".", "/")
    both = (path / "__init__.py", path.with_suffix(".py"))
    return next((one for one in both if one.exists()), None)


def published(tree: Path, module: str, whole: bool) -> list[str]:
    """Return a module's ``__all__``; without one, its definitions if it is documented whole."""
    path = source(tree, module)
    body = ast.parse(path.read_text()).body if path else []
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    defined = [node.name for node in body if isinstance(node, kinds)]
    return [name for name in defined if whole and not name.startswith("_")]
