"""Classes that a project puts in the place of those of this package, by their dotted paths."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from django.utils.module_loading import import_string

from django_agent_sessions.conf import get_settings
from django_agent_sessions.exceptions import ConfigurationError

T = TypeVar("T")


def chosen_class(key: str, default: type[T]) -> type[T]:
    """Return the class that a key of ``AGENT_SESSIONS`` names; ``default`` if it is None.

    Raises ConfigurationError if it cannot be imported or is no subclass of ``default``.
    """
    path = getattr(get_settings(), key)
    return default if path is None else load_class(key, path, default)


def load_class(key: str, path: str, base: type[T]) -> type[T]:
    """Import a subclass of ``base``; ``key`` is the setting, for errors."""
    found = _import(key, path)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigurationError(
            f"AGENT_SESSIONS[{key!r}] is {path!r}, which is not a subclass of {base.__name__}"
        )
    return found


@functools.cache
def _import(key: str, path: str) -> Any:
    try:
        return import_string(path)
    except Exception as error:  # importing the project's module can raise anything
        raise ConfigurationError(
            f"AGENT_SESSIONS[{key!r}] is {path!r}, which cannot be imported: {error}"
        ) from error
