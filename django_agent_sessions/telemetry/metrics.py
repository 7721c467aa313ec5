"""The instruments, with few values of each attribute: no id is an attribute of a metric."""

from __future__ import annotations

from collections.abc import Iterable

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from django_agent_sessions.db import bridge

# In seconds: from a read of one row to a deletion of a large session.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Instruments:
    """Everything that is measured."""

    def __init__(self, version: str) -> None:
        meter = metrics.get_meter("django_agent_sessions", version)
        self.duration = meter.create_histogram(
            "agent_sessions.operation.duration",
            unit="s",
            description="Duration of operations, without waiting for a thread.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self.messages = meter.create_counter(
            "agent_sessions.messages", unit="{message}", description="Messages that were written."
        )
        self.bytes = meter.create_counter(
            "agent_sessions.written",
            unit="By",
            description="Size of the messages that were written, without their files.",
        )
        self.retries = meter.create_counter(
            "agent_sessions.retries", unit="{retry}", description="Statements that were retried."
        )
        self.conflicts = meter.create_counter(
            "agent_sessions.conflicts",
            unit="{conflict}",
            description="Operations that another process prevented, and leases that were lost.",
        )
        meter.create_observable_gauge(
            "agent_sessions.pool.threads",
            callbacks=[_threads],
            unit="{thread}",
            description="Database threads of this process.",
        )
        meter.create_observable_gauge(
            "agent_sessions.pool.waiting",
            callbacks=[_waiting],
            unit="{call}",
            description="Calls that wait for a database thread.",
        )


def _threads(options: CallbackOptions) -> Iterable[Observation]:
    usage = bridge.pool_usage()
    yield Observation(usage.idle, {"agent_sessions.state": "idle"})
    yield Observation(usage.threads - usage.idle, {"agent_sessions.state": "busy"})


def _waiting(options: CallbackOptions) -> Iterable[Observation]:
    yield Observation(bridge.pool_usage().waiting)
