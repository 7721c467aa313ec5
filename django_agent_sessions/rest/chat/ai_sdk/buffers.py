"""A buffer of a stream's chunks, for readers that join late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from .stream_writer import KEEP_ALIVE

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

        It ends early for a reader that is so slow that its next chunk was discarded.
        """
        position = 0
        while True:
            changed = self._changed
            if position < self._first:
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
