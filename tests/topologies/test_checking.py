"""The check at the end of the run on a cluster finds what is planted."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.topologies.galera import checking, journal
from benchmarks.topologies.galera.checking import Stored

TEXTS = ["w:0", "w:1", "w:2"]


def stored(label: str, position: int) -> Stored:
    text = journal.labelled(label)
    return Stored("common", "default", position, f"key of {label}", (label,), text)


@pytest.fixture
def told(tmp_path) -> journal.Told:
    """Two messages were acknowledged, and one refused, which may be there or not."""
    lines = journal.Journal(tmp_path / "w.jsonl")
    lines.acknowledged("common", TEXTS[:2], 0.1)
    lines.failed("", [TEXTS[2]], OSError(2013, "gone"))
    with (tmp_path / "w.jsonl").open("ab") as file:
        file.write(b'{"session": "common", "lab')
    return journal.read([tmp_path / "w.jsonl"])


@pytest.fixture
def whole() -> list[Stored]:
    return [stored(label, position) for position, label in enumerate(TEXTS)]


def test_a_label_is_found_in_what_an_sdk_makes_of_it():
    assert journal.labels_in(f'{{"text": "you said: {journal.labelled("w-1:7a")}"}}') == ["w-1:7a"]


def test_what_was_told_is_read_and_a_torn_line_is_not(told):
    assert told.acknowledged == {"w:0": "common", "w:1": "common"}
    assert told.unknown_files == {"w:2"}
    assert told.errors == {("w", "OSError 2013"): 1}


def test_all_is_well(told, whole):
    assert checking.problems(told, whole) == []
    assert checking.problems(told, whole[:2]) == [], "what was refused need not be there"
    assert checking.differences(whole, list(whole)) == []


def test_a_loss_is_found(told, whole):
    (problem,) = checking.problems(told, whole[:1])
    assert "1 acknowledged messages are lost" in problem


def test_a_message_in_another_session_is_lost(told, whole):
    whole[1] = dataclasses.replace(whole[1], session="other", position=0)
    assert any("lost" in problem for problem in checking.problems(told, whole[:2]))


def test_a_double_is_found(told, whole):
    (problem,) = checking.problems(told, [*whole, stored("w:2", 3)])
    assert "more than once" in problem


def test_a_gap_is_found(told, whole):
    (problem,) = checking.problems(told, [*whole[:2], stored("w:2", 3)])
    assert "not dense" in problem


def test_what_nobody_wrote_is_found(told, whole):
    (problem,) = checking.problems(told, [*whole, stored("x:1", 3)])
    assert "never written" in problem


def test_nodes_that_differ_are_found(whole):
    changed = [*whole[:2], dataclasses.replace(whole[2], payload="other")]
    assert len(checking.differences(whole, changed)) == 2
