"""What is kept of an answer, for whoever joins it or asks for it again."""

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
    """An answer, without what was asked."""

    session: UUID
    """The session's primary key."""

    owner: Any
    """The primary key of who asked."""

    message_id: str
    """What the client calls the message; empty if it gave none."""

    digest: str
    """Tells another message of the same id from it, and nothing else to nobody."""

    before: UUID | None
    """The last message before it; ``None`` if there was none."""

    epoch: int
    """How often the session was redacted before."""

    id: str = field(default_factory=lambda: str(uuid4()))
    buffer: ReplayBuffer | None = None
    """What was said so far; ``None`` until it has begun."""

    loop: asyncio.AbstractEventLoop | None = None
    entering: asyncio.Task[Any] | None = None
    """What claims it, until it has begun or was refused."""

    over: bool = False
    until: float = 0
    """Until when it is kept, on the monotonic clock, when it is over."""

    def replayable(self, epoch: int, loop: asyncio.AbstractEventLoop | None = None) -> bool:
        """Whether all of it is there, in this loop, and nothing was redacted since."""
        here = self.loop is (loop or asyncio.get_running_loop())
        return here and self.buffer is not None and self.buffer.whole and self.epoch == epoch

    async def entered(self) -> None:
        """Waits until it has begun, or was refused, in this loop."""
        if self.entering is not None and self.entering.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self.entering])

    async def follow(self) -> AsyncGenerator[bytes]:
        """Reads it from its beginning, to its end."""
        assert self.buffer is not None  # noqa: S101 - it was begun
        async with aclosing(self.buffer.follow()) as pieces:
            async for piece in pieces:
                yield piece
