"""The check of the chaos runner finds what is planted, and nothing in a history that is good."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.chaos.checking import Found, Row, check
from benchmarks.chaos.history import Journal, Operation, Outcome, read_journals

SECRET = "KEY-00000000000000000000"


def operation(kind: str, at: float, *tokens: str, session: str = "s", **known) -> Operation:
    return Operation(
        writer=known.pop("writer", 1),
        kind=kind,
        session=session,
        started=at,
        ended=known.pop("ended", at + 0.5),
        outcome=known.pop("outcome", Outcome.ACKNOWLEDGED),
        tokens=dict.fromkeys(tokens, session),
        **known,
    )


def rows(*tokens: str, session: str = "s", branch: int = 0, copied: bool = False) -> list[Row]:
    return [
        Row(session, "default", branch, position, copied, (token,))
        for position, token in enumerate(tokens)
    ]


def found(*there: Row, sessions: frozenset[str] = frozenset({"s"}), **known) -> Found:
    return Found(rows=there, sessions=sessions, **known)


def kinds(operations: list[Operation], there: Found) -> list[str]:
    return [violation.kind for violation in check(operations, there)]


SAID = [operation("append", at, f"w1.0.{at}") for at in range(4)]
TOKENS = [f"w1.0.{at}" for at in range(4)]


def test_a_good_history_passes():
    assert check(SAID, found(*rows(*TOKENS))) == []


def test_a_lost_message_is_found_wherever_it_stood():
    for lost in TOKENS:
        left = [token for token in TOKENS if token != lost]
        assert kinds(SAID, found(*rows(*left))) == ["lost"]


def test_a_message_of_which_nothing_is_known_may_be_there_or_not_but_never_twice():
    unsure = [replace(SAID[0], outcome=Outcome.UNKNOWN, ended=math.inf), *SAID[1:]]

    assert check(unsure, found(*rows(*TOKENS))) == []
    assert check(unsure, found(*rows(*TOKENS[1:]))) == []
    assert kinds(unsure, found(*rows(*TOKENS, TOKENS[0]))) == ["doubled"]


def test_a_doubled_message_is_found():
    assert "doubled" in kinds(SAID, found(*rows(*TOKENS, TOKENS[3])))


def test_what_nobody_wrote_is_found():
    assert kinds(SAID, found(*rows(*TOKENS, "w9.0.1"))) == ["invented"]


def test_a_message_in_another_session_is_found():
    there = found(*rows(*TOKENS[:3]), *rows(TOKENS[3], session="other"))

    assert kinds(SAID, there) == ["misplaced"]


def test_a_copy_on_another_branch_is_no_double_and_two_on_one_branch_are():
    branch = rows(*TOKENS[:2], branch=1, copied=True)

    assert check(SAID, found(*rows(*TOKENS), *branch)) == []
    twice = rows(*TOKENS[:2], TOKENS[1], branch=1, copied=True)
    assert "doubled" in kinds(SAID, found(*rows(*TOKENS), *twice))


def test_what_failed_must_not_be_there():
    failed = [*SAID[:3], replace(SAID[3], outcome=Outcome.FAILED, error="PayloadError")]

    assert check(failed, found(*rows(*TOKENS[:3]))) == []
    assert kinds(failed, found(*rows(*TOKENS))) == ["done after failure"]


def test_a_gap_is_found():
    there = [replace(row, position=row.position + (row.position > 1)) for row in rows(*TOKENS)]

    assert kinds(SAID, found(*there)) == ["gap"]
    assert kinds(
        SAID, found(*(replace(row, position=row.position + 1) for row in rows(*TOKENS)))
    ) == ["gap"]


def test_a_changed_order_is_found_for_each_writer():
    other = [replace(op, writer=2) for op in SAID[2:]]

    assert kinds(SAID, found(*rows(*TOKENS[:2], *reversed(TOKENS[2:])))) == ["reordered"]
    # Of two writers nobody can say whose came first.
    assert check([*SAID[:2], *other], found(*rows(*TOKENS[2:], *TOKENS[:2]))) == []


def test_a_popped_message_is_taken_once_and_gone():
    pop = operation("pop", 8, taken=TOKENS[3])

    assert check([*SAID, pop], found(*rows(*TOKENS[:3]))) == []
    assert kinds([*SAID, pop, replace(pop, writer=2)], found(*rows(*TOKENS[:3]))) == [
        "popped twice"
    ]
    assert kinds([*SAID, pop], found(*rows(*TOKENS))) == ["popped and there"]


def test_a_pop_of_which_nothing_is_known_took_one_message_at_the_most():
    pop = operation("pop", 8, outcome=Outcome.UNKNOWN)

    assert check([*SAID, pop], found(*rows(*TOKENS[:3]))) == []
    assert kinds([*SAID, pop], found(*rows(*TOKENS[:2]))) == ["lost"]
    elsewhere = replace(pop, session="other")
    assert kinds([*SAID, elsewhere], found(*rows(*TOKENS[:3]))) == ["lost"]


def test_a_deletion_takes_what_was_said_before_it_and_nothing_that_was_said_after():
    deleted = operation("delete", 1.6, ended=1.9)

    assert check([*SAID, deleted], found(*rows(*TOKENS[2:]))) == []
    assert kinds([*SAID, deleted], found(*rows(*TOKENS[1:]))) == ["outlived"]
    assert kinds([*SAID, deleted], found(*rows(TOKENS[3]))) == ["lost"]


def test_a_torn_batch_is_found():
    batch = operation("append_many", 9, "w1.0.8", "w1.0.9", together=True, outcome=Outcome.UNKNOWN)

    assert check([*SAID, batch], found(*rows(*TOKENS))) == []
    assert check([*SAID, batch], found(*rows(*TOKENS, "w1.0.8", "w1.0.9"))) == []
    assert kinds([*SAID, batch], found(*rows(*TOKENS, "w1.0.8"))) == ["lost"]


def test_the_last_state_is_one_that_was_not_overwritten():
    early = operation("state", 1, value="early")
    late = operation("state", 5, value="late")
    unsure = operation("state", 2, value="unsure", outcome=Outcome.UNKNOWN)

    def states(value: str | None, *operations: Operation) -> list[str]:
        return kinds(list(operations), found(states={"s": value}))

    assert states("late", early, late) == []
    assert states("early", early, late) == ["state"]
    assert states("nobody's", early, late) == ["state"]
    assert states(None, early) == ["state"]
    # The server may have done it after the other, when its writer had long gone.
    assert states("unsure", early, late, unsure) == []
    assert states("early", early, unsure) == []


def test_a_secret_that_was_redacted_and_stands_somewhere_is_found():
    redacted = operation("redact", 9, secret=SECRET, hits=1)
    there = found(*rows(*TOKENS), leaks={SECRET: ["agent_sessions_snapshot.document"]})

    assert kinds([*SAID, redacted], there) == ["leaked"]
    # Where it found nothing, or was not done, nobody promised anything.
    for other in (
        replace(redacted, hits=0),
        replace(redacted, outcome=Outcome.UNKNOWN),
    ):
        assert check([*SAID, other], there) == []


def test_a_fork_is_there_if_it_was_acknowledged_and_not_if_it_failed():
    fork = operation("fork", 5, value="fork-1")
    failed = replace(fork, outcome=Outcome.FAILED)
    both = frozenset({"s", "fork-1"})

    assert check([fork], found(sessions=both)) == []
    assert kinds([fork], found()) == ["lost"]
    assert kinds([failed], found(sessions=both)) == ["done after failure"]
    assert check([failed], found()) == []


def test_what_cannot_be_restored_is_told():
    assert kinds(SAID, found(*rows(*TOKENS), broken=["s/default: it does not answer"])) == [
        "broken"
    ]


def test_a_journal_tells_what_was_begun_and_never_answered(tmp_path):
    journal = Journal(tmp_path / "1.0.jsonl", 1)
    done = journal.begin("append", "s", tokens={"w1.0.1": "s"})
    journal.end(done, Outcome.ACKNOWLEDGED)
    journal.begin("append", "s", tokens={"w1.0.2": "s"})
    with (tmp_path / "1.0.jsonl").open("a") as file:
        file.write('{"n": 3, "at"')  # The writer was killed here.

    first, second = read_journals(tmp_path.iterdir())

    assert first.acknowledged
    assert first.ended > first.started
    assert second.outcome is Outcome.UNKNOWN
    assert second.ended == math.inf


# --- histories of a store that keeps every promise ----------------------------------------------


def perfect(chance: random.Random, steps: int) -> tuple[list[Operation], Found]:
    """Plays writers that are killed and disappointed, on a store that does what it says."""
    stored: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    operations = []
    for at in range(steps):
        session, writer = chance.choice("ab"), chance.randrange(3)
        outcome = chance.choice([Outcome.ACKNOWLEDGED] * 3 + [Outcome.FAILED, Outcome.UNKNOWN])
        done = outcome is Outcome.ACKNOWLEDGED or (
            outcome is Outcome.UNKNOWN and chance.random() < 0.5
        )
        kind = chance.choice(["append", "append", "append_many", "pop", "delete"])
        tokens = [f"w{writer}.0.{at}{part}" for part in ("ab" if kind == "append_many" else "a")]
        known = {"writer": writer, "outcome": outcome}
        if kind.startswith("append"):
            together = kind == "append_many"
            operations.append(
                operation(kind, at, *tokens, session=session, together=together, **known)
            )
            if done:
                stored[session] += [(token,) for token in tokens]
        elif kind == "pop":
            taken = stored[session].pop()[0] if done and stored[session] else None
            told = taken if outcome is Outcome.ACKNOWLEDGED else None
            operations.append(operation(kind, at, session=session, taken=told, **known))
        elif chance.random() < 0.3:
            operations.append(operation(kind, at, session=session, **known))
            if done:
                stored[session].clear()
    there = [
        Row(session, "default", 0, position, False, tokens)
        for session, messages in stored.items()
        for position, tokens in enumerate(messages)
    ]
    return operations, Found(rows=there)


@given(st.randoms(use_true_random=False), st.integers(0, 60))
def test_the_history_of_a_perfect_store_passes(chance, steps):
    operations, there = perfect(chance, steps)

    assert check(operations, there) == []


@given(st.randoms(use_true_random=False))
def test_any_double_in_any_history_is_found(chance):
    operations, there = perfect(chance, 40)
    if not there.rows:
        return
    row = chance.choice(there.rows)
    doubled = [*there.rows, replace(row, position=len(there.rows))]

    assert "doubled" in kinds(operations, replace(there, rows=doubled))


@given(st.randoms(use_true_random=False))
def test_any_loss_that_nothing_explains_is_found(chance):
    operations, there = perfect(chance, 40)
    certain = {
        token
        for op in operations
        if op.acknowledged and op.kind.startswith("append")
        for token in op.tokens
    }
    blamed = {
        op.session for op in operations if op.kind in ("pop", "delete") and not op.acknowledged
    }
    candidates = [
        row for row in there.rows if row.session not in blamed and row.tokens[0] in certain
    ]
    if not candidates:
        return
    lost = chance.choice(candidates)
    left = [row for row in there.rows if row != lost]

    assert "lost" in kinds(operations, replace(there, rows=left))


@pytest.mark.parametrize("seed", range(3))
def test_a_history_of_many_writers_is_as_good_read_from_journals(tmp_path, seed):
    chance = random.Random(seed)
    journals = [Journal(tmp_path / f"{number}.0.jsonl", number) for number in range(3)]
    stored = []
    for step in range(20):
        number = chance.randrange(3)
        token = f"w{number}.0.{step}"
        begun = journals[number].begin("append", "s", tokens={token: "s"})
        stored.append(token)
        journals[number].end(begun, Outcome.ACKNOWLEDGED)

    operations = read_journals(tmp_path.iterdir())

    assert check(operations, found(*rows(*stored))) == []
    assert kinds(operations, found(*rows(*stored[1:]))) == ["lost"]
