"""Fixtures of all tests."""

from __future__ import annotations

import hypothesis
import pytest
from django.contrib.auth import get_user_model

from django_agent_sessions.store import SessionStore

# Tests share their machine with others; how long an example takes says nothing.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


@pytest.fixture
def store() -> SessionStore:
    """A store that reaches every session."""
    return SessionStore()


@pytest.fixture
def session(db, store):
    return store.open("session-1")


@pytest.fixture
def agent(session, store):
    return store.open_agent(session)


@pytest.fixture
def ada(db):
    return get_user_model().objects.create_user("ada")


@pytest.fixture
def bob(db):
    return get_user_model().objects.create_user("bob")
