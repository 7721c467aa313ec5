"""The check: pure functions that compare what writers were told with what is there."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .history import Operation, Outcome

DELETING = frozenset({"delete"})


@dataclass(frozen=True)
class Row:
    """A message that is there."""

    session: str
    agent: str
    branch: int
    position: int
    copied: bool = False  # of another message, on a branch or in a fork
    tokens: tuple[str, ...] = ()  # in what people read of it


@dataclass(frozen=True)
class Found:
    """What is there at the end."""

    rows: Sequence[Row] = ()
    sessions: frozenset[str] = frozenset()
    states: Mapping[str, str | None] = field(default_factory=dict)
    leaks: Mapping[str, Sequence[str]] = field(default_factory=dict)  # secrets, and where
    broken: Sequence[str] = ()  # what cannot be read, restored or run


@dataclass(frozen=True)
class Violation:
    """A promise that was not kept."""

    kind: str
    what: str


def check(operations: Sequence[Operation], found: Found) -> list[Violation]:
    """Compares a history with what is there."""
    there = Counter(t for row in found.rows if not row.copied for t in row.tokens)
    taken = Counter(o.taken for o in operations if o.acknowledged and o.taken is not None)
    operations = [_settled(operation, there, taken) for operation in operations]
    return [
        *_lost(operations, there, taken),
        *_doubled(there, found.rows),
        *_foreign(operations, found.rows),
        *_done_after_failure(operations, there, taken),
        *_taken_twice(taken, there),
        *_outlived(operations, there),
        *_reordered(operations, found.rows),
        *_gaps(found.rows),
        *_states(operations, found.states),
        *_forks(operations, found.sessions),
        *_leaked(operations, found.leaks),
        *(Violation("broken", what) for what in found.broken),
    ]


def _settled(operation: Operation, there: Counter[str], taken: Counter[str]) -> Operation:
    """Takes what is proved to be done for acknowledged, where all is done or nothing."""
    evident = any(there[token] or taken[token] for token in operation.tokens)
    if operation.together and operation.outcome is Outcome.UNKNOWN and evident:
        return replace(operation, outcome=Outcome.ACKNOWLEDGED)
    return operation


def _lost(
    operations: Sequence[Operation], there: Counter[str], taken: Counter[str]
) -> Iterator[Violation]:
    deletions = _by_session(o for o in operations if o.kind in DELETING and o.possible)
    pops = Counter(
        o.session for o in operations if o.kind == "pop" and o.outcome is Outcome.UNKNOWN
    )
    missing: dict[str, list[str]] = defaultdict(list)
    for operation in operations:
        if not operation.acknowledged:
            continue
        for token, session in operation.tokens.items():
            if there[token] or taken[token]:
                continue
            if any(d.ended > operation.started for d in deletions[session]):
                continue
            missing[session].append(token)
    for session, tokens in missing.items():
        # A pop of which nothing is known takes one message at the most.
        if len(tokens) > pops[session]:
            yield Violation(
                "lost",
                f"{session}: {len(tokens)} acknowledged messages are not there, and "
                f"{pops[session]} pops may have taken one: {_some(tokens)}",
            )


def _doubled(there: Counter[str], rows: Sequence[Row]) -> Iterator[Violation]:
    for token, times in there.items():
        if times > 1:
            yield Violation("doubled", f"{token} is there {times} times")
    on_branches = Counter(
        (row.session, row.agent, row.branch, t) for row in rows for t in row.tokens
    )
    for (session, agent, branch, token), times in on_branches.items():
        if times > 1 and there[token] <= 1:
            yield Violation(
                "doubled", f"{token} is {times} times on branch {branch} of {session}/{agent}"
            )


def _foreign(operations: Sequence[Operation], rows: Sequence[Row]) -> Iterator[Violation]:
    said = {token: session for o in operations for token, session in o.tokens.items()}
    for row in rows:
        for token in () if row.copied else row.tokens:
            if token not in said:
                yield Violation("invented", f"{token} is there, and nobody wrote it")
            elif said[token] != row.session:
                yield Violation("misplaced", f"{token} is in {row.session}, not {said[token]}")


def _done_after_failure(
    operations: Sequence[Operation], there: Counter[str], taken: Counter[str]
) -> Iterator[Violation]:
    for operation in operations:
        if operation.outcome is Outcome.FAILED:
            for token in operation.tokens:
                if there[token] or taken[token]:
                    yield Violation(
                        "done after failure",
                        f"{token} is there, and {operation.kind} said {operation.error}",
                    )


def _taken_twice(taken: Counter[str], there: Counter[str]) -> Iterator[Violation]:
    for token, times in taken.items():
        if times > 1:
            yield Violation("popped twice", f"{token} was returned by {times} pops")
        if there[token]:
            yield Violation("popped and there", f"{token} was returned by a pop and is there")


def _outlived(operations: Sequence[Operation], there: Counter[str]) -> Iterator[Violation]:
    deletions = _by_session(o for o in operations if o.kind in DELETING and o.acknowledged)
    for operation in operations:
        for token, session in operation.tokens.items():
            if there[token] and any(operation.ended < d.started for d in deletions[session]):
                yield Violation("outlived", f"{token} is there after {session} was deleted")


def _reordered(operations: Sequence[Operation], rows: Sequence[Row]) -> Iterator[Violation]:
    said: dict[str, tuple[int, int]] = {}
    for operation in sorted(operations, key=lambda operation: operation.started):
        # Of one that was killed, the server may do the last statement when its successor is there.
        if operation.acknowledged and operation.ended < math.inf:
            for token in operation.tokens:
                said[token] = (operation.writer, len(said))
    last: dict[tuple[str, str, int, int], tuple[int, str]] = {}
    for row in sorted(rows, key=lambda row: (row.session, row.agent, row.branch, row.position)):
        for token in row.tokens:
            if token not in said:
                continue
            writer, number = said[token]
            key = (row.session, row.agent, row.branch, writer)
            if key in last and last[key][0] > number:
                yield Violation(
                    "reordered",
                    f"{token} is behind {last[key][1]} on branch {row.branch} of {row.session}",
                )
            last[key] = (number, token)


def _gaps(rows: Sequence[Row]) -> Iterator[Violation]:
    positions: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for row in rows:
        positions[row.session, row.agent, row.branch].add(row.position)
    for (session, agent, branch), taken in positions.items():
        if holes := sorted(set(range(max(taken) + 1)) - taken):
            yield Violation(
                "gap", f"{session}/{agent} has nothing at {_some(holes)} of branch {branch}"
            )


def _states(
    operations: Sequence[Operation], states: Mapping[str, str | None]
) -> Iterator[Violation]:
    writes = _by_session(o for o in operations if o.kind == "state" and o.possible)
    for session, written in writes.items():
        last = states.get(session)
        sources = [o for o in written if o.value == last]
        certain = [o for o in written if o.acknowledged]
        if not sources and certain:
            yield Violation("state", f"the state of {session} is {last}, which nobody wrote")
        for source in sources:
            # One that was not acknowledged may be done at any time after it was begun.
            done = source.ended if source.acknowledged else math.inf
            if any(later.started > done for later in certain):
                yield Violation("state", f"the state of {session} is {last}, which was overwritten")


def _forks(operations: Sequence[Operation], sessions: frozenset[str]) -> Iterator[Violation]:
    for operation in operations:
        if operation.kind != "fork" or operation.value is None:
            continue
        if operation.acknowledged and operation.value not in sessions:
            yield Violation("lost", f"fork {operation.value} of {operation.session} is not there")
        if operation.outcome is Outcome.FAILED and operation.value in sessions:
            yield Violation(
                "done after failure", f"fork {operation.value} is there, and said {operation.error}"
            )


def _leaked(
    operations: Sequence[Operation], leaks: Mapping[str, Sequence[str]]
) -> Iterator[Violation]:
    redacted = {o.secret: o for o in operations if o.kind == "redact" and o.acknowledged and o.hits}
    for secret, places in leaks.items():
        if secret in redacted:
            yield Violation(
                "leaked",
                f"what was redacted in {redacted[secret].session} stands in {_some(places)}",
            )


def _by_session(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        found[operation.session].append(operation)
    return found


def _some(things: Sequence[object]) -> str:
    rest = f" and {len(things) - 5} more" if len(things) > 5 else ""
    return ", ".join(map(str, things[:5])) + rest
