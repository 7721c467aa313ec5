"""The built documentation: its inventory, pages and anchors."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from collections import defaultdict
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path

from tests.processes import ROOT

# The name, domain and role of an object in Sphinx's inventory.
_OBJECT = re.compile(r"^(.+?) (\w+):([\w-]+) -?\d+ (\S*) ", re.MULTILINE)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids.update(value for key, value in attrs if key in ("id", "name") and value)
        self.targets.update(value for key in ("href", "src") if (value := found.get(key)))


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if (built := folder.with_name("built")).exists():
            return
        trees = str(folder.with_name("doctrees"))
        command = ["-W", "-q", "-b", "html", "-d", trees, str(ROOT / "docs"), str(folder)]
        # In a process of its own, because Sphinx and its extensions use what they deprecate.
        subprocess.run([sys.executable, "-m", "sphinx", *command], check=True, cwd=ROOT)
        built.touch()

    @cached_property
    def objects(self) -> dict[str, set[str]]:
        """The names of what has an entry, by kind: ``py``, ``setting``, ``check`` and so on."""
        raw = (self.folder / "objects.inv").read_bytes().split(b"\n", 4)[4]
        found: dict[str, set[str]] = defaultdict(set)
        for name, domain, role, _ in _OBJECT.findall(zlib.decompress(raw).decode()):
            found["py" if domain == "py" and role != "module" else role].add(name)
        return found

    @cached_property
    def pages(self) -> dict[str, _Page]:
        found = {}
        for path in self.folder.rglob("*.html"):
            page = found[path.relative_to(self.folder).as_posix()] = _Page()
            page.feed(path.read_text(encoding="utf-8"))
        return found
