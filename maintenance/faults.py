"""Put faults of the past back, one by one, and require that a test finds each of them.

python -m maintenance.faults [NAME …]

A fault is a patch in ``maintenance/past_faults``. Above its diff it has a sentence (what the fault
breaks) and lines ``Test: PATH[::NAME]`` with the tests that must fail. The patches are applied to
a copy of the checkout. Exits with 1 if a patch does not apply or no test fails; adapt the patch if
the code moved.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(__file__).with_name("past_faults")
SECONDS = 600


@dataclass(frozen=True)
class Fault:
    """A patch with the tests that find what it breaks."""

    path: Path
    breaks: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    def applies(self, tree: Path) -> bool:
        """Whether the patch fits the checkout."""
        return self._apply(tree, "--check").returncode == 0

    def outcome(self, tree: Path) -> str:
        """Apply the patch, run its tests, and take it back: ``"found"``, or what is wrong."""
        if self._apply(tree).returncode:
            return "does not apply"
        try:
            options = ("-q", "-x", "--no-header", "--tb=no")
            command = [sys.executable, "-m", "pytest", *options, *self.tests]
            environment = os.environ | {"HYPOTHESIS_PROFILE": "quick"}
            done = subprocess.run(
                command, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS
            )
        finally:
            self._apply(tree, "--reverse")
        # 1: tests failed. Anything else says that they did not run.
        return {0: "NOT FOUND", 1: "found"}.get(done.returncode, f"pytest: {done.returncode}")

    def _apply(self, tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "apply", *options, str(self.path)]
        # Not the repository around it, if the tree lies in one.
        environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)}
        return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)


def faults() -> list[Fault]:
    """Read all patches, by name."""
    found = []
    for path in sorted(FOLDER.glob("*.patch")):
        head = path.read_text(encoding="utf-8").partition("\ndiff --git ")[0]
        lines = [line.strip() for line in head.splitlines() if line.strip()]
        tests = tuple(line.removeprefix("Test: ") for line in lines if line.startswith("Test: "))
        found.append(Fault(path, lines[0], tests))
    return found


def copy_of_the_checkout(into: Path) -> Path:
    """Copy the files that Git lists, with what is not committed, and return the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    tree = into / "checkout"
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the faults that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args(arguments).names
    chosen = [fault for fault in faults() if not names or fault.name in names]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_of_the_checkout(Path(folder))
        for fault in chosen:
            outcome = fault.outcome(tree)
            wrong += outcome != "found"
            print(f"{outcome:16} {fault.name}: {fault.breaks}", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} faults were found by a test")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
