"""Rename module-level names and methods everywhere they are used.

    python -m maintenance.renames TABLE.tsv …

A line of a table is ``module:Name<TAB>NewName`` or ``module:Class.member<TAB>new_member``; what
follows is for people. A member is renamed wherever it is an attribute, so its old name must belong
to that class and its subclasses alone.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

from .rewrite import Plan, Rewriter, Source


def attributes_of_others() -> set[str]:
    """Return what objects have that are used everywhere: a rename by name alone would hit them."""
    import asyncio
    import concurrent.futures
    import contextlib
    import datetime
    import html.parser
    import logging
    import sqlite3
    import threading

    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure()
        django.setup()
    from django import forms, http
    from django.core.files.storage import Storage
    from django.core.paginator import Page
    from django.db import models
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.test import Client
    from rest_framework import fields, pagination, serializers, views, viewsets

    kinds = [
        models.QuerySet, models.Manager, models.Model, models.Q, str, bytes, dict, list, set, tuple,
        int, memoryview, Path, threading.Thread, threading.Event, threading.Condition,
        asyncio.Future, asyncio.Task, asyncio.AbstractEventLoop, concurrent.futures.Executor,
        http.HttpRequest, http.HttpResponse, views.APIView, viewsets.ModelViewSet,
        serializers.Serializer, fields.Field, pagination.CursorPagination, re.Match, re.Pattern,
        datetime.datetime, datetime.timedelta, logging.Logger, Storage, Client, Page, forms.Form,
        BaseDatabaseWrapper, sqlite3.Connection, sqlite3.Cursor, contextlib.ExitStack,
        html.parser.HTMLParser, ast.AST,
    ]  # fmt: skip
    return {name for kind in kinds for name in dir(kind)}


ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("django_agent_sessions", "tests", "benchmarks", "example_project", "docs", ".ci")


class Renames:
    """The tables, and what of them can be done."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], str] = {}
        self.members: dict[str, tuple[str, str]] = {}

    def read(self, path: Path) -> None:
        for line in path.read_text().splitlines():
            fields = line.split("\t")
            if len(fields) < 2 or line.startswith("#") or ":" not in fields[0]:
                continue
            module, _, name = fields[0].strip().partition(":")
            new = fields[1].strip().rpartition(".")[2]
            if "." in name:
                owner, _, member = name.rpartition(".")
                self.members[member] = (new, f"{module}:{owner}")
            elif name:
                self.names[module, name] = new


FOREIGN = attributes_of_others()


def definitions(sources: list[Source]) -> dict[str, set[str]]:
    """Return the classes that define each member."""
    found: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                for child in ast.walk(node):
                    if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        found[child.name].add(f"{source.module}:{node.name}")
                    elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                        found[child.target.id].add(f"{source.module}:{node.name}")
                    elif (
                        isinstance(child, ast.Attribute)
                        and isinstance(child.ctx, ast.Store)
                        and ast.unparse(child.value) == "self"
                    ):
                        found[child.attr].add(f"{source.module}:{node.name}")
    return found


def is_module(source: Source, node: ast.expr, known: set[str]) -> bool:
    """Return whether an expression is a name that an import binds to a module."""
    if not isinstance(node, ast.Name):
        return False
    for statement, scope in source.imports:
        for alias in statement.names:
            if (alias.asname or alias.name) == node.id and (
                scope is source.scopes.get(id(node), (None,))[0]
            ):
                if isinstance(statement, ast.Import):
                    return True
                return f"{source.target(statement)}.{alias.name}" in known
    return False


def rename_members(
    sources: list[Source], members: dict[str, tuple[str, str]], known: set[str]
) -> None:
    fields = {
        child.target.id
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
        for child in node.body
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name)
    }
    for source in sources:
        for node in ast.walk(source.tree):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in members
                and not is_module(source, node.value, known)
            ):
                _, stop = source.span(node)
                source.edits[stop - len(node.attr), stop] = members[node.attr][0]
            elif isinstance(node, ast.ClassDef):
                for child in node.body:
                    if (
                        isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
                        and child.name in members
                    ):
                        start = source.offset(child.lineno, child.col_offset)
                        pattern = re.compile(rf"def\s+({child.name})\b")
                        match = pattern.search(source.text, start)
                        assert match
                        source.edits[match.span(1)] = members[child.name][0]
                    elif (
                        isinstance(child, ast.AnnAssign)
                        and isinstance(child.target, ast.Name)
                        and child.target.id in members
                    ):
                        source.edits[source.span(child.target)] = members[child.target.id][0]
            elif isinstance(node, ast.Call):
                callee = ast.unparse(node.func).rpartition(".")[2]
                for keyword in node.keywords:
                    if keyword.arg in members and keyword.arg in fields:
                        new, owner = members[keyword.arg]
                        if callee in ("replace", "_replace", "cls", owner.rpartition(":")[2]):
                            start = source.offset(keyword.lineno, keyword.col_offset)
                            source.edits[start, start + len(keyword.arg)] = new


def main(arguments: list[str]) -> int:
    """Rename; print what was left out, and why."""
    renames = Renames()
    for table in arguments:
        renames.read(Path(table))
    plan = Plan({}, renames.names)
    rewriter = Rewriter(ROOT, [f for f in FOLDERS if (ROOT / f).exists()], plan)
    by_module = rewriter.by_module
    for (module, name), new in list(renames.names.items()):
        source = by_module.get(module)
        if source is None or name not in source.bound[source.tree]:
            print(f"not found: {module}:{name}")
            plan.names.pop((module, name), None)
        elif new in source.bound[source.tree]:
            print(f"taken: {module}:{name} -> {new}")
            plan.names.pop((module, name), None)
    found = definitions(rewriter.sources)
    members = {}
    for member, (new, owner) in renames.members.items():
        owners = {o for o in found.get(member, set()) if o.startswith("django_agent_sessions")}
        if member in FOREIGN:
            print(f"an attribute of others too: {owner}.{member} -> {new}")
        elif owners != {owner}:
            print(f"member of {sorted(owners)}: {owner}.{member} -> {new}")
        elif new in found:
            print(f"taken by {sorted(found[new])}: {owner}.{member} -> {new}")
        else:
            members[member] = (new, owner)
    for source in rewriter.sources:
        rewriter.rewrite(source)
    rename_members(rewriter.sources, members, rewriter.known)
    for source in rewriter.sources:
        rewriter.save(source)
        references(source, plan, members)
    if members:
        pattern = re.compile(rf"\.({'|'.join(members)})\b")
        for path in sorted((ROOT / "django_agent_sessions" / "templates").rglob("*.html")):
            text = path.read_text()
            changed = pattern.sub(lambda match: "." + members[match[1]][0], text)
            if changed != text:
                path.write_text(changed)
    print("\n".join(rewriter.messages))
    return 0


def references(source: Source, plan: Plan, members: dict[str, tuple[str, str]]) -> None:
    """Follow the renames in the roles of docstrings."""
    local = {name: new for (module, name), new in plan.names.items() if module == source.module}
    local |= {name: new for name, (new, _) in members.items()}
    if not local:
        return
    text = source.path.read_text()
    pattern = re.compile(
        rf"(:\w+:`~?(?:[\w.]+\.)?|``)({'|'.join(map(re.escape, local))})(\(\))?(`)"
    )
    changed = pattern.sub(lambda m: m[1] + local[m[2]] + (m[3] or "") + m[4], text)
    if changed != text:
        source.path.write_text(changed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
