"""What the parts of a store have in common: whose sessions in which database, and async twins."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import with_guarded_methods
from django_agent_sessions.db.retries import HasDatabase
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import Session
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.models.session_names import SessionName, name_in_errors
from django_agent_sessions.values.ids import SessionKey, validate_id
from django_agent_sessions.values.owners import EVERYBODY, NOBODY, Reach
from django_agent_sessions.values.records import SessionRecord

if TYPE_CHECKING:
    from ._store import SessionStore

logger = logging.getLogger("django_agent_sessions")

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class StoreContext:
    """The reach, the namespace, the scope and the database of a store."""

    reach: Reach
    namespace: str
    scope: str
    alias: str | None
    creates: bool

    @property
    def using(self) -> str:
        """The alias of the database."""
        return bridge.database(self.alias)

    def key(self, session_id: str | UUID) -> SessionKey:
        """Return the key of a session with a validated id."""
        return SessionKey(self.namespace, self.scope, validate_id(session_id))

    def sessions(self) -> SessionQuerySet:
        """Return the sessions that are reached.

        Without a namespace and scope, these are the owner's sessions in all of them, which a
        primary key can name.
        """
        rows = Session.objects.using(self.using).filter(self.reach.condition())
        if self.namespace or self.scope:
            rows = rows.filter(namespace=self.namespace, scope=self.scope)
        return rows

    def includes(self, session: SessionRecord | Session) -> bool:
        """Return whether a session is among :meth:`sessions`."""
        everywhere = not (self.namespace or self.scope)
        here = everywhere or (session.namespace, session.scope) == (self.namespace, self.scope)
        return here and self.reach.includes(session.owner_id)

    def not_found(self, session: SessionName) -> SessionNotFoundError:
        name = name_in_errors(session)
        hint = ""
        if self.reach.key is NOBODY:
            hint = (
                " among the sessions without an owner; if it belongs to a user, pass owner=user, "
                "or owner=EVERYBODY in code that may access all sessions"
            )
        elif self.reach.key is not EVERYBODY:
            # Only in the log: an answer must not reveal that another user has such a session.
            logger.warning(
                "session %r in namespace %r was not found for owner %s: it does not exist, or has "
                "another owner",
                name,
                self.namespace,
                self.reach.owner_id,
            )
        return SessionNotFoundError(f"session {name!r} does not exist{hint}")


class StorePart:
    """The operations of a store on one kind of row."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        with_guarded_methods(cls)

    def __init__(self, context: StoreContext) -> None:
        self._context = context

    @property
    def using(self) -> str:
        """The alias of the database."""
        return self._context.using


class StoreOperations:
    """Further operations on a store, for one kind of caller. The base class of such operations."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        with_guarded_methods(cls)

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self._context = store._context

    @property
    def using(self) -> str:
        """The alias of the database."""
        return self.store.using


S = TypeVar("S", bound=HasDatabase)


def twin(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return the async twin of a method, which does not block the event loop.

    It calls the method by its name, so that a subclass overrides both.
    """
    name = method.__name__

    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        operation: Callable[P, R] = getattr(self, name)
        return await bridge.run_async(
            functools.partial(operation, *args, **kwargs), using=self.using
        )

    functools.update_wrapper(run, method)
    run.__name__ = f"a{name}"
    run.__qualname__ = method.__qualname__.removesuffix(name) + run.__name__
    run.__doc__ = f"Async version of :meth:`{name}`."
    return run
