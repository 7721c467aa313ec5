"""Record the facts of a commit, and list what a later commit lost.

python -m maintenance.compare record [--tree DIR] [--trips SCRIPT] [--size SCRIPT] FILE.json
python -m maintenance.compare diff BEFORE.json AFTER.json [--gone maintenance/gone.toml]

``diff`` exits with 1 if anything is gone or changed without a reason in ``gone.toml``. Its keys are
shell patterns (``"TestOld::*"``); a renamed test, or ``"TestOld::*" = "TestNew::*"``, is in
``[renamed]``. Trips and size are printed, and never a failure.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .record import record

Facts = Mapping[str, Any]


class Differences:
    """What differs between two records, with the reasons that are given for it.

    Args:
        reasons: The sections of ``gone.toml``.
    """

    def __init__(self, reasons: Mapping[str, Mapping[str, str]]) -> None:
        self.reasons = reasons
        self.used: set[tuple[str, str]] = set()
        self.unexplained = 0

    def note(self, section: str, key: str, what: str) -> None:
        """Print a difference with its reason, or count it as unexplained."""
        given = self.reasons.get(section, {})
        pattern = key if key in given else next((p for p in given if fnmatchcase(key, p)), None)
        if pattern is None or not given[pattern].strip():
            self.unexplained += 1
            print(f"  NO REASON  {key}: {what}")
        else:
            self.used.add((section, pattern))
            print(f"  explained  {key}: {what} ({given[pattern]})")

    def tests(self, before: Facts, after: Facts) -> None:
        """Compare sentences; a definition that moved to another file is no difference."""
        print(f"tests: {_told(before['collected'])} before, {_told(after['collected'])} after")
        for database in before["collected"].keys() - after["collected"].keys():
            self.note("tests", f"database {database}", "its tests were not recorded")
        expected: dict[str, list[int]] = defaultdict(list)
        origins: dict[str, list[str]] = defaultdict(list)
        for sentence, counts in before["tests"].items():
            name = sentence if sentence in after["tests"] else self._renamed(sentence)
            expected[name] += _counts(counts)
            origins[name].append(sentence)
        for name, counts in sorted(expected.items()):
            there = _counts(after["tests"].get(name, []))
            counts.sort(reverse=True)
            kept = len(there) >= len(counts) and all(
                now >= then for then, now in zip(counts, there, strict=False)
            )
            if not kept:
                what = f"{_sum(counts)} before, {_sum(there)} after" if there else "gone"
                for sentence in origins[name]:
                    self.note("tests", sentence, what)
        print(f"  {len(after['tests'].keys() - expected.keys())} sentences are new")

    def _renamed(self, sentence: str) -> str:
        given = self.reasons.get("renamed", {})
        for old, new in given.items():
            prefix = old.removesuffix("*")
            if sentence == old or (old != prefix and sentence.startswith(prefix)):
                self.used.add(("renamed", old))
                return new.removesuffix("*") + sentence.removeprefix(prefix)
        return sentence

    def statements(self, before: Facts, after: Facts) -> None:
        """Compare how many statements and transactions each operation takes."""
        print(f"statements: {len(before)} operations before, {len(after)} after")
        for name, then in before.items():
            now = after.get(name)
            if now is None:
                self.note("statements", name, "not recorded")
                continue
            for what in ("statements", "transactions"):
                if then[what] != now[what]:
                    shapes = f"\n    {'; '.join(then['shapes'])}\n    {'; '.join(now['shapes'])}"
                    self.note("statements", name, f"{then[what]} → {now[what]} {what}{shapes}")

    def openapi(self, before: Facts, after: Facts) -> None:
        """Compare the documents' paths, parameters, statuses and schemas."""
        then, now = _flat(before), _flat(after)
        print(f"openapi: {len(then)} values before, {len(now)} after")
        for key in sorted(then.keys() | now.keys()):
            if then.get(key) != now.get(key):
                self.note("openapi", key, f"{then.get(key)} → {now.get(key)}")

    def public(self, before: Facts, after: Facts) -> None:
        """Compare published names; a name in another module is printed only."""
        print(f"public names: {len(before)} before, {len(after)} after")
        for name, places in before.items():
            if name not in after:
                self.note("public", name, f"no longer published (was in {', '.join(places)})")
            elif not set(places) & set(after[name]):
                print(f"  moved      {name}: {', '.join(places)} → {', '.join(after[name])}")

    def unused(self) -> None:
        """Print reasons that explain nothing."""
        for section, given in self.reasons.items():
            for key in given:
                if (section, key) not in self.used:
                    print(f"unused in [{section}]: {key}")


def _counts(value: Any) -> list[int]:
    return [value] if isinstance(value, int) else list(value)


def _sum(counts: list[int]) -> str:
    return " + ".join(map(str, counts))


def _told(totals: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} on {database}" for database, count in totals.items())


def _flat(value: Any, key: str = "") -> dict[str, str]:
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    found: dict[str, str] = {}
    for name, one in parts:
        where = f"{key} {name}".strip()
        nested = isinstance(one, dict) or (
            isinstance(one, list) and any(isinstance(inner, dict) for inner in one)
        )
        found |= _flat(one, where) if nested and one else {where: json.dumps(one)}
    return found


def _figures(what: str, before: Facts, after: Facts) -> None:
    print(f"{what}:")
    for name in before.keys() | after.keys():
        then, now = before.get(name, {}), after.get(name, {})
        figures = (f"{key} {then.get(key)} → {now.get(key)}" for key in {**then, **now})
        print(f"  {name}: {', '.join(figures)}")


def diff(before: Facts, after: Facts, reasons: Mapping[str, Mapping[str, str]]) -> int:
    """Print all differences; return the exit status."""
    print(f"{before['commit']} → {after['commit']}")
    found = Differences(reasons)
    found.tests(before, after)
    for section in ("statements", "openapi", "public"):
        getattr(found, section)(before[section], after[section])
    for section in ("trips", "size"):
        if section in before and section in after:
            _figures(section, before[section], after[section])
    found.unused()
    print(f"{found.unexplained} differences without a reason")
    return 1 if found.unexplained else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m maintenance.compare")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("--tree", type=Path, default=Path())
    recording.add_argument("--trips", type=Path)
    recording.add_argument("--size", type=Path)
    recording.add_argument("file", type=Path)
    comparing = commands.add_parser("diff")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--gone", type=Path, default=Path(__file__).with_name("gone.toml"))
    given = parser.parse_args()
    if given.command == "record":
        facts = record(given.tree.resolve(), given.trips, given.size)
        text = json.dumps(facts, indent=0, ensure_ascii=False, separators=(",", ":"))
        given.file.write_text(text + "\n", encoding="utf-8")
        return 0
    before, after = (json.loads(path.read_text("utf-8")) for path in (given.before, given.after))
    return diff(before, after, tomllib.loads(given.gone.read_text("utf-8")))


if __name__ == "__main__":
    sys.exit(main())
