"""What a run shows: tables of what was done, what was broken, and what came of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from .history import Operation, Outcome
from .running import Result

_AFTER = 0.5


def lines(result: Result) -> Iterator[str]:
    """Writes a run down.

    Args:
        result: What came of it.

    Yields:
        Lines of Markdown.
    """
    plan = result.plan
    yield f"## {plan.database}, {plan.seconds:.0f} s, seed {plan.seed}"
    yield ""
    yield "| operation | acknowledged | failed | unknown |"
    yield "|---|--:|--:|--:|"
    counts = Counter((o.kind, o.outcome) for o in result.operations)
    for kind in sorted({o.kind for o in result.operations}):
        figures = " | ".join(f"{counts[kind, outcome]:,}" for outcome in Outcome)
        yield f"| {kind} | {figures} |"
    yield ""
    yield "| fault | times | longest | errors that surfaced |"
    yield "|---|--:|--:|---|"
    surfaced = _surfaced(result)
    kinds = Counter(fault.kind for fault in result.faults)
    for kind, times in sorted(kinds.items()):
        longest = max(f.ended - f.began for f in result.faults if f.kind == kind)
        errors = "; ".join(f"{name} ({n})" for name, n in surfaced[kind].most_common())
        yield f"| {kind} | {times} | {longest:.1f} s | {errors or '–'} |"
    errors = "; ".join(f"{name} ({n})" for name, n in surfaced[""].most_common())
    yield f"| (none at that time) | | | {errors or '–'} |"
    yield ""
    yield from (f"Not tried – {reason}." for reason in result.missing)
    said = sum(len(o.tokens) for o in result.operations if o.acknowledged)
    rows, sessions = len(result.found.rows), len(result.found.sessions)
    yield (
        f"{said:,} messages were acknowledged, {rows:,} rows in {sessions:,} "
        f"sessions are there; {result.explained} positions are free because a pop met an append."
    )
    status, printed = result.integrity
    yield f"check_agent_sessions: {'clean' if not status else 'NOT CLEAN'}"
    yield from (f"    {line}" for line in printed.splitlines()[-30:])
    yield from (f"CRASH: {how} ({times} times)" for how, times in result.crashes.items())
    yield from (f"VIOLATION, {found.kind}: {found.what}" for found in result.violations[:50])
    yield ""
    verdict = "PASSED" if result.passed else f"FAILED, {len(result.violations)} violations"
    yield f"{plan.database}: {verdict} in {result.took:.0f} s (seed {plan.seed})"


def _surfaced(result: Result) -> dict[str, Counter[str]]:
    """Counts errors by the fault at whose time they came."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for operation in result.operations:
        if operation.error is None:
            continue
        at = set(_at_the_time(operation, result)) or {""}
        for kind in at:
            found[kind][f"{operation.kind}: {operation.error}"] += 1
    return found


def _at_the_time(operation: Operation, result: Result) -> Iterator[str]:
    for fault in result.faults:
        # The kill of another writer breaks nothing but what it shared a lock with.
        if fault.kind == "writers killed":
            continue
        if fault.began <= operation.ended and operation.started <= fault.ended + _AFTER:
            yield fault.kind
