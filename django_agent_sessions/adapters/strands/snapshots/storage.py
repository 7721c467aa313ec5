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
from django_agent_sessions.owners import NOBODY

from . import keys
from .documents import UnstructuredError
from .work import StorageWork

if TYPE_CHECKING:
    from strands.storage.search.types import SearchStrategy

R = TypeVar("R")

_MOST_SEARCHED = 1000


class DjangoStorage:
    """Keeps what Strands' constructs store in the project's database.

    ::

        agent = Agent(
            session_manager=SnapshotSessionManager("user-123"),
            storage=DjangoStorage(owner=request.user),
        )

    The snapshots of a ``SnapshotSessionManager`` become sessions, agents and messages as any
    others: a save writes what is new. Whatever else is written comes back as it is.

    Each method works in any event loop without blocking it, and joins the transaction of a thread
    that waits for it.

    Args:
        owner: The user whose sessions and objects these are, or that user's primary key. Left
            out, sessions and objects without an owner are reached, and made; ``EVERYBODY`` reaches
            every session.
        namespace: The space of session ids, and of keys.
        using: The alias of the database.
        search_strategy: How to search, and what to tell of each write; by default the SDK's
            search for words, through at most 1,000 keys.
        create: Whether a write makes a session or object that is not there. By default it does,
            unless the owner is ``EVERYBODY``, with which it takes True.

    Raises:
        InvalidIdError: The namespace cannot be one.
    """

    def __init__(
        self,
        *,
        owner: Any = NOBODY,
        namespace: str = "",
        using: str | None = None,
        search_strategy: SearchStrategy[Any] | None = None,
        create: bool | None = None,
    ) -> None:
        self._work = StorageWork(owner=owner, namespace=namespace, using=using, create=create)
        self._search_strategy = search_strategy
        self._prefix = ""
        self._most_listed: int | None = None

    async def write(self, key: str, data: bytes) -> None:
        """Writes bytes under a key, in the place of what was there.

        Args:
            key: The key.
            data: The bytes.

        Raises:
            StorageError: They could not be written, or the session of the key is somebody else's.
        """
        normalized = keys.normalized(key)
        full = self._prefix + normalized
        await self._run(f"writing {key!r}", self._work.write, full, bytes(data))
        if self._search_strategy is not None:
            try:
                await self._search_strategy.index(self, normalized, data)
            except Exception as error:
                raise StorageError(f"{key!r} was written, but not indexed") from error

    async def read(self, key: str) -> bytes | None:
        """Reads the bytes under a key.

        Args:
            key: The key.

        Returns:
            The bytes; None if there are none, or none that are this owner's.

        Raises:
            StorageError: They could not be read.
        """
        full = self._prefix + keys.normalized(key)
        return await self._run(f"reading {key!r}", self._work.read, full)

    async def delete(self, key: str) -> None:
        """Deletes what is under a key, if there is anything.

        A session goes when its last snapshot and object does, unless it was written by others too.

        Args:
            key: The key.

        Raises:
            StorageError: It could not be deleted; the session may be under legal hold.
        """
        full = self._prefix + keys.normalized(key)
        await self._run(f"deleting {key!r}", self._work.delete, full)

    async def list(self, query: str = "") -> builtins.list[str]:
        """Lists keys.

        Args:
            query: How they begin; all, if empty.

        Returns:
            The keys, in order of their code points.

        Raises:
            StorageError: They could not be listed.
        """
        full = self._prefix + keys.normalized_prefix(query)
        found = await self._run(f"listing {query!r}", self._work.list, full)
        return [key[len(self._prefix) :] for key in found[: self._most_listed]]

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        """Searches in what is stored.

        Args:
            query: What to look for, in words.

        Returns:
            What was found, the best first.
        """
        if self._search_strategy is not None:
            return await self._search_strategy.search(self, query)
        bounded = copy.copy(self)
        bounded._most_listed = _MOST_SEARCHED
        return await KeywordSearchStrategy().search(bounded, query)

    def namespace(self, prefix: str) -> Self:
        """Makes a view of what is below a prefix.

        Args:
            prefix: What every key of the view begins with.

        Returns:
            The view, on the same store.

        Raises:
            StorageError: The prefix cannot be one.
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
            failure = StorageError(f"{what}: what is stored is corrupt")
        except (Error, OSError) as error:
            # Without its words: PostgreSQL prints the row.
            failure = StorageError(f"{what}: {type(error).__name__}")
        raise failure from cause
