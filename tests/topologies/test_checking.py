"""The check at the end of the run on a cluster finds nodes that differ."""

from __future__ import annotations

from benchmarks.topologies.galera.__main__ import differences


def test_nodes_that_differ_are_found():
    whole = [("common", "default", position, f"key {position}", "text") for position in range(3)]
    changed = [*whole[:2], (*whole[2][:4], "other")]

    assert differences(whole, list(whole)) == []
    assert len(differences(whole, changed)) == 2
