"""Run the contract kit with each minor release of the SDKs that the package supports.

``make sdk-versions`` installs them one after the other into an environment of their own. The
newest releases are those of ``uv.lock``, with which all other tests run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".cache" / "sdks"

RELEASES = {
    "strands-agents": (
        *("1.43.0", "1.44.0", "1.45.0", "1.46.0", "1.47.0", "1.48.0", "1.50.2", "1.51.0"),
        *("1.52.0", "1.53.0", "1.54.0", "1.55.1", "1.56.0", "1.57.2", "1.58.1", "1.59.0"),
        *("1.60.0", "1.61.1"),
    ),
    "openai-agents": ("0.17.8", "0.18.3", "0.19.4", "0.20.0", "0.21.1", "0.22.3", "0.23.1"),
}
KITS = {
    "strands-agents": "tests/adapters/strands/test_contract.py::TestManager",
    "openai-agents": "tests/adapters/openai_agents/test_contract.py::TestSession",
}
BESIDE = {("openai-agents", "0.17.8"): ["openai<2.41"]}
"""What a release needs beside it: 0.17 allows versions of openai with which its runs fail."""

DATABASE = ROOT / ".cache" / "test-databases" / "sdk_versions"
"""The folder of the one database of all runs: to make it takes as long as the kit."""


def main() -> int:
    failed = []
    shutil.rmtree(DATABASE, ignore_errors=True)
    DATABASE.mkdir(parents=True)
    for distribution, releases in RELEASES.items():
        for release in releases:
            print(f"{distribution} {release}: ", end="", flush=True)
            if not run(distribution, release):
                failed.append(f"{distribution} {release}")
    shutil.rmtree(DATABASE)
    print(f"failed: {', '.join(failed)}" if failed else "every release passed")
    return 1 if failed else 0


def run(distribution: str, release: str) -> bool:
    """Installs a release, runs the kit on SQLite, and prints its last line, or all if it fails."""
    beside = BESIDE.get((distribution, release), [])
    steps = (
        [
            *(
                sys.executable,
                "-m",
                "uv",
                "pip",
                "install",
                "--quiet",
                "--python",
                str(ENVIRONMENT),
            ),
            *(f"{distribution}=={release}", *beside),
        ],
        [
            *(str(ENVIRONMENT / "bin" / "python"), "-m", "pytest", "-q", "-m", "in_process"),
            *("--reuse-db", KITS[distribution]),
        ],
    )
    quick = {
        **os.environ,
        **{"TEST_DATABASE": "sqlite", "TEST_DATABASE_NAME": DATABASE.name},
        "HYPOTHESIS_PROFILE": "quick",
    }
    for step in steps:
        done = subprocess.run(
            step,
            cwd=ROOT,
            env=quick,
            text=True,
            check=False,
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
        )
        if done.returncode:
            print(f"failed\n{done.stdout}", flush=True)
            return False
    print(done.stdout.splitlines()[-1], flush=True)
    return True


if __name__ == "__main__":
    raise SystemExit(main())
