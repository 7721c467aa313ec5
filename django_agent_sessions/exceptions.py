"""The errors of this package: they carry ids and say what to do, never what was said.

::

    AgentSessionsError
    ├ ConfigurationError (ImproperlyConfigured)
    │  └ MissingDependencyError (ImportError)      names the extra to install
    ├ SessionNotFoundError                         no such session, or not for this owner
    ├ SessionConflictError                         somebody else wrote first
    │  └ StaleSessionError                         a redaction happened since the last read
    ├ SessionBusyError                             another run holds the session
    ├ InvalidIdError (ValueError)                  an id that cannot name anything
    ├ PayloadError (TypeError)                     not JSON, over a limit, or not restorable
    ├ LegalHoldError (ProtectedError)              a held session cannot be deleted
    ├ RedactionScopeError (ValueError)             what to redact is not there
    ├ ReasonRequiredError (ValueError)             what is audited needs a reason
    ├ AuditError                                   audit events are only ever added
    └ BlobError
       └ BlobNotFoundError
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.db.models import ProtectedError

if TYPE_CHECKING:
    from django.db.models import Model


class AgentSessionsError(Exception):
    """Anything this package raises on purpose."""


class ConfigurationError(AgentSessionsError, ImproperlyConfigured):
    """A setting, or the way the package is called, cannot work."""


class MissingDependencyError(ConfigurationError, ImportError):
    """An optional dependency is not installed.

    Args:
        distribution: What the missing thing is called, for example ``strands-agents``.
        extra: The extra of this package that installs it.
    """

    def __init__(self, distribution: str, *, extra: str) -> None:
        super().__init__(
            f"{distribution} is not installed. Install it with: "
            f'pip install "django-agent-sessions[{extra}]"'
        )


class SessionNotFoundError(AgentSessionsError):
    """There is no such session, or none that this owner may know of."""


class SessionConflictError(AgentSessionsError):
    """Somebody else changed the conversation, and the caller asked to be told."""


class StaleSessionError(SessionConflictError):
    """Something was redacted after the caller read it: read again before writing."""


class SessionBusyError(AgentSessionsError):
    """Another run holds the session."""


class InvalidIdError(AgentSessionsError, ValueError):
    """An id is blank, too long, or holds characters that cannot be shown or stored."""


class PayloadError(AgentSessionsError, TypeError):
    """A value is not JSON, is over a limit, or would not come back equal."""


class LegalHoldError(AgentSessionsError, ProtectedError):
    """A session under legal hold would lose content.

    It is a ``ProtectedError``, so that the admin shows its usual "cannot delete" page.
    """

    def __init__(self, msg: str, protected_objects: Iterable[Model] = ()) -> None:
        held: set[Any] = set(protected_objects)
        ProtectedError.__init__(self, msg, held)
        self._message = msg

    def __str__(self) -> str:
        # Django's has the objects behind it, as a set.
        return self._message


class RedactionScopeError(AgentSessionsError, ValueError):
    """A redaction names a place that is not there, or nothing to look for."""


class ReasonRequiredError(AgentSessionsError, ValueError):
    """What is audited needs a reason, and none was given."""


class AuditError(AgentSessionsError):
    """An audit event would be changed or deleted."""


class BlobError(AgentSessionsError):
    """A large binary could not be stored or read."""


class BlobNotFoundError(BlobError):
    """A large binary that a message refers to is not in the storage."""
