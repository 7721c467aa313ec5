"""Strands' ``Storage`` on the store."""

from __future__ import annotations

import builtins
import copy
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from django.db import Error
from strands.storage.search.keyword import KeywordSearchStrategy
from strands.storage.storage import _NAMESPACED, StorageSearchResult
from strands.types.exceptions import StorageError

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.values.owners import NOBODY

from . import keys
from .json_documents import UnstructuredError
from .storage_operations import StorageOperations

if TYPE_CHECKING:
    from strands.storage.search.types import SearchStrategy

R = TypeVar("R")

_MAX_SEARCHED = 1000


class DjangoStorage:
    """Stores the data of Strands' constructs in the project's database.

    ::

        agent = Agent(
            session_manager=SnapshotSessionManager("user-123"),
            storage=DjangoStorage(owner=request.user),
        )

    The snapshots of a ``SnapshotSessionManager`` become ordinary sessions, agents and messages: a
    save writes only what is new. Everything else is stored and returned verbatim.

    Each method works in any event loop without blocking it, and joins the transaction of a thread
    that waits for it.

    Args:
        owner: The user whose sessions and objects these are, or that user's primary key. If
            omitted, only sessions and objects without an owner are reached and created;
            ``EVERYBODY`` reaches all sessions.
        namespace: The namespace of session ids and keys.
        scope: A second level below the namespace, such as a tenant; empty by default.
        using: The alias of the database.
        search_strategy: The search, which may also index each write; by default the SDK's keyword
            search in at most 1,000 keys.
        create: Whether a write creates a missing session or object. The default is True, except
            with ``owner=EVERYBODY``.

    Raises:
        InvalidIdError: The namespace or the scope is invalid.
    """

    def __init__(
        self,
        *,
        owner: Any = NOBODY,
        namespace: str = "",
        scope: str = "",
        using: str | None = None,
        search_strategy: SearchStrategy[Any] | None = None,
        create: bool | None = None,
    ) -> None:
        self._work = StorageOperations(
            namespace=namespace, owner=owner, scope=scope, using=using, create=create
        )
        self._search_strategy = search_strategy
        self._prefix = ""
        self._max_listed: int | None = None

    async def write(self, key: str, data: bytes) -> None:
        """Write bytes under a key; replaces existing bytes.

        Args:
            key: The key.
            data: The bytes.

        Raises:
            StorageError: The write failed, or the session of the key has another owner.
        """
        normalized = keys.normalized(key)
        full = self._prefix + normalized
        self._work.trace(full)
        await self._run(f"writing {key!r}", self._work.write, full, bytes(data))
        if self._search_strategy is not None:
            try:
                await self._search_strategy.index(self, normalized, data)
            except Exception as error:
                raise StorageError(
                    f"{key!r} was written, but the search strategy could not index it"
                ) from error

    async def read(self, key: str) -> bytes | None:
        """Return the bytes under a key.

        Args:
            key: The key.

        Returns:
            The bytes; None if there are none or they have another owner.

        Raises:
            StorageError: The read failed.
        """
        full = self._prefix + keys.normalized(key)
        self._work.trace(full)
        return await self._run(f"reading {key!r}", self._work.read, full)

    async def delete(self, key: str) -> None:
        """Delete the bytes under a key, if there are any.

        A session is deleted with its last snapshot and object, unless other writers have used it.

        Args:
            key: The key.

        Raises:
            StorageError: The deletion failed; the session may be under legal hold.
        """
        full = self._prefix + keys.normalized(key)
        await self._run(f"deleting {key!r}", self._work.delete, full)

    async def list(self, query: str = "") -> builtins.list[str]:
        """List keys.

        Args:
            query: The beginning of the keys; all keys, if empty.

        Returns:
            The keys, sorted by code points.

        Raises:
            StorageError: The read failed.
        """
        full = self._prefix + keys.normalized_prefix(query)
        found_keys = await self._run(f"listing {query!r}", self._work.list, full)
        return [key[len(self._prefix) :] for key in found_keys[: self._max_listed]]

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        """Search the stored data.

        Args:
            query: The words to search for.

        Returns:
            The results, best first.
        """
        if self._search_strategy is not None:
            return await self._search_strategy.search(self, query)
        bounded = copy.copy(self)
        bounded._max_listed = _MAX_SEARCHED
        return await KeywordSearchStrategy().search(bounded, query)

    def namespace(self, prefix: str) -> Self:
        """Return a view of the keys below a prefix.

        Args:
            prefix: The beginning of every key of the view.

        Returns:
            The view, on the same store.

        Raises:
            StorageError: The prefix is invalid.
        """
        normalized = keys.normalized_prefix(prefix).rstrip("/")
        scoped = copy.copy(self)
        scoped._prefix = f"{self._prefix}{normalized}/" if normalized else self._prefix
        scoped._namespaced = _NAMESPACED  # type: ignore[attr-defined] # as the SDK's own do
        return scoped

    async def _run(self, what: str, function: Callable[..., R], /, *args: Any) -> R:
        cause: Exception | None = None
        try:
            return await self._work.arun(functools.partial(function, *args))
        except StorageError:
            raise
        except AgentSessionsError as error:
            failure, cause = StorageError(f"{what}: {error}"), error
        except UnstructuredError:
            failure = StorageError(
                f"{what}: the stored data is corrupt: restore it from a backup, or delete it"
            )
        except (Error, OSError) as error:
            # Without the error's text, in which PostgreSQL prints the row.
            failure = StorageError(f"{what}: {type(error).__name__}")
        raise failure from cause
