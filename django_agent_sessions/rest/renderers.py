"""Writing answers: JSON that every client can read, whatever was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import JSONRenderer


class SafeJSONRenderer(JSONRenderer):
    """Renders JSON; half of a surrogate pair is escaped instead of being an error."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Renders an answer."""
        try:
            return bytes(super().render(data, accepted_media_type, renderer_context))
        except UnicodeEncodeError:
            escaping = _EscapingJSONRenderer()
            return bytes(escaping.render(data, accepted_media_type, renderer_context))


class _EscapingJSONRenderer(JSONRenderer):
    ensure_ascii = True
