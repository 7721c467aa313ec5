"""Markdown tables, and the machine that the figures in them come from."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

import psutil
from tabulate import tabulate

DASH = "–"
_ALIGN = {"l": "left", "r": "right"}


def table(head: Sequence[str], rows: Iterable[Sequence[object]], align: str = "") -> str:
    """Return a Markdown table.

    ``align`` has a letter for each column, ``l`` or ``r``; by default all but the first are
    figures, on the right.
    """
    letters = align or "l".ljust(len(head), "r")
    return tabulate(
        [[str(cell) for cell in row] for row in rows],
        headers=head,
        tablefmt="pipe",
        colalign=[_ALIGN[letter] for letter in letters],
        disable_numparse=True,
    )


def verdict(kept: bool | None, otherwise: str = "") -> str:
    """Return the word for a bound that was kept, missed or not judged."""
    return {True: "pass", False: "**MISS**", None: otherwise}[kept]


def replace_between(page: Path, begin: str, end: str, text: str) -> None:
    """Put text into a page between two marks; raise ValueError if the page has none."""
    before, first, rest = page.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"{page} has no lines {begin} and {end}")
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")


def machine() -> str:
    """Return cores, processor, memory, system and Python, in words."""
    parts = [f"{psutil.cpu_count()} cores", _processor()]
    parts.append(f"{psutil.virtual_memory().total / 2**30:.0f} GiB")
    parts.append(f"{platform.system()} {platform.release().split('-')[0]}")
    parts.append(f"Python {platform.python_version()}")
    return ", ".join(part for part in parts if part)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def versions(packages: Iterable[str]) -> str:
    """Return distributions with their versions."""
    return ", ".join(f"{name} {metadata.version(name)}" for name in sorted(set(packages)))


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.machine())
