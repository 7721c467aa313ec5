"""Spans and metrics of OpenTelemetry, with ids and counts, never content.

``AGENT_SESSIONS["TELEMETRY"]`` turns it on. It uses OpenTelemetry's API only; the project
configures the SDK. See :doc:`/how-to/monitoring`.
"""

from __future__ import annotations

from .installation import start_recording, stop_recording
from .session_ids import session_context

__all__ = ["session_context", "start_recording", "stop_recording"]
