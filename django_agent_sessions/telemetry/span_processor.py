"""A span processor of OpenTelemetry's SDK, which writes the session on all spans."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.context.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from .session_ids import ATTRIBUTES, SESSION_ID, ids_of


class SessionSpanProcessor(SpanProcessor):
    """Write the ids of the session on each span that starts while it is used.

    Also on those of SDKs and of HTTP clients. Add it to the project's ``TracerProvider``::

        provider.add_span_processor(SessionSpanProcessor())

    A span that begins before the session is used gets the ids when it is, if it is the current
    span. Baggage of incoming requests is not read, because any client can send it.
    """

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Copy the ids from the context, or from the parent span."""
        if SESSION_ID in (span.attributes or {}):
            return
        ids = ids_of(parent_context)
        if ids is not None:
            span.set_attributes(ids.attributes())
            return
        parent = trace.get_current_span(parent_context)
        known = (parent.attributes or {}) if isinstance(parent, ReadableSpan) else {}
        span.set_attributes({name: known[name] for name in ATTRIBUTES if name in known})
