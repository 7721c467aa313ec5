"""Fixtures of the tests of the store."""

from __future__ import annotations

import pytest
from django.db import connection


@pytest.fixture
def reconnected(transactional_db):
    """Lets no test inherit a broken connection."""
    yield
    connection.close()
