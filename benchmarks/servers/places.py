"""Where private servers live: ports and directories."""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Below the range from which the system takes ports for outgoing connections, so that a server that
# was killed finds its port free when it comes again.
_PORTS = range(21000, 31000)
_given: set[int] = set()


def free_port() -> int:
    """Finds a port on loopback that nobody listens on, and that was not given away before."""
    for port in random.sample(_PORTS, len(_PORTS)):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise OSError("every port is taken")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def scratch(prefix: str = "agent-sessions-") -> Iterator[Path]:
    """Makes a temporary directory that a server's own user can enter; removes it at the end."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    directory.chmod(0o711)
    owner = os.getpid()
    try:
        yield directory
    finally:
        if os.getpid() == owner:
            shutil.rmtree(directory, ignore_errors=True)
