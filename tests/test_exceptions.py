from __future__ import annotations

import re

import pytest
from django.core.exceptions import (
    ImproperlyConfigured,
    ObjectDoesNotExist,
    SynchronousOnlyOperation,
)
from django.db.models import ProtectedError

from django_agent_sessions import exceptions
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    BlobError,
    BlobNotFoundError,
    ConfigurationError,
    InvalidIdError,
    LegalHoldError,
    MissingDependencyError,
    PayloadError,
    SessionBusyError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
    SynchronousCallError,
)


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        (ConfigurationError, [ImproperlyConfigured]),
        (MissingDependencyError, [ConfigurationError, ImportError]),
        (SynchronousCallError, [ConfigurationError, SynchronousOnlyOperation]),
        (SessionNotFoundError, [ObjectDoesNotExist]),
        (SessionConflictError, []),
        (StaleSessionError, [SessionConflictError]),
        (SessionBusyError, []),
        (InvalidIdError, [ValueError]),
        (PayloadError, [TypeError]),
        (LegalHoldError, [ProtectedError]),
        (BlobError, []),
        (BlobNotFoundError, [BlobError]),
    ],
)
def test_each_error_is_ours_and_what_django_or_python_expects(error, parents):
    assert issubclass(error, (AgentSessionsError,))
    assert all(issubclass(error, parent) for parent in parents)


def test_the_tree_in_the_docstring_names_every_error():
    ours = [
        name
        for name, value in vars(exceptions).items()
        if isinstance(value, type) and issubclass(value, AgentSessionsError)
    ]

    drawn = re.findall(r"^ +[│├└─ ]*(\w+Error)", exceptions.__doc__ or "", re.MULTILINE)
    assert sorted(drawn) == sorted(ours)


def test_a_missing_dependency_names_the_extra_that_installs_it():
    error = MissingDependencyError("strands-agents", extra="strands")

    assert str(error) == (
        "strands-agents is not installed. Install it with: "
        'pip install "django-agent-sessions[strands]"'
    )


def test_a_legal_hold_carries_what_it_protects():
    error = LegalHoldError("held")

    assert error.protected_objects == set()
    assert "held" in str(error)
