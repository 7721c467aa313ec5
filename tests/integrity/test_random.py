"""After each of many random operations the counters are those of the rows, and nothing is damaged.

``make random`` does more of them: ``STEPS=20000 DATABASE=postgresql SEED=7``. The check costs more
than an operation, and runs after every 20th, or 50th there; ``EVERY=1`` finds the one that it was.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from datetime import timedelta

import pytest

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.integrity import Check, Kind, Severity
from django_agent_sessions.models import Session

from .random_steps import OPERATIONS, World, compare

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.integrity.random_clients"),
]

STEPS = int(os.environ.get("RANDOM_STEPS", "200"))
SEED = int(os.environ.get("RANDOM_SEED", "7"))
EVERY = int(os.environ.get("RANDOM_EVERY", "20"))


def problems() -> list[str]:
    """What a repairing check finds, besides notes."""
    results = Check(grace=timedelta(0), mend=True, files=True).run()
    return [
        f"{result.finding.kind.code} {result.finding.detail}"
        for result in results
        if result.finding.kind.severity is not Severity.NOTE
        # The results have no calls.
        and result.finding.kind is not Kind.ORPHAN_RESULT
    ]


@pytest.mark.large
@pytest.mark.timeout(180 + 10 * STEPS)
def test_random_operations_leave_every_counter_right_and_nothing_to_repair(blob_folder):
    world = World(SEED)
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    unchecked: deque[str] = deque(maxlen=EVERY)
    for number in range(STEPS):
        name = world.choose()
        try:
            getattr(world, name)()
            done[name] += 1
        except AgentSessionsError as error:
            # Such as a hold, or a snapshot whose messages were deleted.
            refused[type(error).__name__] += 1
        unchecked.append(name)
        where = f"step {number} of seed {SEED}, after {', '.join(unchecked)}"
        assert compare(world) == "", where
        if number % 500 == 0:
            print(f"\n{number} steps of seed {SEED}: {sum(refused.values())} refused", end="")
        if number % EVERY and number != STEPS - 1:
            continue
        before = list(Session.objects.order_by("pk").values())
        assert problems() == [], where
        assert list(Session.objects.order_by("pk").values()) == before, where
    print(f"\n{STEPS} steps of seed {SEED}: {dict(done)}; refused: {dict(refused)}")
    assert STEPS < 3000 or set(done) == set(OPERATIONS), refused
    assert done["append"] > STEPS / 50, (done, refused)
