"""List the classes that stand for a message or a slice of it.

``python -m maintenance.message_classes`` prints them and their number. Which they are is decided in
``message_classes.toml``; the command exits with 1 if a class that looks like one (see ``looks``) is
missing there, or one that is named there is gone.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_agent_sessions"
ENDINGS = ("Message", "Row", "Rows", "Item", "Payload")
FIELDS = {"message", "payload", "redact_message"}
# Serializers, requests and views are the API's.
ELSEWHERE = {"rest/serializers", "rest/viewsets", "migrations"}


def looks(node: ast.ClassDef) -> bool:
    """Return whether a class may stand for a message: by its name or a field."""
    fields = {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    return node.name.endswith(ENDINGS) or bool(fields & FIELDS)


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield each class of the package as ``path:Name``."""
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        if not any(where.startswith(each) or f"/{each}/" in where for each in ELSEWHERE):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield f"{where}:{node.name}", node


def main() -> int:
    decided = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    named = {where: kind for kind, places in decided.items() for where in places}
    found = defaultdict(list)
    for where, node in classes():
        if where in named:
            found[named.pop(where)].append(where)
        elif looks(node):
            found["undecided"].append(where)
    found["gone"] = list(named)
    print("\n".join(found["message"]))
    print(f"{len(found['message'])} classes stand for a message")
    for kind in ("undecided", "gone"):
        print("".join(f"{kind}: {where}\n" for where in found[kind]), end="")
    return 1 if found["undecided"] or found["gone"] else 0


if __name__ == "__main__":
    sys.exit(main())
