"""Write each call of a store's operation with the part that has it: `store.branches.rewind(…)`.

    python -m maintenance.compose [FILE …]

Rewrites the package, the tests, the benchmarks, the example and the pages. A second run changes
nothing. Receivers are recognized by name (`RECEIVERS`), because methods of SDKs have the same
names; the type checker finds what is left.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "django_agent_sessions", "tests", "benchmarks", "example_project", "docs", "maintenance", ".ci",
)  # fmt: skip
PAGES = ("README.md", "ADDING_AN_ADAPTER.md", "ARCHITECTURE.md", "CONTRIBUTING.md")

PARTS = {
    "sessions": {
        "list_sessions": "list",
        "update": "update",
        "find_external": "find_external",
        "open_external": "open_external",
        "find_agent": "find_with_agent",
        "usage": "usage",
        "fork": "fork",
        "descendants": "descendants",
    },
    "agents": {
        "open_agent": "open",
        "create_agent": "create",
        "read_agent": "find",
        "list_agents": "list",
        "update_agent": "update",
    },
    "multi_agents": {
        "create_multi_agent": "create",
        "read_multi_agent": "find",
        "list_multi_agents": "list",
        "update_multi_agent": "update",
    },
    "messages": {
        "read_message": "find",
        "messages": "list",
        "latest": "latest",
        "positioned_payloads": "positioned",
        "redacted_on_other_branches": "redacted_elsewhere",
        "restore": "restore",
        "next_position": "next_position",
        "positions": "positions",
        "update_message": "update",
        "redact_message": "redact",
        "pop_with_position": "pop",
    },
    "turns": {
        "turns": "list",
        "turn_items": "items",
        "branch_sizes": "sizes",
        "store_turn_cost": "save_cost",
        "turn_costs": "costs",
        "total_cost": "total",
    },
    "branches": {
        "branches": "list",
        "find_branch": "find",
        "create_branch": "create",
        "set_aside": "set_aside",
        "rewind": "rewind",
        "switch_branch": "switch",
        "delete_branch": "delete",
        "common_length": "common_length",
    },
    "snapshots": {
        "take_snapshot": "take",
        "list_snapshots": "list",
        "restore_snapshot": "restore",
    },
}
MOVED = {
    prefix + old: f"{part}.{prefix}{new}"
    for part, names in PARTS.items()
    for old, new in names.items()
    for prefix in ("", "a")
}
RECEIVERS = {"store", "_store", "all"}
MAKERS = {"SessionStore", "store", "store_of", "_store", "__class__"}
"""Names of calls that return a store."""
PROSE = re.compile(rf"\b(store)\.({'|'.join(sorted(MOVED))})\b(?![.\w])(?=\(|`|~)")


def is_store(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id in RECEIVERS
    if isinstance(node, ast.Attribute):
        return node.attr in RECEIVERS
    if isinstance(node, ast.Await):
        return is_store(node.value)
    if isinstance(node, ast.Call):
        name = node.func
        return (isinstance(name, ast.Name) and name.id in MAKERS) or (
            isinstance(name, ast.Attribute) and name.attr in MAKERS
        )
    return False


def calls(tree: ast.AST) -> Iterator[ast.Attribute]:
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and node.attr in MOVED and is_store(node.value)):
            continue
        parent = parents.get(node)
        # `store.messages.list(…)` has moved already.
        if isinstance(parent, ast.Attribute):
            continue
        called = isinstance(parent, ast.Call) and parent.func is node
        if called or node.attr not in PARTS:
            yield node


def code(text: str) -> str:
    lines = text.encode().splitlines(keepends=True)
    ends = [0]
    for line in lines:
        ends.append(ends[-1] + len(line))
    data = text.encode()
    spots = {}
    for node in calls(ast.parse(text)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        spots[ends[node.end_lineno - 1] + node.end_col_offset] = node.attr
    for stop in sorted(spots, reverse=True):
        old = spots[stop]
        data = data[: stop - len(old)] + MOVED[old].encode() + data[stop:]
    return data.decode()


def prose(text: str) -> str:
    return PROSE.sub(lambda match: f"{match[1]}.{MOVED[match[2]]}", text)


def files(names: list[str]) -> Iterator[Path]:
    if names:
        yield from map(Path, names)
        return
    yield from (ROOT / page for page in PAGES)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.suffix in {".py", ".md"}
                and path != Path(__file__)
                and "node_modules" not in path.parts
            ):
                yield path


def main(names: list[str]) -> None:
    for path in files(names):
        text = path.read_text()
        new = prose(code(text) if path.suffix == ".py" else text)
        if new != text:
            path.write_text(new)
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
