"""A process on the database of one size, asked by lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from benchmarks import postgresql


class Process:
    """Runs ``benchmarks.scale.worker`` on a database, which is created if it is to be loaded."""

    def __init__(self, name: str, messages: int, *options: str) -> None:
        self.name = name
        if "--load" in options:
            postgresql.create(name)
        search = {"SCALE_SEARCH": "1"} if "--pages" in options else {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scale.worker", str(messages), *options],
            env={**os.environ, "SCALE_DATABASE": name, **search},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **asked: Any) -> Any:
        """Have it do something, and wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        """Wait for its next line; the first one comes when the database is loaded."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self.name} ended; see above")
        return json.loads(line)

    def close(self, *, keep: bool = False) -> None:
        """End it, and drop its database."""
        self._process.kill()
        self._process.wait()
        if not keep:
            postgresql.drop(self.name)
