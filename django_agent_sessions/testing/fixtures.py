"""Fixtures for a project's own tests.

In the project's ``conftest.py``::

    pytest_plugins = ["django_agent_sessions.testing.fixtures"]
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_agent_sessions.models import Session


@pytest.fixture
def make_agent_session(db: None) -> Callable[..., Session]:
    """Return :func:`~django_agent_sessions.testing.make_session`, with the test's database."""
    from django_agent_sessions.testing import make_session

    return make_session
