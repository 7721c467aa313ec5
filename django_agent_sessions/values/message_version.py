"""Which message, and in which version: what tells whether a conversation is as it was."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class MessageVersion(NamedTuple):
    """A message without its content."""

    position: int
    revision: int
    id: UUID
