"""A message and its version: if none of them changed, the conversation did not either."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class MessageVersion(NamedTuple):
    """A message without its content."""

    position: int
    revision: int
    id: UUID
