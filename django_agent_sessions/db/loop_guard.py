"""Refuse sync functions in a running event loop, with an error that names what to await instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import isfunction
from typing import Any, ParamSpec, TypeVar

from django_agent_sessions.db.transaction_join import running_loop
from django_agent_sessions.exceptions import SynchronousCallError

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def sync_only(function: Callable[P, R], *, twin: str = "") -> Callable[P, R]:
    """Decorate a function that queries the database in the calling thread.

    Django would raise ``SynchronousOnlyOperation`` at its first query, without advice.
    """
    name = function.__qualname__
    advice = f"await {twin}()" if twin else f"await arun_orm({name}, …)"

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        refuse_in_loop(f"{name}()", advice)
        return function(*args, **kwargs)

    return call


def refuse_in_loop(what: str, advice: str) -> None:
    """Raise ``SynchronousCallError`` in a running event loop."""
    if running_loop() is not None:
        raise SynchronousCallError(
            f"{what} queries the database, which a running event loop must not wait for: "
            f"{advice} instead"
        )


def with_guarded_methods(kind: C) -> C:
    """Decorate a class: each public sync method names its async twin in a running event loop."""
    for name, method in [*vars(kind).items()]:
        if isfunction(method) and not name.startswith("_") and not _is_twin(kind, name):
            twin = f"a{name}" if hasattr(kind, f"a{name}") else ""
            setattr(kind, name, sync_only(method, twin=twin))
    return kind


def is_guarded(function: Any, original: Callable[..., Any]) -> bool:
    """Return whether a function is what :func:`sync_only` made of another one.

    A decorator of a project around it has the decorated function, not the original.
    """
    return getattr(function, "__wrapped__", None) is original


def _is_twin(kind: type[Any], name: str) -> bool:
    return name.startswith("a") and hasattr(kind, name[1:])
