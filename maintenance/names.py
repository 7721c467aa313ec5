"""List public names and module names that the package defines more than once.

``python -m maintenance.names`` exits with 1 if one of them has no reason in ``names.toml``. A name
is a class, function or constant at the top of a module; a folder counts as a module. The keys of
``names.toml`` are shell patterns.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_agent_sessions"


def defined(path: Path) -> Iterator[str]:
    """Yield what a module defines, each name once; imports define nothing."""
    found = set()
    nodes: list[ast.AST] = [*ast.parse(path.read_text("utf-8")).body]
    for node in nodes:
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            nodes += ast.iter_child_nodes(node)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    yield from (name for name in found if not name.startswith("_"))


def definitions() -> dict[str, dict[str, list[str]]]:
    """Return where each name and each module is, by section of ``names.toml``."""
    names, modules = defaultdict(list), defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE)
        if "migrations" in where.parts:
            continue
        module = where.parent if path.stem == "__init__" else where.with_suffix("")
        if module.name:
            modules[module.name].append(str(where))
        for name in defined(path):
            names[name].append(str(where))
    return {"names": names, "modules": modules}


def main() -> int:
    """Print what occurs twice or more; return the exit status."""
    reasons = tomllib.loads(Path(__file__).with_name("names.toml").read_text("utf-8"))
    missing = 0
    for section, found in definitions().items():
        given = dict(reasons.get(section, {}))
        unused = set(given)
        twice = {name: places for name, places in found.items() if len(places) > 1}
        print(f"{section}: {len(twice)} of {len(found)} occur more than once")
        for name, places in sorted(twice.items(), key=lambda one: (-len(one[1]), one[0])):
            pattern = next((one for one in given if fnmatchcase(name, one)), None)
            reason = given[pattern].strip() if pattern else ""
            missing += not reason
            unused.discard(pattern or "")
            print(f"  {name} ×{len(places)}: {reason or 'NO REASON'}")
            if not reason:
                print("".join(f"      {place}\n" for place in places), end="")
        for pattern in sorted(unused):
            print(f"  unused reason: {pattern}")
    print(f"{missing} names without a reason")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
