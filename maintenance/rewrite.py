"""Rewrite a tree of Python files for modules that move and module-level names that change.

Every import, every use of a name that an import or a definition binds in its scope, and every
dotted path in texts and in other files follows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Scope = ast.AST
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass
class Plan:
    """What changes: modules by their full names, and names as (module, name)."""

    modules: Mapping[str, str]
    names: dict[tuple[str, str], str] = field(default_factory=dict)

    def module(self, name: str) -> str:
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            moved = self.modules.get(".".join(parts[:length]))
            if moved is not None:
                return ".".join([moved, *parts[length:]])
        return name


class Source:
    """A Python file, its scopes and the edits that it needs."""

    def __init__(self, path: Path, module: str | None, known: set[str]) -> None:
        self.path = path
        self.module = module
        self.is_package = path.name == "__init__.py"
        self.known = known
        self.text = path.read_text()
        self.tree = ast.parse(self.text)
        self.edits: dict[tuple[int, int], str] = {}
        self._starts = [0]
        for line in self.text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._lines = self.text.split("\n")
        self.bound: dict[Scope, set[str]] = {}
        self.uses: list[tuple[ast.AST, str, Scope]] = []
        self.imports: list[tuple[ast.Import | ast.ImportFrom, Scope]] = []
        self._globals: dict[Scope, set[str]] = {}
        self._bind(self.tree, self.tree)
        self._resolve(self.tree, [self.tree])
        self.scopes = {id(node): (scope, name) for node, name, scope in self.uses}

    def offset(self, line: int, column: int) -> int:
        text = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(text)

    def span(self, node: Any) -> tuple[int, int]:
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno, node.end_col_offset),
        )

    def target(self, node: ast.ImportFrom) -> str:
        """Return the absolute name of the module that an import names."""
        if not node.level:
            return node.module or ""
        assert self.module is not None
        parts = self.module.split(".")
        base = parts[: len(parts) - node.level + int(self.is_package)]
        return ".".join([*base, *([node.module] if node.module else [])])

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        names = self.bound.setdefault(scope, set())
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(child.name)
                for outer in [*child.decorator_list, *getattr(child, "bases", [])]:
                    self._bind_expression(outer, scope)
                self._bind_inner(child)
            elif isinstance(child, (ast.Lambda, *COMPREHENSIONS)):
                self._bind_inner(child)
            else:
                self._bind_one(child, scope, names)
                self._bind(child, scope)

    def _bind_expression(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            self._bind_inner(node)
        else:
            self._bind(node, scope)

    def _bind_inner(self, node: ast.AST) -> None:
        names = self.bound.setdefault(node, set())
        arguments = getattr(node, "args", None)
        if isinstance(arguments, ast.arguments):
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            every += [a for a in (arguments.vararg, arguments.kwarg) if a]
            names.update(a.arg for a in every)
        self._bind(node, node)

    def _bind_one(self, child: ast.AST, scope: Scope, names: set[str]) -> None:
        if isinstance(child, ast.Name) and isinstance(child.ctx, (ast.Store, ast.Del)):
            names.add(child.id)
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            self.imports.append((child, scope))
            names.update(a.asname or a.name.split(".")[0] for a in child.names)
        elif isinstance(child, ast.ExceptHandler) and child.name:
            names.add(child.name)
        elif isinstance(child, (ast.Global, ast.Nonlocal)):
            self._globals.setdefault(scope, set()).update(child.names)
        elif isinstance(child, (ast.MatchAs, ast.MatchStar)) and child.name:
            names.add(child.name)

    def _resolve(self, node: ast.AST, scopes: list[Scope]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Name):
                self.uses.append((child, child.id, self.scope_of(child.id, scopes)))
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.uses.append((child, child.name, self.scope_of(child.name, scopes)))
            if child in self.bound:
                self._resolve_scope(child, scopes)
            else:
                self._resolve(child, scopes)

    def _resolve_scope(self, node: Any, scopes: list[Scope]) -> None:
        """Resolve what belongs to the scope around in it, and the body in its own."""
        for part in [
            *getattr(node, "decorator_list", []),
            *getattr(node, "bases", []),
            *getattr(node, "keywords", []),
        ]:
            self._resolve_tree(part, scopes)
        if isinstance(node, FUNCTIONS):
            a = node.args
            for argument in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]:
                if argument and argument.annotation:
                    self._resolve_tree(argument.annotation, scopes)
            for default in [*a.defaults, *a.kw_defaults]:
                if default:
                    self._resolve_tree(default, scopes)
            returns = getattr(node, "returns", None)
            if returns is not None:
                self._resolve_tree(returns, scopes)
            body = node.body if isinstance(node.body, list) else [node.body]
            for statement in body:
                self._resolve_tree(statement, [*scopes, node])
        elif isinstance(node, ast.ClassDef):
            for statement in node.body:
                self._resolve_tree(statement, [*scopes, node])
        else:
            self._resolve(node, [*scopes, node])

    def _resolve_tree(self, node: ast.AST, scopes: list[Scope]) -> None:
        wrapper = ast.Module(body=[], type_ignores=[])
        wrapper.body = [node]  # type: ignore[list-item] # only walked
        self._resolve(wrapper, scopes)

    def scope_of(self, name: str, scopes: list[Scope]) -> Scope:
        for depth in range(len(scopes) - 1, -1, -1):
            scope = scopes[depth]
            if isinstance(scope, ast.ClassDef) and depth != len(scopes) - 1:
                continue
            if name in self._globals.get(scope, ()):
                continue
            if name in self.bound[scope]:
                return scope
        return self.tree


def module_of(path: Path, root: Path) -> str:
    parts = list(path.relative_to(root).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def python_files(root: Path, folders: Iterable[str]) -> Iterator[Path]:
    for folder in folders:
        place = root / folder
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            if not any(part in {"__pycache__", "node_modules"} for part in path.parts):
                yield path


class Rewriter:
    """Rewrites a checkout as a plan says."""

    def __init__(self, root: Path, folders: Iterable[str], plan: Plan) -> None:
        self.root, self.plan = root, plan
        paths = list(python_files(root, folders))
        known = {module_of(path, root) for path in paths}
        self.sources = [Source(path, module_of(path, root), known) for path in paths]
        self.known = known
        self.by_module = {source.module: source for source in self.sources}
        self.messages: list[str] = []
        self._follow_exports()

    def _follow_exports(self) -> None:
        """A module that imports a name under the same name exports it: it is renamed there too."""
        names = self.plan.names
        before = -1
        while before != len(names):
            before = len(names)
            for source in self.sources:
                for node, scope in source.imports:
                    if scope is not source.tree or isinstance(node, ast.Import):
                        continue
                    target = source.target(node)
                    for alias in node.names:
                        new = names.get((target, alias.name))
                        if new and not alias.asname and source.module:
                            names.setdefault((source.module, alias.name), new)

    def run(self) -> None:
        for source in self.sources:
            self.rewrite(source)
        for source in self.sources:
            self.save(source)

    def rewrite(self, source: Source) -> None:
        renamed: dict[tuple[Scope, str], str] = {}
        modules: dict[tuple[Scope, str], str] = {}
        for (module, name), new in self.plan.names.items():
            if module == source.module:
                renamed[source.tree, name] = new
        for statement, scope in source.imports:
            self._rewrite_import(source, statement, scope, renamed, modules)
        for (scope, old), new in renamed.items():
            if new in source.bound[scope] and new != old:
                self.messages.append(f"{source.path}: {old} -> {new} is bound already")
            inner = [s for s in source.bound if s is not scope and new in source.bound[s]]
            users = {id(s) for n, name, s in source.uses if name == old and s is scope}
            if inner and users:
                self.messages.append(f"{source.path}: {new} (was {old}) is also a local name")
        for use, name, scope in source.uses:
            replacement = renamed.get((scope, name))
            if replacement and replacement != name:
                self._rename(source, use, name, replacement)
        for node in ast.walk(source.tree):
            self._attribute(source, node, modules)
        self._exports(source, renamed)

    def _rename(self, source: Source, node: Any, name: str, new: str) -> None:
        if isinstance(node, ast.Name):
            source.edits[source.span(node)] = new
            return
        start = source.offset(node.lineno, node.col_offset)
        match = re.compile(rf"(?:async\s+def|def|class)\s+({name})\b").search(source.text, start)
        assert match, (source.path, name)
        source.edits[match.span(1)] = new

    def _exports(self, source: Source, renamed: dict[tuple[Scope, str], str]) -> None:
        for node in source.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                for item in ast.walk(node.value):
                    new = renamed.get((source.tree, str(getattr(item, "value", ""))))
                    if isinstance(item, ast.Constant) and new:
                        source.edits[source.span(item)] = f'"{new}"'

    def _attribute(self, source: Source, node: ast.AST, modules: Mapping[Any, str]) -> None:
        """Rename ``module.name`` and ``setattr(module, "name", …)``."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            target = self._module_named(source, node.value, modules)
            new = target and self.plan.names.get((target, node.attr))
            if new:
                _, stop = source.span(node)
                source.edits[stop - len(node.attr), stop] = new
        if isinstance(node, ast.Call) and len(node.args) >= 2:
            first, second = node.args[:2]
            if isinstance(first, ast.Name) and isinstance(second, ast.Constant):
                target = self._module_named(source, first, modules)
                new = target and self.plan.names.get((target, str(second.value)))
                if new:
                    source.edits[source.span(second)] = f'"{new}"'

    def _module_named(self, source: Source, node: ast.Name, modules: Any) -> str | None:
        used = source.scopes.get(id(node))
        found: str | None = modules.get(used) if used else None
        return found

    def _rewrite_import(
        self, source: Source, node: Any, scope: Scope, renamed: Any, modules: Any
    ) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname and alias.name in self.known:
                    modules[scope, alias.asname] = alias.name
            return  # the dotted paths are replaced with all others
        target = source.target(node)
        if target not in self.known and not any(
            f"{target}.{alias.name}" in self.known for alias in node.names
        ):
            return
        groups: dict[str, list[str]] = {}
        for alias in node.names:
            whole = f"{target}.{alias.name}"
            local = alias.asname or alias.name
            if whole in self.known and not self._is_attribute(target, alias.name):
                parent, _, leaf = self.plan.module(whole).rpartition(".")
                modules[scope, local] = whole
                shown = leaf
                if alias.asname and alias.asname != leaf:
                    shown = f"{leaf} as {alias.asname}"
                elif leaf != local:
                    renamed[scope, local] = leaf
                groups.setdefault(parent, []).append(shown)
            else:
                new = self.plan.names.get((target, alias.name), alias.name)
                shown = f"{new} as {alias.asname}" if alias.asname else new
                if not alias.asname and new != alias.name:
                    renamed[scope, alias.name] = new
                groups.setdefault(self.plan.module(target), []).append(shown)
        indent = " " * node.col_offset
        statements = [
            f"from {self._spelled(source, parent, node)} import {', '.join(names)}"
            for parent, names in groups.items()
        ]
        source.edits[source.span(node)] = f"\n{indent}".join(statements)

    def _is_attribute(self, target: str, name: str) -> bool:
        """A package may export a name that one of its modules has too."""
        source = self.by_module.get(target)
        return (
            source is not None
            and name in source.bound[source.tree]
            and not any(
                isinstance(node, ast.ImportFrom)
                and source.target(node) == target
                and name in [alias.name for alias in node.names]
                for node, _ in source.imports
            )
        )

    def _spelled(self, source: Source, parent: str, node: ast.ImportFrom) -> str:
        """Keep an import relative where both ends are in one package, as before."""
        assert source.module is not None
        own = self.plan.module(source.module)
        package = own if source.is_package else own.rpartition(".")[0]
        top = package.split(".")[0]
        if not node.level or package == top == "django_agent_sessions":
            return parent
        if parent == package:
            return "."
        if parent.startswith(package + "."):
            return "." + parent[len(package) + 1 :]
        if top != "django_agent_sessions" and parent.split(".")[0] == top:
            up = package
            dots = "."
            while up and not (parent == up or parent.startswith(up + ".")):
                up = up.rpartition(".")[0]
                dots += "."
            if up:
                return dots + parent[len(up) + 1 :]
        return parent

    def save(self, source: Source) -> None:
        pieces: list[str] = []
        text, position = source.text, len(source.text)
        for (start, stop), new in sorted(source.edits.items(), reverse=True):
            pieces.append(dotted(text[stop:position], self.plan, self.known))
            pieces.append(new)
            position = start
        pieces.append(dotted(text[:position], self.plan, self.known))
        result = "".join(reversed(pieces))
        if result != source.text:
            source.path.write_text(result)


