"""A TCP proxy between the writers and their server: it cuts, stalls and swallows."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable

_NO_LINGER = struct.pack("ii", 1, 0)


class Proxy:
    """It listens on a port of its own until :meth:`close`."""

    def __init__(self, target: int, port: int = 0) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._wires: set[asyncio.StreamWriter] = set()
        self._stalled_until = 0.0
        self._losing = 0.0
        self._chance = random.Random(0)
        self.port = port
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[ready], daemon=True)
        self._thread.start()
        ready.wait(10)

    def reset_all(self) -> int:
        """Resets every connection, as a firewall does that has lost its memory."""
        count = len(self._wires) // 2
        self._call(self._cut_all)
        return count

    def stall(self, seconds: float) -> None:
        """Lets nothing pass for a time, and everything after it."""
        self._stalled_until = time.monotonic() + seconds

    def lose_answers(self, share: float) -> None:
        """From now on loses a share of the server's answers, and the connection with them."""
        self._losing = share

    def close(self) -> None:
        """Cuts everything and listens no more."""
        self._call(self._cut_all)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._accept, "127.0.0.1", self.port)
        )
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _cut(writer)
            return
        self._wires |= {writer, far_writer}
        pumps = [
            asyncio.ensure_future(self._pump(reader, far_writer, answers=False)),
            asyncio.ensure_future(self._pump(far_reader, writer, answers=True)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for wire in (writer, far_writer):
            self._wires.discard(wire)
            _cut(wire)
        for pump in pumps:
            pump.cancel()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await asyncio.sleep(max(0, self._stalled_until - time.monotonic()))
                if answers and self._losing and self._chance.random() < self._losing:
                    return
                writer.write(data)
                await writer.drain()

    def _cut_all(self) -> None:
        for wire in list(self._wires):
            _cut(wire)
        self._wires.clear()

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()

        def call() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(call)
        done.wait(5)


def _cut(writer: asyncio.StreamWriter) -> None:
    """Ends a connection by a reset, so that nobody takes it for an orderly end."""
    wire = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if wire is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    with contextlib.suppress(Exception):
        writer.transport.abort()
