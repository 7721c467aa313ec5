"""A proxy before the nodes: new connections go to the first one that is ready.

It does what a site's own does (HAProxy, MaxScale, ProxySQL): it asks the nodes how they are, and
hangs up on the clients of one that is not ready any more, so that they come again.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from benchmarks.servers import free_port

from .cluster import GaleraNode

_PERIOD = 0.3
_PIECE = 65536


class Proxy:
    """Runs in threads of this process, as a context manager."""

    host = "127.0.0.1"

    def __init__(self, nodes: Sequence[GaleraNode]) -> None:
        self.port = free_port()
        self.failovers = 0
        self._nodes = nodes
        self._ready: dict[int, bool] = {}
        self._clients: dict[int, set[socket.socket]] = {node.number: set() for node in nodes}
        self._last: int | None = None
        self._over = threading.Event()
        self._listener = socket.create_server((self.host, self.port))

    def __enter__(self) -> Self:
        for node in self._nodes:
            self._run(self._watch, node)
        self._run(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._listener.close()
        for node in self._nodes:
            self._hang_up(node)

    def _run(self, function: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=function, args=arguments, daemon=True).start()

    def _watch(self, node: GaleraNode) -> None:
        while not self._over.is_set():
            ready = node.pid is not None and node.answers(patience=1)
            if self._ready.get(node.number) and not ready:
                self._hang_up(node)
            self._ready[node.number] = ready
            time.sleep(_PERIOD)

    def _hang_up(self, node: GaleraNode) -> None:
        for client in list(self._clients[node.number]):
            _close(client)

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._run(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        for node in self._nodes:
            if not self._ready.get(node.number):
                continue
            try:
                server = socket.create_connection((node.host, node.port), timeout=1)
            except OSError:
                continue
            server.settimeout(None)
            self.failovers += self._last not in (None, node.number)
            self._last = node.number
            clients = self._clients[node.number]
            clients.add(client)
            self._run(_pipe, server, client)
            _pipe(client, server)
            clients.discard(client)
            return
        _close(client)


def _pipe(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    _close(source)
    _close(target)


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
