"""Count what the detectors find: ``python -m tests.content.detectors.figures``."""

from __future__ import annotations

import os
from collections import Counter

import django
from hypothesis import HealthCheck, Phase, given, settings

EXAMPLES = 2000


def main() -> None:
    """Prints the two tables of the page."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from django_agent_sessions.content.detectors import Detection, available, detect, load

    from .lookalikes import lookalikes
    from .made import MADE, NAMED_SECRETS, PLACES, placed

    made: Counter[str] = Counter()
    found: Counter[str] = Counter()
    often = settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def count(name: str) -> None:
        @often
        @given(MADE[name], PLACES)
        def one(thing, place):
            text, start, end = placed(thing, place)
            made[name] += 1
            found[name] += Detection(start, end, name) in detect(text, load([name]))

        one()

    for name in MADE:
        count(name)

    @often
    @given(NAMED_SECRETS)
    def named(secret):
        before, key, after = secret
        made["api_key, by its name"] += 1
        place = Detection(len(before), len(before) + len(key), "api_key")
        found["api_key, by its name"] += place in detect(before + key + after, load(["api_key"]))

    named()

    every = available()
    tempting: Counter[str] = Counter()
    flagged: Counter[str] = Counter()
    for section, text in lookalikes():
        tempting[section] += 1
        for kind in {place.kind for place in detect(text, every)}:
            flagged[kind] += 1

    print("| detector | made | found, with exact boundaries |\n|---|--:|--:|")
    for name, total in made.items():
        print(f"| {name} | {total:,} | {found[name]:,} |")
    total = sum(tempting.values())
    print("\n| detector | look-alikes of its own | flagged, of all", total, "|\n|---|--:|--:|")
    for detector in every:
        print(f"| {detector.name} | {tempting[detector.name]} | {flagged[detector.name]} |")
    print(f"| lines of logs and code | {tempting['log']} | – |")


if __name__ == "__main__":
    main()
