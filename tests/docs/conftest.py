from __future__ import annotations

import fcntl
import os

import pytest

from .site import Site


@pytest.fixture(scope="session")
def site(tmp_path_factory, other_process) -> Site:
    """The documentation as it is published, built once for all workers: it takes half a minute."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Site(folder / "site" / "html")
