"""The response to ``OPTIONS``, without fields: those are in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from rest_framework.metadata import SimpleMetadata


class ViewMetadata(SimpleMetadata):
    """A description of a view without its fields."""

    def determine_actions(self, request: Any, view: Any) -> dict[str, Any]:
        """Return no fields, so that the response is the same for all users and needs no query."""
        return {}
