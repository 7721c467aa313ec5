"""The JSON renderer of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import JSONRenderer


class SafeJSONRenderer(JSONRenderer):
    """A JSON renderer that escapes half of a surrogate pair instead of failing."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        try:
            return bytes(super().render(data, accepted_media_type, renderer_context))
        except UnicodeEncodeError:
            escaping = _EscapingJSONRenderer()
            return bytes(escaping.render(data, accepted_media_type, renderer_context))


class _EscapingJSONRenderer(JSONRenderer):
    ensure_ascii = True
