"""The board for Grafana asks for metrics that exist, by the names that Prometheus has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from django_agent_sessions.signals import lease_lost
from django_agent_sessions.store import SessionStore

BOARD = Path(__file__).parents[2] / "docs" / "monitoring" / "grafana.json"

UNITS = {"s": "_seconds", "By": "_bytes"}


def exported(recorded) -> set[str]:
    """The series that Prometheus stores, by OpenTelemetry's rules for their names."""
    data = recorded.metrics_data()
    names = set()
    for metric in data:
        base = metric.name.replace(".", "_") + UNITS.get(metric.unit, "")
        kind = type(metric.data).__name__
        if kind == "Histogram":
            names |= {base + "_bucket", base + "_count", base + "_sum"}
        else:
            names.add(base + ("_total" if kind == "Sum" else ""))
    return names


def queries(panel) -> list[str]:
    return [target["expr"] for target in panel.get("targets", ())]


@pytest.mark.django_db
def test_every_metric_of_the_board_is_exported_and_the_reverse(recorded):
    store = SessionStore()
    agent = store.agents.open(store.open("user-1"))
    store.append(agent, {"role": "user", "content": "Hello"})
    lease_lost.send(None, using="default", session=agent.session)
    from django_agent_sessions.values import observing

    assert observing.current is not None
    observing.current.count_retry("conflict")
    panels = json.loads(BOARD.read_text())["panels"]
    asked = {
        name
        for panel in panels
        for query in queries(panel)
        for name in re.findall(r"\bagent_sessions_\w+(?=[\[{])", query)
    }
    found = exported(recorded)
    assert asked <= found
    bases = {re.sub(r"_(bucket|count|sum)$", "", name) for name in found}
    assert bases == {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}


def test_every_label_of_the_board_is_an_attribute_of_a_metric():
    labels = set(re.findall(r"by \(([^)]*)\)", BOARD.read_text()))
    names = {name.strip() for found in labels for name in found.split(",")}
    assert names <= {
        "le",
        "agent_sessions_operation",
        "agent_sessions_reason",
        "agent_sessions_state",
        "error_type",
    }
