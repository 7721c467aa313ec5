"""The errors of this package. Messages contain ids and what to do, never message content.

::

    AgentSessionsError
    ├ ConfigurationError (ImproperlyConfigured)
    │  ├ MissingDependencyError (ImportError)      names the extra to install
    │  ├ UnreadableStateError (ValueError)         the state is corrupt, or of another release
    │  └ SynchronousCallError                      a sync function in a running event loop
    ├ SessionNotFoundError (ObjectDoesNotExist)    no such session, or another owner's
    │  └ TargetNotFoundError                       no such agent, message, branch or snapshot in it
    ├ SessionConflictError                         another process modified the session
    │  ├ StaleSessionError                         a redaction happened since the last read
    │  └ MatchesChangedError                       a redaction has other matches than its preview
    ├ SessionBusyError                             another run holds the session's lease
    ├ InvalidIdError (ValueError)                  an id that is not allowed
    ├ PayloadError (TypeError)                     not JSON, over a limit, or not restorable
    ├ LegalHoldError (ProtectedError)              the session is under legal hold
    ├ QuotaExceededError                           the owner has as much as a setting allows
    ├ RedactionScopeError (ValueError)             the scope of a redaction does not exist
    ├ WorkLimitError                               the work is too much for one request
    ├ ReasonError (ValueError)                     the reason of an action is too long
    │  └ ReasonRequiredError                       an action requires a reason
    ├ ErasureReceiptError (ValueError)             not a receipt, or its signature is wrong
    ├ AuditError                                   audit events are append-only
    ├ BlobError
    │  └ BlobNotFoundError
    └ EncryptionError                              content cannot be encrypted or decrypted
       ├ EncryptionKeyError                        a key is missing or wrong
       │  └ DestroyedKeyError                      a data key was destroyed
       ├ DecryptionError                           a value was truncated, changed or moved
       └ EncryptedSearchError                      encrypted words cannot be searched
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.core.exceptions import (
    ImproperlyConfigured,
    ObjectDoesNotExist,
    SynchronousOnlyOperation,
)
from django.db.models import ProtectedError

if TYPE_CHECKING:
    from django.db.models import Model


class AgentSessionsError(Exception):
    """Base class of all errors of this package."""


class ConfigurationError(AgentSessionsError, ImproperlyConfigured):
    """A setting is invalid, or the package is called in an unsupported way."""


class MissingDependencyError(ConfigurationError, ImportError):
    """An optional dependency is not installed.

    Args:
        distribution: Name of the missing distribution, for example ``strands-agents``.
        extra: The extra of this package that installs it.
    """

    def __init__(self, distribution: str, *, extra: str) -> None:
        super().__init__(
            f"{distribution} is not installed. Install it with: "
            f'pip install "django-agent-sessions[{extra}]"'
        )


class UnreadableStateError(ConfigurationError, ValueError):
    """An agent's or orchestrator's stored state is corrupt, or of another release or class.

    It is a ``ValueError``, as Strands raises for the state of another conversation manager.
    """


class SynchronousCallError(ConfigurationError, SynchronousOnlyOperation):
    """A sync function was called in a running event loop; the message names what to await.

    It is a ``SynchronousOnlyOperation``, as Django's own sync functions raise.
    """


class SessionNotFoundError(AgentSessionsError, ObjectDoesNotExist):
    """The session does not exist or has another owner.

    It is an ``ObjectDoesNotExist``, so that a view that answers that with a 404 answers this, too.
    """


class TargetNotFoundError(SessionNotFoundError):
    """The session has no such agent, message, branch, snapshot or note.

    Args:
        kind: What was named: ``"agent"``, ``"message"``, ``"branch"``, ``"snapshot"`` or
            ``"note"``.
        text: The message of the error.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class SessionConflictError(AgentSessionsError):
    """Another process modified the conversation; reload it and try again."""


class StaleSessionError(SessionConflictError):
    """A redaction happened after the caller read the session; reload it before writing."""


class MatchesChangedError(SessionConflictError):
    """A redaction has other matches than the preview that its caller has seen.

    Attributes:
        result: The present matches, which were not redacted.
    """

    def __init__(self, result: Any) -> None:
        super().__init__("the matches are not those of the preview; check them and try again")
        self.result = result


class SessionBusyError(AgentSessionsError):
    """Another run holds the session's lease."""


class InvalidIdError(AgentSessionsError, ValueError):
    """An id is blank, too long, or contains characters that cannot be displayed or stored."""


class PayloadError(AgentSessionsError, TypeError):
    """A value is not JSON, exceeds a limit, or would not be read back equal."""


class LegalHoldError(AgentSessionsError, ProtectedError):
    """A session is under legal hold, so its content cannot be deleted.

    It is a ``ProtectedError``, so that the admin shows its usual "cannot delete" page.
    """

    def __init__(self, msg: str, protected_objects: Iterable[Model] = ()) -> None:
        held: set[Any] = set(protected_objects)
        ProtectedError.__init__(self, msg, held)
        self._message = msg

    def __str__(self) -> str:
        # Django's text would also contain the set of the objects.
        return self._message


class QuotaExceededError(AgentSessionsError):
    """A request would exceed a quota of the session's owner; the message names the remedy."""


class ErasureReceiptError(AgentSessionsError, ValueError):
    """A file is not the receipt of an erasure, or its signature is wrong."""


class RedactionScopeError(AgentSessionsError, ValueError):
    """The scope of a redaction does not exist or is empty."""


class WorkLimitError(AgentSessionsError):
    """The work takes more processor time or memory than one request may use."""


class ReasonError(AgentSessionsError, ValueError):
    """The reason of an audited action is too long."""


class ReasonRequiredError(ReasonError):
    """An audited action requires a reason, and it is blank."""


class AuditError(AgentSessionsError):
    """An audit event cannot be changed or deleted."""


class BlobError(AgentSessionsError):
    """A large binary could not be stored or read."""


class BlobNotFoundError(BlobError):
    """A large binary that a message refers to is not in the storage."""


class EncryptionError(AgentSessionsError):
    """Content cannot be encrypted or decrypted. Nothing was changed, skipped or left out."""


class EncryptionKeyError(EncryptionError):
    """A master key or data key is missing, is another one, or was destroyed."""


class DestroyedKeyError(EncryptionKeyError):
    """The data key does not exist any more, so what it encrypted cannot be read by anyone.

    Args:
        key: The id of the key.
        database: The alias of the database of the keys.
    """

    def __init__(self, key: str, database: str) -> None:
        super().__init__(
            f"data key {key} does not exist in database {database!r}: it was destroyed with the "
            "data of its owner, or KEY_DATABASE names another database"
        )
        self.key = key


class DecryptionError(EncryptionError):
    """An encrypted value was truncated, changed, moved, or written by a newer version."""


class EncryptedSearchError(EncryptionError):
    """Words were searched, and the database cannot search what is encrypted."""
