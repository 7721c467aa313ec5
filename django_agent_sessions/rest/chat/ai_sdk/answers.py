"""An answer and its chunks, for clients that join it or request it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from .stream_writer import CUT, KEEP_ALIVE, error_end, start_chunk

if TYPE_CHECKING:
    from .claims import Refusal


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

    is_known: bool = False
    """Whether the message must have been sent before."""

    repeats: bool = False
    """Whether the session has the message already, without an answer."""

    stored_text: str | None = None
    """The text of the message in the session, if it was found there by its id."""

    refusal: Refusal | None = None
    """Why the message is not answered unless this answer to it can be replayed."""

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

    async def follow(self, loaded_id: str = "") -> AsyncGenerator[bytes]:
        """Yield its chunks from the start to its end.

        ``loaded_id`` is the id of the message that a client has if it has loaded the answer: under
        another id, the client would show the answer twice.
        """
        assert self.buffer is not None  # noqa: S101 - it has begun
        start, own = start_chunk(loaded_id or self.id), start_chunk(self.id)
        async with aclosing(self.buffer.follow()) as pieces:
            async for piece in pieces:
                yield start + piece.removeprefix(own) if piece.startswith(own) else piece


_KEEP_ALIVE_SECONDS = 15.0


class ReplayBuffer:
    """The chunks of a stream, for readers in one event loop.

    It holds up to ``most`` bytes. Above that the oldest are discarded, and no reader can join.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0
        self._first = 0
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def size(self) -> int:
        """The bytes that it holds."""
        return self._size

    @property
    def is_complete(self) -> bool:
        """Whether no chunk was discarded."""
        return self._first == 0

    def add(self, piece: bytes) -> None:
        """Add a chunk; ignore it after ``close``, from an agent that does not stop."""
        if self._closed:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._most:
            self._discard()
        self._notify()

    def close(self) -> None:
        self._closed = True
        self._notify()

    async def follow(self) -> AsyncGenerator[bytes]:
        """Yield all chunks from the start, and keep-alive comments during silence.

        It ends early, with an error, for a reader that is so slow that its next chunk was
        discarded.
        """
        position = 0
        while True:
            changed = self._changed
            if position < self._first:
                yield error_end(CUT)
                return
            if new := self._pieces[position - self._first :]:
                position += len(new)
                yield b"".join(new)
                continue
            if self._closed:
                return
            try:
                async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                    await changed.wait()
            except TimeoutError:
                yield KEEP_ALIVE

    def _discard(self) -> None:
        """Discard the oldest quarter at once, because one chunk at a time would be slow."""
        count = 0
        while self._size > self._most * 3 // 4 and count < len(self._pieces) - 1:
            self._size -= len(self._pieces[count])
            count += 1
        del self._pieces[:count]
        self._first += count

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
