"""Only our own masks shield what stands in them, and masked keys lose nothing."""

from __future__ import annotations

from typing import Any

import pytest

from django_agent_sessions.content import detectors
from django_agent_sessions.content.masking import (
    DetectorFinder,
    Finder,
    TextFinder,
    mask_text,
    mask_tree,
    masked_texts,
    redact_message,
    redact_spans,
)

FIND = [TextFinder("plantedsecret")]
EMAILS = [DetectorFinder(detectors.load(["email"]))]
CARD = "4111111111111111"


class StaffNumber:
    name = "staff_number"

    def find(self, text):
        at = text.find("AB-77")
        return [(at, at + 5)] if at >= 0 else []


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("finders", "keys"),
    [
        (EMAILS, ["a@b.cc", "[REDACTED:EMAIL] (2)", "c@d.ee"]),
        (FIND, ["plantedsecret", "[REDACTED] (2)", "PLANTEDSECRET"]),
        (FIND, ["plantedsecret", "[REDACTED]"]),
        (FIND, ["[REDACTED]", "plantedsecret", "PlantedSecret", "plantedSecret"]),
        (EMAILS, ["a@b.cc", "c@d.ee", "[REDACTED:EMAIL]"]),
    ],
)
@pytest.mark.parametrize("alike", [True, False])
def test_no_masked_key_takes_the_place_of_another(finders, keys, alike):
    value: Any = {key: True if alike else at for at, key in enumerate(keys)}

    masked, hits = mask_tree(value, finders, free=True)

    assert hits
    assert list(masked.values()) == list(value.values())
    assert not any("planted" in key.lower() or "@" in key for key in masked)
    assert {key for key in keys if "REDACTED" in key} <= masked.keys()
    assert mask_tree(masked, finders, free=True) == (masked, [])


@pytest.mark.timeout(60)
def test_very_many_keys_become_alike():
    value = {f"user{number}@example.org": number for number in range(20_000)}

    masked, _ = mask_tree(value, EMAILS, free=True)

    assert list(masked.values()) == list(range(20_000))


@pytest.mark.parametrize("fake", [CARD, f"X{CARD}", "HUNTER"])
def test_a_mask_that_somebody_made_up_hides_nothing(fake):
    text = f"pay with [REDACTED:{fake}] now"
    wanted = fake.removeprefix("X")

    assert wanted not in mask_tree({"text": text}, [TextFinder(wanted)])[0]["text"]
    whole = {"role": "user", "content": [{"text": f"[REDACTED:{fake}]"}]}
    assert wanted not in str(redact_message("strands", whole))
    cut = redact_spans({"content": text}, ("content",), (9, 9 + len(f"[REDACTED:{fake}]")))
    assert wanted not in cut["content"]
    assert masked_texts([whole["content"][0]], [{"other": "[REDACTED]"}]) == {f"[REDACTED:{fake}]"}


def test_detectors_look_into_a_mask_that_somebody_made_up():
    assert CARD not in mask_text(f"my card [REDACTED:{CARD}] ok", detectors.available())


def test_the_masks_of_our_detectors_and_of_the_settings_stay(settings):
    settings.AGENT_SESSIONS = {"DETECTORS": ["tests.content.masking.test_masks.StaffNumber"]}
    finders: list[Finder] = [
        DetectorFinder(detectors.load(detectors.names()[:-1])),
        TextFinder("REDACTED"),
    ]
    names = [name.upper() for name in detectors.names()]
    text = " ".join(["[REDACTED]", *(f"[REDACTED:{name}]" for name in names)])

    assert "STAFF_NUMBER" in names
    assert mask_tree(text, finders) == (text, [])
    assert mask_tree("AB-77", finders)[0] == "[REDACTED:STAFF_NUMBER]"


@pytest.mark.timeout(60)
def test_many_findings_beside_many_masks():
    text = "[REDACTED] plantedsecret " * 40_000

    assert mask_tree(text, FIND)[0] == "[REDACTED] [REDACTED] " * 40_000
    spans = [(at * 25 + 4, at * 25 + 14) for at in range(10_000)]
    assert "planted" in redact_spans([text], (0,), *spans)[0]
