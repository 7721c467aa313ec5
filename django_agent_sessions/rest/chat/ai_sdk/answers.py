"""The state of an answer, for clients that join it or request it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from .buffers import ReplayBuffer


@dataclass(slots=True, eq=False)
class Answer:
    """An answer, without the message that it answers."""

    session: UUID
    """The session's primary key."""

    owner: Any
    """The primary key of the user who asked."""

    message_id: str
    """The client's id of the message; empty if it sent none."""

    digest: str
    """A keyed digest of the message, which detects another message with the same id."""

    before: UUID | None
    """The last message before it; ``None`` if there was none."""

    epoch: int
    """The session's redaction epoch when the answer began."""

    id: str = field(default_factory=lambda: str(uuid4()))
    buffer: ReplayBuffer | None = None
    """The chunks so far; ``None`` until the answer has begun."""

    loop: asyncio.AbstractEventLoop | None = None
    claim_task: asyncio.Task[Any] | None = None
    """The task that claims the session, until the answer has begun or was refused."""

    over: bool = False
    kept_until: float = 0
    """When the buffer of a finished answer is discarded, on the monotonic clock."""

    def can_replay(self, epoch: int, loop: asyncio.AbstractEventLoop | None = None) -> bool:
        """Whether this loop can replay it from the start, and nothing was redacted since."""
        here = self.loop is (loop or asyncio.get_running_loop())
        return here and self.buffer is not None and self.buffer.is_complete and self.epoch == epoch

    async def wait_claimed(self) -> None:
        """Wait until it has begun or was refused, in this loop."""
        if self.claim_task is not None and self.claim_task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self.claim_task])

    async def follow(self) -> AsyncGenerator[bytes]:
        """Yield its chunks from the start to its end."""
        assert self.buffer is not None  # noqa: S101 - it has begun
        async with aclosing(self.buffer.follow()) as pieces:
            async for piece in pieces:
                yield piece
