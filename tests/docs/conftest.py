from __future__ import annotations

import pytest

from .site import Site


@pytest.fixture(scope="session")
def site(tmp_path_factory, other_process) -> Site:
    """The documentation as it is published. Building it takes some seconds."""
    return Site(tmp_path_factory.mktemp("site") / "html")