def dotted(text: str, plan: Plan, known: set[str]) -> str:
    """Replace the full dotted paths and file paths of what has moved."""

    def name(match: re.Match[str]) -> str:
        whole = match.group(0)
        parts = whole.split(".")
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            if module in known or module in plan.modules:
                rest = parts[length:]
                if rest and (module, rest[0]) in plan.names:
                    rest[0] = plan.names[module, rest[0]]
                return ".".join([plan.module(module), *rest])
        return whole

    def file(match: re.Match[str]) -> str:
        path, slash = match.group(1), match.group(2)
        module = path.replace("/", ".")
        if module not in known:
            return match.group(0)
        return plan.module(module).replace(".", "/") + slash

    text = re.sub(r"\bdjango_agent_sessions(?:\.\w+)+", name, text)
    text = re.sub(r"\btests(?:\.\w+)+", name, text)
    text = re.sub(r"\b(django_agent_sessions(?:/\w+)+)(\.py|/|\b)", file, text)
    return re.sub(r"\b(tests(?:/\w+)+)(\.py|/|\b)", file, text)


IMPORT = re.compile(r"^(\s*)from (django_agent_sessions[\w.]*) import ([\w, ]+)$", re.MULTILINE)


def page(text: str, plan: Plan, known: set[str]) -> str:
    """Rewrite a page of documentation: the imports of its examples, and all dotted paths."""

    def imports(match: re.Match[str]) -> str:
        indent, target, names = match.groups()
        groups: dict[str, list[str]] = {}
        for name in names.split(", "):
            whole = f"{target}.{name}"
            if whole in known:
                parent, _, leaf = plan.module(whole).rpartition(".")
                groups.setdefault(parent, []).append(leaf)
            else:
                new = plan.names.get((target, name), name)
                groups.setdefault(plan.module(target), []).append(new)
        return "\n".join(
            f"{indent}from {parent} import {', '.join(names)}" for parent, names in groups.items()
        )

    pieces, position = [], 0
    for match in IMPORT.finditer(text):
        pieces += [dotted(text[position : match.start()], plan, known), imports(match)]
        position = match.end()
    return "".join([*pieces, dotted(text[position:], plan, known)])
