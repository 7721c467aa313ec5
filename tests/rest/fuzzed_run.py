"""Schemathesis against a real server: requests of every kind, made from the OpenAPI document.

``python -m tests.rest.fuzzed_run --examples 400 --user root`` is a long run, on a database of its
own, of the kind that ``TEST_DATABASE`` says.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .server import Server

BASE = "/api/"

DOOMED = "doomed"
"""The sessions that may be deleted, among what is there."""

_CHECKS = """
[checks.positive_data_acceptance]
# A pattern that is none, a detector that is not there, half of `start` and `end`, a cursor of
# another list: a body can fit the document and be refused all the same, with a reason.
expected-statuses = ["2xx", "304", "400", "401", "403", "404", "409", "412"]
"""


@dataclass
class Outcome:
    """What came of a run."""

    code: int
    output: str
    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)


SETTINGS = "tests.rest.fuzzed_settings"


def ask(
    url: str,
    keys: Mapping[str, Sequence[str]],
    directory: Path,
    *,
    user: str = "ada",
    examples: int = 10,
    seed: int = 1,
    options: Sequence[str] = (),
) -> Outcome:
    """Runs schemathesis.

    Args:
        url: Where the server is.
        keys: What is there, by the parameters that take it.
        directory: Where to write reports.
        user: Who asks.
        examples: How many requests of a kind there are at most, per operation and phase.
        seed: Chooses the requests.
        options: Further arguments.
    """
    config = directory / "schemathesis.toml"
    config.write_text(_config(keys))
    report = directory / "report.ndjson"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"),
            *(f"{url}{BASE}schema/?format=json", "-H", f"Authorization: Bearer {user}"),
            *("--checks", "all", "--max-examples", str(examples), "--seed", str(seed)),
            # More than one meet in the caches of its generator, which are not made for threads.
            *("--workers", "1"),
            *("--continue-on-failure", "--no-color", "--report-ndjson-path", str(report)),
            *options,
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    outcome = Outcome(done.returncode, done.stdout + done.stderr)
    if report.exists():
        _count(report, outcome)
    return outcome


def _config(keys: Mapping[str, Sequence[str]]) -> str:
    lines = [_CHECKS, "[parameters]"]
    # Most requests are to be about something that is there.
    lines += [_bound(name, name) for name in keys if name != DOOMED]
    # And what is deleted is to be missed by no other request.
    lines += ["[[operations]]", 'include-operation-id = "sessions_delete"']
    lines += ["[operations.parameters]", _bound("path.session", DOOMED)]
    for name, values in keys.items():
        lines += [f'[dictionaries."{name}"]', f"values = {json.dumps(list(values))}"]
    return "\n".join(lines)


def _bound(parameter: str, dictionary: str) -> str:
    return f'"{parameter}" = {{dictionary = "{dictionary}", probability = 0.8}}'


def _count(report: Path, outcome: Outcome) -> None:
    def look(value: Any) -> None:
        if isinstance(value, dict):
            code = value.get("status_code")
            if isinstance(code, int) and "headers" in value:
                outcome.requests += 1
                outcome.statuses[code] += 1
            for item in value.values():
                look(item)
        elif isinstance(value, list):
            for item in value:
                look(item)

    with report.open() as lines:
        for line in lines:
            look(json.loads(line))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--user", choices=["ada", "root"], default="ada")
    parser.add_argument("options", nargs="*", help="for schemathesis, behind --")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

    import django
    from django.test.utils import setup_databases, teardown_databases

    django.setup()
    made = setup_databases(verbosity=0, interactive=False)
    try:
        from .fuzzed_data import seeded

        keys = seeded(given.sessions)
        directory = Path(tempfile.mkdtemp(prefix="schemathesis-"))
        with Server(SETTINGS, directory / "errors.log") as server:
            outcome = ask(
                server.url,
                keys,
                directory,
                user=given.user,
                examples=given.examples,
                seed=given.seed,
                options=given.options,
            )
        print(outcome.output)
        print(f"{outcome.requests} requests: {dict(sorted(outcome.statuses.items()))}")
        print(f"Reports and the server's errors are in {directory}")
    finally:
        teardown_databases(made, verbosity=0)
    sys.exit(outcome.code)


if __name__ == "__main__":
    main()
