"""A wall clock that is wrong when it is told to, for processes that are started with it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """The clock of all processes that have its environment."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library = library
        self._file = file
        self.be_wrong_by(0)

    def be_wrong_by(self, seconds: int) -> None:
        """Sets the error of the clock; every process has it from this moment."""
        # In one piece: who reads it meanwhile reads one of both.
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.replace(self._file)

    def environment(self) -> dict[str, str]:
        """Tells what a process must have in its environment when it is started."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file)}


def made(place: Path) -> Clock | None:
    """Compiles a clock, where there is a C compiler."""
    compiler = shutil.which("cc")
    library = place / "clock.so"
    if compiler is None:
        return None
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    return Clock(library, place / "clock")
