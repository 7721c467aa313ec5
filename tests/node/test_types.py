"""Types for TypeScript, made from the OpenAPI document by a program that many use."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.rest.openapi import FILE

from . import running


def test_a_typed_client_of_the_document_compiles_under_strict_rules(node_modules, tmp_path):
    shutil.copytree(running.HERE / "types", tmp_path, dirs_exist_ok=True)
    node(
        node_modules / "openapi-typescript" / "bin" / "cli.js",
        FILE,
        "--output",
        "api.d.ts",
        at=tmp_path,
    )
    node(node_modules / "typescript" / "bin" / "tsc", "--project", ".", at=tmp_path)


def node(program: Path, *arguments: object, at: Path) -> None:
    done = subprocess.run(
        ["node", "--no-warnings", str(program), *map(str, arguments)],
        cwd=at,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
