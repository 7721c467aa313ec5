"""Running JavaScript tests under Node, with the packages that the lock file names.

They are installed once per lock file, below ``.cache/node``; a link beside the tests is where Node
looks for them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache" / "node"
_OLDEST = 20
_PATIENCE = 150
_UNREACHABLE = ("ENOTFOUND", "ECONNREFUSED", "EAI_AGAIN", "ETIMEDOUT", "ENETUNREACH")


class UnavailableError(Exception):
    """The packages are not here and cannot be fetched."""


def missing() -> str | None:
    """Says what is missing for these tests to run, if anything is."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} was not found; install Node {_OLDEST} or newer"
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False)
    version = told.stdout.strip()
    try:
        recent = int(version.lstrip("v").partition(".")[0]) >= _OLDEST
    except ValueError:
        recent = False
    return None if recent else f"Node is {version or 'broken'}, and has to be {_OLDEST} or newer"


def install() -> Path:
    """Installs the packages, unless they are here.

    Returns:
        The directory ``node_modules``.

    Raises:
        UnavailableError: The registry cannot be reached.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        # Other workers of pytest-xdist need them at the same moment.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _installed()


def _installed() -> Path:
    manifests = [HERE / name for name in ("package.json", "package-lock.json")]
    key = hashlib.sha256(b"\0".join(file.read_bytes() for file in manifests)).hexdigest()[:16]
    home = CACHE / key
    if not home.is_dir():
        made = Path(tempfile.mkdtemp(dir=CACHE, prefix="installing-"))
        try:
            for file in manifests:
                shutil.copy(file, made)
            _npm_ci(made)
            # Another run may have been faster.
            if not home.is_dir():
                made.rename(home)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    packages = home / "node_modules"
    _link(HERE / "node_modules", packages)
    return packages


def run(*files: str, **environment: str) -> str:
    """Runs JavaScript tests.

    Args:
        *files: Names of files of this folder.
        **environment: What they are told, such as the address of a server.

    Returns:
        What they printed.

    Raises:
        AssertionError: One of them failed.
    """
    done = subprocess.run(
        ["node", "--no-warnings", "--test", "--test-reporter=spec", *files],
        cwd=HERE,
        env={**os.environ, "NODE_ENV": "test", **environment},
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"node --test {' '.join(files)} failed:\n{output}"
    return output


def _npm_ci(directory: Path) -> None:
    done = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        if any(code in done.stderr for code in _UNREACHABLE):
            raise UnavailableError("npm cannot reach its registry, and the packages are not here")
        raise RuntimeError(f"npm ci failed:\n{done.stderr[-2000:]}")


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.resolve() == target.resolve():
        return
    if link.is_dir() and not link.is_symlink():
        # Somebody ran npm here; it is made again from the lock file.
        shutil.rmtree(link)
    fresh = Path(tempfile.mkdtemp(dir=CACHE, prefix="link-")) / "node_modules"
    fresh.symlink_to(target)
    fresh.replace(link)
    fresh.parent.rmdir()
