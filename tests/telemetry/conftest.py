"""OpenTelemetry's real SDK, whose spans and metrics stay in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from django_agent_sessions import telemetry
from django_agent_sessions.telemetry.span_processor import SessionSpanProcessor


class Recorded:
    """What was recorded until now."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SessionSpanProcessor())
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meter_provider = MeterProvider([self._reader])
        self.tracer = self.tracer_provider.get_tracer("project")

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """The spans that have ended, or those with a name."""
        return [s for s in self._exporter.get_finished_spans() if name in ("", s.name)]

    def operations(self) -> list[str]:
        """The names of our own spans, without their prefix."""
        names = [span.name for span in self._exporter.get_finished_spans()]
        return [n.removeprefix("agent_sessions.") for n in names if n.startswith("agent_sessions.")]

    def clear(self) -> None:
        self._exporter.clear()

    def metrics(self) -> dict[str, list[Any]]:
        """The data points of each metric."""
        return {metric.name: list(metric.data.data_points) for metric in self.metrics_data()}

    def metrics_data(self) -> list[Metric]:
        """Each metric with its name, unit and data points."""
        data = self._reader.get_metrics_data()
        return [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    def everything(self) -> str:
        """All attributes, events and data points, as text."""
        data = self._reader.get_metrics_data()
        metrics = "" if data is None else data.to_json()
        return "".join(span.to_json() for span in self.spans()) + metrics


@pytest.fixture
def recorded(monkeypatch) -> Iterator[Recorded]:
    recorded = Recorded()
    # The API lets a process set its providers once only.
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", recorded.tracer_provider)
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", recorded.meter_provider)
    monkeypatch.setattr("strands.telemetry.tracer._tracer_instance", None)
    token = context.attach(context.Context())
    telemetry.start_recording()
    yield recorded
    telemetry.stop_recording()
    context.detach(token)
    recorded.tracer_provider.shutdown()
    recorded.meter_provider.shutdown()
