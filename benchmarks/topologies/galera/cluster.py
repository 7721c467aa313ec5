"""A MariaDB Galera cluster of three nodes on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from benchmarks.servers import MariaDBServer, ServerError, free_port
from benchmarks.servers.mariadb import client
from benchmarks.servers.proxy import Proxy

PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
NODES = 3

# A node that nobody hears is taken out after this; Galera's own patience is for wide networks.
_SUSPECT = "evs.suspect_timeout=PT3S;evs.inactive_timeout=PT6S;evs.keepalive_period=PT0.5S"
_PATIENCE = 120.0
_PERIOD = 0.3


class GaleraNode(MariaDBServer):
    """One node. It answers once it is synced with its cluster."""

    def __init__(
        self, directory: Path | str, number: int, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(directory, None, settings)
        self.number = number
        self.group_port, self.ist_port, self.sst_port = (free_port() for _ in range(3))
        self.members: list[GaleraNode] = []
        self._founds = False

    @property
    def group_address(self) -> str:
        """Where the other nodes meet it."""
        return f"{self.host}:{self.group_port}"

    def found(self) -> None:
        """Starts as the first node of a new cluster."""
        self._founds = True
        try:
            self.start()
        finally:
            self._founds = False

    def prepare(self) -> None:
        options = ";".join(
            [
                f"gmcast.listen_addr=tcp://{self.group_address}",
                f"ist.recv_addr={self.host}:{self.ist_port}",
                "gcache.size=64M",
                _SUSPECT,
            ]
        )
        addresses = ",".join(node.group_address for node in self.members)
        self.settings |= {
            "wsrep_on": "ON",
            "wsrep_provider": str(PROVIDER),
            "wsrep_cluster_name": "agent-sessions",
            "wsrep_cluster_address": f"gcomm://{addresses}",
            "wsrep_node_name": f"node{self.number}",
            "wsrep_node_address": self.host,
            "wsrep_node_incoming_address": f"{self.host}:{self.port}",
            "wsrep_provider_options": f'"{options}"',
            "wsrep_sst_method": "rsync",
            "wsrep_sst_receive_address": f"{self.host}:{self.sst_port}",
            "binlog_format": "ROW",
            "innodb_autoinc_lock_mode": "2",
        }
        super().prepare()

    def command(self) -> list[str | Path]:
        return [*super().command(), *(["--wsrep-new-cluster"] if self._founds else [])]

    def answers(self, *, patience: int = 30) -> bool:
        try:
            found = dict(self.run("SHOW STATUS LIKE 'wsrep_%'", patience=patience))
        except client().Error:
            return False
        return (
            found.get("wsrep_ready") == "ON" and found.get("wsrep_local_state_comment") == "Synced"
        )

    def status(self, name: str) -> str:
        """Reads one of the node's status variables."""
        rows = self.run(f"SHOW STATUS LIKE '{name}'")
        return str(rows[0][1]) if rows else ""

    def isolate(self) -> None:
        """Cuts it off from the others: it hears nobody and nobody hears it, and clients do."""
        self.run("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")

    def heal(self) -> None:
        """Lets it hear the others again."""
        self.run("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")


class GaleraCluster:
    """Three nodes; as a context manager they are there for the block."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        if not PROVIDER.exists():
            raise ServerError(f"Galera is not installed: there is no {PROVIDER}")
        self.nodes = [
            GaleraNode(directory / f"node{number}", number, settings) for number in range(NODES)
        ]
        for node in self.nodes:
            node.members = self.nodes

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.destroy()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def start(self) -> None:
        """Founds the cluster and lets the other nodes join, one after the other."""
        first, *others = self.nodes
        first.found()
        for node in others:
            node.start()
        self.await_size(NODES)

    def await_size(self, size: int, patience: float = _PATIENCE) -> None:
        """Waits until the nodes that run agree on how many there are, and are synced."""
        deadline = time.monotonic() + patience
        while not all(node.answers() and self._size(node) == size for node in self._running()):
            if time.monotonic() > deadline:
                raise ServerError(f"the cluster did not come to {size} nodes: {self.describe()}")
            time.sleep(0.1)

    def describe(self) -> dict[str, Any]:
        """Tells what each node says of itself."""
        names = ("wsrep_cluster_status", "wsrep_cluster_size", "wsrep_local_state_comment")
        found: dict[str, Any] = {}
        for node in self.nodes:
            try:
                found[f"node{node.number}"] = {name: node.status(name) for name in names}
            except client().Error as error:
                found[f"node{node.number}"] = str(error)
        return found

    def destroy(self) -> None:
        """Kills all nodes and removes their directories."""
        with ThreadPoolExecutor(NODES) as pool:
            list(pool.map(GaleraNode.destroy, self.nodes))

    def _running(self) -> list[GaleraNode]:
        return [node for node in self.nodes if node.pid is not None]

    def _size(self, node: GaleraNode) -> int:
        try:
            return int(node.status("wsrep_cluster_size") or 0)
        except client().Error:
            return 0


class Balancer(Proxy):
    """A proxy before the nodes: new connections go to the first one that is ready.

    It does what a site's own does (HAProxy, MaxScale, ProxySQL): it asks the nodes how they are,
    and hangs up on the clients of one that is not ready any more, so that they come again.
    """

    def __init__(self, nodes: Sequence[GaleraNode]) -> None:
        self.failovers = 0
        self._ready: dict[int, bool] = {}
        self._last: int | None = None
        self._over = threading.Event()
        self._nodes = nodes
        super().__init__(self._choose)

    def __enter__(self) -> Self:
        for node in self._nodes:
            threading.Thread(target=self._watch, args=[node], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.close()

    def _watch(self, node: GaleraNode) -> None:
        while not self._over.wait(_PERIOD):
            ready = node.pid is not None and node.answers(patience=1)
            if self._ready.get(node.port) and not ready:
                self.reset(node.port)
            self._ready[node.port] = ready

    def _choose(self) -> int | None:
        port = next((node.port for node in self._nodes if self._ready.get(node.port)), None)
        self.failovers += self._last not in (None, port) and port is not None
        self._last = port or self._last
        return port
