"""Import the store's private modules through its public doors; runs after the moves."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STORE = "django_agent_sessions.store"
DOORS = {
    "_base": "locking",
    "_redaction": "contents",
    "_rows": "contents",
    "_statement_sizes": "contents",
    "_snapshot_variants": "contents",
    "_offload": "contents",
    "_mask_on_write": "contents",
    "_objects": "snapshots",
    "_agent_snapshots": "snapshots",
    "_snapshot_documents": "snapshots",
    "_snapshot_records": "snapshots",
    "_snapshot_finding": "snapshots",
    "_imported": "importing",
    "_importing": "importing",
    "_agents": "",
    "_branch_steps": "",
    "_session_reading": "",
    "_branch_names": "",
}
IMPORT = re.compile(rf"from {STORE}\.(_\w+) import (\([^)]*\)|[^\n(]+)")


HEADS = {
    "locking": None,
    "contents": "What services that change content use: rows, epochs, sizes, snapshot variants.",
    "snapshots": None,
    "importing": "The store that imports whole sessions, and what an imported message may have.",
}


def write_door(door: str, modules: dict[str, set[str]]) -> None:
    """Add the re-exports to a door; make it where there is none."""
    folder = ROOT / "django_agent_sessions" / "store"
    imports = [f"from .{m} import {', '.join(sorted(names))}" for m, names in modules.items()]
    names = set().union(*modules.values())
    if not door:
        path = folder / "__init__.py"
        text = path.read_text()
        (folder / "_store.py").write_text(
            text.replace('__all__ = ["SessionStore"]\n', "").replace(
                text[: text.index("from __future__")], '"""The store of sessions."""\n\n'
            )
        )
        for other in sorted(folder.glob("*.py")):
            other.write_text(
                other.read_text().replace(
                    "from . import SessionStore", "from ._store import SessionStore"
                )
            )
        head = text[: text.index("from ._agents")]
        imports.append("from ._store import SessionStore")
        names |= {"SessionStore"}
        path.write_text(head + "\n".join(imports) + "\n\n__all__ = " + listed(names))
        return
    path = folder / f"{door}.py"
    text = path.read_text() if path.exists() else ""
    if not text:
        text = f'"""{HEADS[door]}"""\n\nfrom __future__ import annotations\n\n'
    own = re.findall(r"^(?:class|def) ([A-Za-z]\w+)", text, re.MULTILINE)
    lines = text.split("\n")
    last = max(n for n, line in enumerate(lines) if line.startswith("from ") or line == "")
    at = max((n for n, line in enumerate(lines) if line.startswith("from ")), default=last) + 1
    lines[at:at] = [*imports, "", "__all__ = " + listed(names | set(own))]
    path.write_text("\n".join(lines))


def listed(names: set[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in sorted(names)) + "]\n"


def main() -> int:
    """Rewrite the imports, and print what each door has to export."""
    exported: dict[str, dict[str, set[str]]] = {}

    def through(match: re.Match[str]) -> str:
        module, names = match.groups()
        door = DOORS[module]
        for name in re.findall(r"\w+", names):
            exported.setdefault(door, {}).setdefault(module, set()).add(name)
        return f"from {STORE}{'.' + door if door else ''} import {names}"

    for folder in ("django_agent_sessions", "tests", "benchmarks", "example_project", "docs"):
        for path in sorted((ROOT / folder).rglob("*.py")) + sorted((ROOT / folder).rglob("*.md")):
            if path.parent.name == "store" and folder == "django_agent_sessions":
                continue
            text = path.read_text()
            changed = IMPORT.sub(through, text)
            if changed != text:
                path.write_text(changed)
    for door, modules in exported.items():
        write_door(door, modules)
    return 0


if __name__ == "__main__":
    sys.exit(main())
