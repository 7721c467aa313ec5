"""Pages of the API and the admin, and the statements of chat requests."""

from __future__ import annotations

from . import transcripts  # noqa: F401 - sets Django up, before the other modules import models
