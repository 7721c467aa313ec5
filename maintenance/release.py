"""Builds a release into ``dist/`` and checks what would be published: ``make release``.

The wheel, the source distribution and a bill of materials (CycloneDX) of the package with all its
extras, from the lock file, are made twice and have to be equal byte by byte. The checksums and the
bill of materials go into ``build/``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import uuid
import zipfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
DIST, BUILD, AGAIN = ROOT / "dist", ROOT / "build", ROOT / ".cache" / "again"
PACKAGE = "django_agent_sessions"
UNPUBLISHED = {".editorconfig", ".gitignore", ".pre-commit-config.yaml"}


def main() -> int:
    """Run all steps; the first that fails ends the run with what is wrong."""
    if os.environ.get("GITHUB_REF_TYPE") == "tag":
        _check_tag(os.environ["GITHUB_REF_NAME"])
    sums = _built(DIST)
    if again := {name: sum_ for name, sum_ in _built(AGAIN).items() if sums[name] != sum_}:
        sys.exit(f"A second build differs: {', '.join(again)}.")
    materials = _materials()
    if materials != _materials():
        sys.exit("A second bill of materials differs.")
    print("built twice, byte by byte the same")
    _check_contents()
    _run(BIN / "twine", "check", "--strict", *sorted(DIST.glob("django_agent_sessions-*")))
    BUILD.mkdir(exist_ok=True)
    (BUILD / "sbom.cdx.json").write_text(materials, encoding="utf-8")
    print(f"bill of materials: {len(json.loads(materials)['components'])} components")
    lines = [f"{sum_}  {name}\n" for name, sum_ in sums.items()]
    (BUILD / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    print("".join(lines), end="")
    return 0


def _check_tag(tag: str) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if tag != f"v{version}":
        sys.exit(f"The tag {tag} is not v{version}, the version in pyproject.toml.")
    if f"## [{version}]" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        sys.exit(f"CHANGELOG.md has no section [{version}].")


def _run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never", **environment},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def _built(target: Path) -> dict[str, str]:
    for old in target.glob("*"):
        old.unlink()
    moment = str(_committed_at())
    _run(BIN / "uv", "build", "--quiet", "--out-dir", target, SOURCE_DATE_EPOCH=moment)
    files = sorted(target.glob("django_agent_sessions-*"))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _check_contents() -> None:
    """The wheel has the package, the source distribution everything that is tracked."""
    tracked = set(_run("git", "ls-files").split())
    (wheel,) = DIST.glob("*.whl")
    (source,) = DIST.glob("*.tar.gz")
    packed = {
        name for name in zipfile.ZipFile(wheel).namelist() if re.match(f"{PACKAGE}/.*[^/]$", name)
    }
    with tarfile.open(source) as archive:
        members = (member.name for member in archive if member.isfile())
        sources = {name.partition("/")[2] for name in members}
    expected = {name for name in tracked if name.startswith(f"{PACKAGE}/")}
    for what, found, wanted in (
        ("wheel", packed, expected),
        ("source distribution", sources, tracked - UNPUBLISHED),
    ):
        made = {"PKG-INFO", "pyproject.toml.orig"}
        if missing := wanted - found:
            sys.exit(f"Not in the {what}: {', '.join(sorted(missing))}.")
        if unknown := found - wanted - made - UNPUBLISHED:
            sys.exit(f"In the {what}, but not tracked: {', '.join(sorted(unknown))}.")
        print(f"{what}: {len(found)} files")


def _committed_at() -> int:
    return int(_run("git", "log", "-1", "--format=%ct"))


def _materials() -> str:
    materials = json.loads(
        _run(
            *(BIN / "uv", "export", "--quiet", "--locked", "--extra", "all", "--no-default-groups"),
            *("--preview-features", "sbom-export", "--format", "cyclonedx1.5"),
        )
    )
    # uv writes the present time and a random number here.
    moment = datetime.fromtimestamp(_committed_at(), UTC)
    materials["metadata"]["timestamp"] = moment.isoformat().replace("+00:00", "Z")
    commit = _run("git", "rev-parse", "HEAD").strip()
    materials["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_OID, commit).urn
    materials["metadata"]["component"]["pedigree"] = {"commits": [{"uid": commit}]}
    return json.dumps(materials, indent=2) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
