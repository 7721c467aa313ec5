"""Remove docstring sections from objects that the documentation does not publish.

python -m maintenance.prose            # rewrite the package
python -m maintenance.prose --check    # exit 1 and list the objects that still have sections
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_agent_sessions"
SECTION = re.compile(r"^\s*(Args|Returns|Raises|Yields|Attributes):\s*$")
DIRECTIVE = re.compile(r"^\.\. (auto\w+|currentmodule|module|py:currentmodule):: *([\w.]+)")
# Built by hand from the SDKs' documentation pages; Sphinx does not import the SDKs.
ADAPTERS = ("adapters.strands", "adapters.openai_agents")


def published() -> dict[str, set[str] | None]:
    """Return each published object, with its published members; None means all of them."""
    found: dict[str, set[str] | None] = {}
    for page in (ROOT / "docs").rglob("*.md"):
        module, current = "", ""
        for line in page.read_text().splitlines():
            if match := DIRECTIVE.match(line):
                kind, name = match.groups()
                if kind in ("currentmodule", "module", "py:currentmodule"):
                    module = name
                    continue
                current = name if name.startswith("django_agent_sessions") else f"{module}.{name}"
                found[current] = set()
            elif current and line.startswith("   :members:"):
                names = line.partition(":members:")[2].strip()
                found[current] = {name.strip() for name in names.split(",")} if names else None
            elif not line.startswith("   "):
                current = ""
    return found


def adapter_classes() -> set[str]:
    """Return the names of the classes that the adapters export."""
    names: set[str] = set()
    for adapter in ADAPTERS:
        source = (PACKAGE / adapter.replace(".", "/") / "__init__.py").read_text()
        names.update(re.findall(r'^    "(\w+)",$', source, re.MULTILINE))
    return names


def objects(tree: ast.Module) -> Iterator[tuple[str, str | None, ast.AST]]:
    """Yield the name, the owning class if any, and the node of each class and function."""

    def walk(
        node: ast.AST, owner: str | None, inside: bool
    ) -> Iterator[tuple[str, str | None, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield ("" if inside else child.name), owner, child
                yield from walk(
                    child, child.name if owner is None else f"{owner}.{child.name}", inside
                )
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield ("" if inside else child.name), owner, child
                yield from walk(child, owner, True)
            else:
                yield from walk(child, owner, inside)

    yield from walk(tree, None, False)


class Publication:
    """Which objects of which modules are published, whichever module defines them."""

    def __init__(self) -> None:
        self.names: dict[str, set[str] | None] = {}
        self.whole_modules: set[str] = set()
        for path, members in published().items():
            parts = path.split(".")
            if (PACKAGE.parent / "/".join(parts)).is_dir() or (
                PACKAGE.parent / ("/".join(parts) + ".py")
            ).is_file():
                if members is None:
                    self.whole_modules.add(path)
            else:
                self.names[parts[-1]] = members
        self.adapters = adapter_classes()

    def has(self, module: str, owner: str | None, name: str) -> bool:
        if name.startswith("_") or not name:
            return False
        if any(module == whole or module.startswith(whole + ".") for whole in self.whole_modules):
            return True
        if owner is None:
            return name in self.names or (name in self.adapters and ".adapters." in module)
        if owner in self.adapters and ".adapters." in module:
            return True
        if owner in self.names:
            members = self.names[owner]
            return members is None or name in members
        if module.startswith("django_agent_sessions.store.") and "SessionStore" in self.names:
            return owner in store_parts()
        return False


@functools.cache
def store_parts() -> set[str]:
    """Return the classes that SessionStore inherits, found by their names alone."""
    bases: dict[str, list[str]] = {}
    for path in (PACKAGE / "store").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [ast.unparse(base).split("[")[0] for base in node.bases]
    found: set[str] = set()
    waiting = ["SessionStore"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(base for base in bases.get(name, []) if base in bases)
    return found


def without_sections(lines: list[str]) -> list[str]:
    """Return a docstring's lines without its sections, which reach to the end or the next text."""
    kept: list[str] = []
    indent = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    skipping = False
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if SECTION.match(line) and depth == indent:
            skipping = True
        elif skipping and line.strip() and depth <= indent and line.strip() != '"""':
            skipping = False
            kept.append("")
        if not skipping or line.strip() == '"""':
            kept.append(line)
    return kept


def rewrite(path: Path, publication: Publication, *, check: bool) -> list[str]:
    """Rewrite a module; return the unpublished objects that had sections."""
    source = path.read_text()
    lines = source.split("\n")
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    module = module.removesuffix(".__init__")
    edits: list[tuple[int, int, list[str]]] = []
    found: list[str] = []
    for name, owner, node in objects(ast.parse(source)):
        body = node.body  # type: ignore[attr-defined]
        first = body[0] if body else None
        if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
            continue
        if not isinstance(first.value.value, str) or first.end_lineno == first.lineno:
            continue
        assert first.end_lineno is not None
        text = lines[first.lineno - 1 : first.end_lineno]
        if not any(SECTION.match(line) for line in text) or publication.has(module, owner, name):
            continue
        found.append(f"{module}:{owner + '.' if owner else ''}{name or '(inner)'}")
        edits.append((first.lineno - 1, first.end_lineno, compact(without_sections(text))))
    if edits and not check:
        for start, stop, text in sorted(edits, reverse=True):
            lines[start:stop] = text
        path.write_text("\n".join(lines))
    return found


def compact(text: list[str]) -> list[str]:
    """Return a docstring without blank lines at its end, on one line where it fits."""
    closing = text[-1] if text[-1].strip() == '"""' else None
    body = text[:-1] if closing is not None else list(text)
    while body and not body[-1].strip():
        body.pop()
    if closing is None:
        return body
    if len(body) == 1 and len(body[0]) + 3 <= 100:
        return [body[0] + '"""']
    return [*body, closing]


def main(arguments: list[str]) -> int:
    """Rewrite or check the package."""
    publication = Publication()
    check = "--check" in arguments
    found: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if "migrations" not in path.parts:
            found += rewrite(path, publication, check=check)
    print("\n".join(found) if check else f"{len(found)} docstrings were shortened")
    return int(check and bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
