"""A TCP proxy before servers: it waits, cuts, stalls, swallows, and chooses the server."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence

_NO_LINGER = struct.pack("ii", 1, 0)


class Proxy:
    """Listens in a thread of this process, on a port of its own, until it is closed.

    ``target`` returns the port of the server for a new connection, or None to refuse it. The first
    bytes of each request wait for ``latency`` seconds.
    """

    host = "127.0.0.1"

    def __init__(self, target: Callable[[], int | None], *, latency: float = 0.0) -> None:
        self.port = 0
        self._target = target
        self._latency = latency
        self._loop = asyncio.new_event_loop()
        self._wires: dict[asyncio.StreamWriter, int] = {}
        self._stalled_until = 0.0
        self._losing = 0.0
        self._chance = random.Random(0)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[ready], daemon=True)
        self._thread.start()
        ready.wait(10)

    def reset(self, target: int | None = None) -> int:
        """Reset the connections to a server, or all, as a firewall does that was restarted."""
        wires = [wire for wire, port in list(self._wires.items()) if target in (None, port)]
        done = threading.Event()
        self._loop.call_soon_threadsafe(self._cut, wires, done)
        done.wait(5)
        return len(wires) // 2

    def stall(self, seconds: float) -> None:
        """Let nothing pass for a time, and everything after it."""
        self._stalled_until = time.monotonic() + seconds

    def lose_answers(self, share: float) -> None:
        """From now on lose a share of the server's answers, and the connection with them."""
        self._losing = share

    def close(self) -> None:
        """Reset everything and listen no more."""
        self.reset()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._accept, self.host, 0, backlog=512)
        )
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self._target()
        try:
            if port is None:
                raise ConnectionRefusedError
            far_reader, far_writer = await asyncio.open_connection(self.host, port)
        except OSError:
            _reset(writer)
            return
        wires = (writer, far_writer)
        self._wires |= dict.fromkeys(wires, port)
        answered = asyncio.Event()
        answered.set()
        pumps = [
            asyncio.ensure_future(self._requests(reader, far_writer, answered)),
            asyncio.ensure_future(self._answers(far_reader, writer, answered)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        self._cut(wires)
        for pump in pumps:
            pump.cancel()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answered: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(256 * 1024):
                if answered.is_set() and self._latency:
                    await asyncio.sleep(self._latency)
                answered.clear()
                await self._pass(data, writer)

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answered: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(256 * 1024):
                answered.set()
                if self._losing and self._chance.random() < self._losing:
                    return
                await self._pass(data, writer)

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        if (wait := self._stalled_until - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        writer.write(data)
        await writer.drain()

    def _cut(
        self, wires: Sequence[asyncio.StreamWriter], done: threading.Event | None = None
    ) -> None:
        for wire in wires:
            self._wires.pop(wire, None)
            _reset(wire)
        if done is not None:
            done.set()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by a reset, so that it cannot be mistaken for an orderly end."""
    wire = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if wire is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    with contextlib.suppress(Exception):
        writer.transport.abort()
