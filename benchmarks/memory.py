"""How much memory a restore takes, in a process of its own that does nothing else.

Counted is the resident memory, what the drivers' C code takes included: the peak of the restore
above what the process had before, when it had restored a short conversation already. It needs
Linux, which tells the peak in ``/proc`` and lets a process begin it anew.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .stores import Store

_STATUS, _REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def ask(store: Store, name: str, *, warm: str) -> int | None:
    """Has a conversation restored."""
    from . import settings

    if not _REFERENCES.exists():
        return None
    path = f"{type(store).__module__.rpartition('.')[2]}.{type(store).__qualname__}"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", store.alias, path, name, warm],
        env={
            **os.environ,
            "BENCHMARK_NAME": settings.NAME,
            "BENCHMARK_DIRECTORY": settings.DIRECTORY,
        },
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return int(done.stdout.splitlines()[-1])


async def _restore(alias: str, path: str, name: str, warm: str) -> int:
    from .stores import find

    store = find(path)(alias)
    await store.start()
    await store.restore(warm)
    gc.collect()
    before = _begin()
    found = await store.restore(name)
    peak = read("VmHWM")
    assert len(found)
    # Not stopped: that would take away what others use.
    return peak - before


def _begin() -> int:
    """Lets the peak begin anew."""
    _REFERENCES.write_text("5")
    return read("VmRSS")


def read(name: str) -> int:
    found = re.search(rf"{name}:\s*(\d+) kB", _STATUS.read_text())
    assert found is not None
    return int(found[1]) * 1024


def main() -> None:
    """Restores, and prints the bytes."""
    import django

    django.setup()
    from . import databases

    alias, path, name, warm = sys.argv[1:]
    with databases.used(alias):
        print(asyncio.run(_restore(alias, path, name, warm)), flush=True)
    # Clients that were not closed would complain.
    os._exit(0)


if __name__ == "__main__":
    main()
