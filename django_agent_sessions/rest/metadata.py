"""What ``OPTIONS`` answers: what a view takes and gives; its fields are in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from rest_framework.metadata import SimpleMetadata


class ViewMetadata(SimpleMetadata):
    """Describes a view without its fields, some of which hold parts of their own kind."""

    def determine_actions(self, request: Any, view: Any) -> dict[str, Any]:
        """Leaves the fields out: the same for everybody, and no query is made for them."""
        return {}
