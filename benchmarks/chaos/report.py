"""What a run shows: tables of what was done, what was broken, and what came of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.tables import DASH, replace_between, table

from .history import Operation, Outcome
from .running import Result

_AFTER = 0.5
_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mariadb": "MariaDB"}


def page(result: Result) -> str:
    """Return a run as Markdown."""
    plan = result.plan
    return "\n\n".join(
        [
            f"### {_NAMES[plan.database]}, {plan.seconds:.0f} seconds, seed {plan.seed}",
            _operations(result),
            _faults(result),
            *(f"Not tried – {reason}." for reason in result.missing),
            _sum(result),
        ]
    )


def details(result: Result) -> Iterator[str]:
    """Writes down what was not as it should be."""
    status, printed = result.integrity
    if status:
        yield from (f"    {line}" for line in printed.splitlines()[-30:])
    yield from (f"CRASH: {how} ({times} times)" for how, times in result.crashes.items())
    yield from (f"VIOLATION, {found.kind}: {found.what}" for found in result.violations[:50])
    plan = result.plan
    verdict = "PASSED" if result.passed else f"FAILED, {len(result.violations)} violations"
    yield f"{plan.database}: {verdict} in {result.took:.0f} s (seed {plan.seed})"


def write(path: Path, result: Result) -> None:
    """Put a run into a page, in the place of the last one on that database."""
    begin, end = (f"<!-- {result.plan.database}: {place} -->" for place in ("begin", "end"))
    replace_between(path, begin, end, page(result))


def _operations(result: Result) -> str:
    """Return how often each operation was acknowledged, failed, or had an unknown outcome."""
    counts = Counter((o.kind, o.outcome) for o in result.operations)
    told = ", ".join(
        f"{kind} {'/'.join(f'{counts[kind, outcome]:,}' for outcome in Outcome)}"
        for kind in sorted({o.kind for o in result.operations})
    )
    return f"Operations ({'/'.join(Outcome)}): {told}."


def _faults(result: Result) -> str:
    """Return the errors that surfaced during each fault, and the faults without any."""
    surfaced = _surfaced(result)
    rows, quiet = [], []
    for kind, times in sorted(Counter(fault.kind for fault in result.faults).items()):
        errors = _errors(surfaced, kind)
        if errors == [DASH, DASH]:
            quiet.append(f"{kind} ({times})")
        else:
            rows.append([f"{kind} ({times})", *errors])
    rows.append(["none at that time", *_errors(surfaced, "")])
    head = ["fault (times)", "errors that surfaced", "in transactions of the caller"]
    without = f"\n\nWithout an error: {', '.join(quiet)}." if quiet else ""
    return f"{table(head, rows, 'lll')}{without}"


def _sum(result: Result) -> str:
    said = sum(len(o.tokens) for o in result.operations if o.acknowledged)
    rows, sessions = len(result.found.rows), len(result.found.sessions)
    redacted = sum(o.kind == "redact" and o.acknowledged and o.hits > 0 for o in result.operations)
    broken = f"{len(result.violations)} promises were broken" if result.violations else ""
    clean = "clean" if not result.integrity[0] else "not clean"
    return (
        f"{said:,} messages were acknowledged and {redacted:,} secrets redacted; {rows:,} messages "
        f"in {sessions:,} sessions are stored. {broken or 'Every promise was kept'}; "
        f"`agent_sessions_check` is {clean}."
    )


def _errors(surfaced: dict[tuple[str, bool], Counter[str]], kind: str) -> list[str]:
    found = [surfaced[kind, joined].most_common() for joined in (False, True)]
    return [", ".join(f"{name} {times:,}" for name, times in errors) or DASH for errors in found]


def _surfaced(result: Result) -> dict[tuple[str, bool], Counter[str]]:
    """Counts errors by the fault at whose time they came, and whether in a transaction."""
    found: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    for operation in result.operations:
        if operation.error is None:
            continue
        joined = operation.kind == "transaction"
        for kind in _at_the_time(operation, result):
            found[kind, joined][operation.error.split(" < ")[0]] += 1
    return found


def _at_the_time(operation: Operation, result: Result) -> set[str]:
    # The kill of another writer breaks nothing but what it shared a lock with.
    others = [fault for fault in result.faults if fault.kind != "writers killed"]
    for after in (0, _AFTER):
        found = {
            fault.kind
            for fault in others
            if fault.began <= operation.ended and operation.started <= fault.ended + after
        }
        if found:
            return found
    return {""}
