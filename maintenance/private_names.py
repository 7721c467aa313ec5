"""List the private names of other packages that the package uses.

``python -m maintenance.private_names`` prints each name with where it is used, and their number.
Such a name begins with an underscore and is imported from another package, or is read or set on
an object while nothing in this package defines it. ``DOCUMENTED`` are names that Django and Python
document.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_agent_sessions"
DOCUMENTED = {
    *("_meta", "_state", "_default_manager", "_base_manager"),
    *("_asdict", "_make", "_replace", "_fields", "_current_frames"),
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def definitions(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that a module defines: functions, classes, variables, attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            # On another object, it sets what that one's class defines.
            if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
                yield node.attr
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).rpartition(".")[2]


def uses(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Yield each private name that a module uses, its line, and whether it is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            yield node.attr, node.lineno, False
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in {"getattr", "setattr", "hasattr", "delattr"} and len(node.args) > 1:
                name = node.args[1]
                if isinstance(name, ast.Constant) and is_private(str(name.value)):
                    yield str(name.value), node.lineno, False
        elif isinstance(node, ast.ImportFrom) and not node.level:
            path = (node.module or "").split(".")
            if path[0] != PACKAGE.name:
                for part in [*path, *(each.name for each in node.names)]:
                    if is_private(part):
                        yield part, node.lineno, True


def private_names() -> dict[str, list[str]]:
    """Return where each private name of another package is used."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    ours = {name for tree in trees.values() for name in definitions(tree)}
    found = defaultdict(list)
    for path, tree in trees.items():
        for name, line, foreign in uses(tree):
            if foreign or name not in ours | DOCUMENTED:
                found[name].append(f"{path.relative_to(ROOT)}:{line}")
    return dict(sorted(found.items()))


def main() -> int:
    found = private_names()
    for name, places in found.items():
        print(f"{name} ×{len(places)}: {', '.join(places)}")
    print(f"{len(found)} private names of other packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
