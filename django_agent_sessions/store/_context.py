"""What the parts of a store have in common: whose sessions in which database, and async twins."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.values.ids import SessionKey, validate_id
from django_agent_sessions.values.owners import EVERYBODY, NOBODY, owner_key

from ._base import HasDatabase
from ._queries import session_rows

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class StoreContext:
    """The owner, the namespace, the scope and the database of a store."""

    owner: Any
    namespace: str
    scope: str
    alias: str | None
    creates: bool

    @property
    def using(self) -> str:
        """The alias of the database."""
        return bridge.database(self.alias)

    @property
    def reach(self) -> Any:
        """The owner whose sessions are reached: a primary key, ``NOBODY`` or ``EVERYBODY``.

        Resolved at each use, because a lazy ``request.user`` queries the database, which a
        constructor in an event loop must not do.
        """
        return owner_key(self.owner)

    @property
    def owner_id(self) -> Any:
        """Primary key of the owner of new sessions and objects; None for no owner."""
        reach = self.reach
        return None if reach is NOBODY or reach is EVERYBODY else reach

    def key(self, session_id: str) -> SessionKey:
        """Return the key of a session with a validated id."""
        return SessionKey(self.namespace, self.scope, validate_id(session_id))

    def reaches(self, owner_id: Any) -> bool:
        """Return whether rows with this owner, or without one (None), are reached."""
        reach = self.reach
        return reach is EVERYBODY or owner_id == (None if reach is NOBODY else reach)

    def sessions(self) -> SessionQuerySet:
        """Return the sessions that are reached, in all namespaces and scopes."""
        return session_rows(self.using).owned_by(self.reach)

    def not_found(self, session_id: str) -> SessionNotFoundError:
        hint = ""
        if self.reach is NOBODY:
            hint = (
                " among the sessions without an owner; if it belongs to a user, pass owner=user, "
                "or owner=EVERYBODY in code that may access all sessions"
            )
        return SessionNotFoundError(f"session {session_id!r} does not exist{hint}")


class StorePart:
    """The operations of a store on one kind of row."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context

    @property
    def using(self) -> str:
        """The alias of the database."""
        return self._context.using


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
    run.__doc__ = f"Async twin of :meth:`{name}`."
    return run
