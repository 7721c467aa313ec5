"""The ``AGENT_SESSIONS`` setting: typed, documented, and read at each access.

Nothing here is cached, so that ``override_settings`` works and a test never sees another's values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from django.conf import settings as django_settings

SETTING = "AGENT_SESSIONS"


@dataclass(frozen=True, slots=True)
class AgentSessionsSettings:
    """Every key of ``AGENT_SESSIONS``, with its default."""

    DATABASE: str | None = None
    """Alias of the database that holds the sessions. ``None`` asks the database routers."""

    MAX_PAYLOAD_BYTES: int = 64 * 1024 * 1024
    """The largest message or state, in bytes of JSON text (UTF-8), bytes values as base64."""

    MAX_PAYLOAD_DEPTH: int = 200
    """How deep lists and dicts may nest in a message or state."""

    MAX_INTEGER_DIGITS: int = 4300
    """How many digits an integer may have. Python itself refuses to read more than 4,300."""

    MAX_CONNECTIONS: int = 8
    """How many connections of its own one process opens per database for agents that run inside
    an event loop. One is the rule; others open only while that one is stuck on a lock."""

    CONNECTION_SETUP: str | None = None
    """Dotted path of a callable that takes the connection and returns a context manager, entered
    around every piece of work on a connection of our own: row-level security, django-tenants."""

    WRITE_RETRIES: int = 50
    """How often a write is tried again when another process wrote to the same conversation at the
    same moment, before :class:`~django_agent_sessions.exceptions.SessionConflictError`."""


def get_settings() -> AgentSessionsSettings:
    """Reads ``settings.AGENT_SESSIONS``.

    Keys that do not exist are left out here and reported by the system check, so that a typing
    error breaks ``manage.py check`` and not a customer's request.

    Returns:
        The settings as they are now.
    """
    given = getattr(django_settings, SETTING, None)
    if not given:
        return _DEFAULTS
    return AgentSessionsSettings(**{k: v for k, v in given.items() if k in _FIELDS})


def problems(given: object) -> list[tuple[str, str]]:
    """Says what is wrong with a value of ``AGENT_SESSIONS``.

    Args:
        given: The value of the setting.

    Returns:
        Pairs of what is wrong and what to do about it; empty when all is well.
    """
    if not isinstance(given, Mapping):
        return [(f"{SETTING} must be a dict", f"Write {SETTING} = {{…}} in the settings.")]
    found = []
    hints = get_type_hints(AgentSessionsSettings)
    for key, value in given.items():
        if key not in _FIELDS:
            known = ", ".join(sorted(_FIELDS))
            found.append((f"{SETTING} has no key {key!r}", f"The keys are: {known}."))
        elif not _fits(value, hints[key]):
            expected = getattr(hints[key], "__name__", None) or str(hints[key])
            found.append(
                (
                    f"{SETTING}[{key!r}] is of type {type(value).__name__}",
                    f"It must be {expected}.",
                )
            )
        elif isinstance(value, int) and not isinstance(value, bool) and value < 1:
            found.append((f"{SETTING}[{key!r}] is {value}", "It must be 1 or more."))
    return found


def _fits(value: object, hint: Any) -> bool:
    allowed = get_args(hint) or (hint,)
    return type(value) in allowed


_FIELDS = frozenset(f.name for f in dataclasses.fields(AgentSessionsSettings))
_DEFAULTS = AgentSessionsSettings()
