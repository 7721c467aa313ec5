"""Going back in time: forks, rewinds, branches and snapshots, as services for pages and the API."""

from __future__ import annotations

from .services import Timeline

__all__ = ["Timeline"]
