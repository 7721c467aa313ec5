"""What was said so far, for whoever comes late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from .chunks import KEEP_ALIVE

_QUIET = 15.0


class ReplayBuffer:
    """The pieces of a stream; belongs to one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0
        self._first = 0
        self._news = asyncio.Event()
        self._closed = False

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return self._size

    @property
    def whole(self) -> bool:
        """Whether nothing was let go."""
        return self._first == 0

    def add(self, piece: bytes) -> None:
        """Adds a piece; nothing after the end, of an agent that would not stop."""
        if self._closed:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._most:
            self._let_go()
        self._tell()

    def close(self) -> None:
        """Says that no more will come."""
        self._closed = True
        self._tell()

    async def follow(self) -> AsyncGenerator[bytes]:
        """Reads all that was said, then what is being said."""
        place = 0
        while True:
            news = self._news
            if place < self._first:
                return
            if new := self._pieces[place - self._first :]:
                place += len(new)
                yield b"".join(new)
                continue
            if self._closed:
                return
            try:
                async with asyncio.timeout(_QUIET):
                    await news.wait()
            except TimeoutError:
                yield KEEP_ALIVE

    def _let_go(self) -> None:
        """Lets go of the oldest quarter, and not of one piece at a time, which would be slow."""
        gone = 0
        while self._size > self._most * 3 // 4 and gone < len(self._pieces) - 1:
            self._size -= len(self._pieces[gone])
            gone += 1
        del self._pieces[:gone]
        self._first += gone

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
