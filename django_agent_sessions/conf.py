"""The ``AGENT_SESSIONS`` setting: typed, documented, and read at each access.

What is made of the setting is kept only as long as the setting says the same, so that
``override_settings`` works and a test never sees another's values.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from django.conf import settings as django_settings

from .exceptions import ConfigurationError

SETTING = "AGENT_SESSIONS"


@dataclass(frozen=True, slots=True)
class AgentSessionsSettings:
    """Every key of ``AGENT_SESSIONS``, with its default."""

    DATABASE: str | None = None
    """Alias of the database that holds the sessions. It is that of the users, because a session's
    owner is a foreign key. ``None`` asks the database routers."""

    MAX_PAYLOAD_BYTES: int = 64 * 1024 * 1024
    """The largest message or state, in bytes of JSON text (UTF-8), bytes values as base64."""

    MAX_PAYLOAD_DEPTH: int = 200
    """How deep lists and dicts may nest in a message or state."""

    MAX_INTEGER_DIGITS: int = 4300
    """How many digits an integer may have. Python itself refuses to read more than 4,300."""

    BLOB_STORAGE: str | None = None
    """Alias in ``STORAGES`` of the storage that keeps the large binaries of messages: images,
    documents, recordings. ``None`` keeps them in the messages. Files that were stored stay readable
    where they are when the alias changes. Never a storage that a web server serves to everybody."""

    BLOB_MIN_BYTES: int = 8 * 1024
    """The smallest binary that goes to ``BLOB_STORAGE``, in bytes."""

    BLOB_PREFIX: str = "agent_sessions"
    """The folder in ``BLOB_STORAGE``; each session has a folder in it."""

    BLOB_PLACEHOLDERS: bool = False
    """Whether an agent goes on with a text in the place of a binary that is missing or damaged,
    instead of :class:`~django_agent_sessions.exceptions.BlobNotFoundError`."""

    BLOB_URL_SECONDS: int | None = None
    """How many seconds the signed URL of a binary is good for, where the storage makes such URLs
    and frontends shall fetch from there. ``None`` sends every binary through Django."""

    MAX_BLOB_BYTES: int = 100 * 1024 * 1024
    """The largest binary that goes to ``BLOB_STORAGE``, in bytes."""

    MAX_BLOBS: int = 200
    """How many large binaries one message may have."""

    MAX_CONNECTIONS: int = 8
    """How many connections of its own one process opens per database for agents that run inside
    an event loop. One is the rule; others open only while that one is stuck on a lock."""

    CONNECTION_SETUP: str | None = None
    """Dotted path of a callable that takes the connection and returns a context manager, entered
    around every piece of work on a connection of our own: row-level security, django-tenants."""

    WRITE_RETRIES: int = 50
    """How often a write is tried again when another process wrote to the same conversation at the
    same moment, before :class:`~django_agent_sessions.exceptions.SessionConflictError`."""

    RETRY_SECONDS: int | float = 10
    """Seconds for which database work is tried again while the server is away, starts anew, or
    somebody holds a lock: outside of a transaction of the caller's. After that, and in a
    transaction at once, Django's own error is raised."""

    REDACTION_KEEP_ORIGINAL: bool = False
    """Whether a redacted message keeps its original for a time, for whoever has the permission
    ``view_original`` and gives a reason. States, titles and metadata never keep theirs."""

    REDACTION_ORIGINAL_TTL: int = 30 * 24 * 60 * 60
    """How many seconds an original is kept. It is not shown any longer after that, and
    ``manage.py purge_redacted_originals`` removes it."""

    REDACT_ON_WRITE: tuple[str, ...] = ()
    """Names of detectors whose findings are masked before a message, state, title or metadata is
    written. What the agent has in memory stays as it is until it is restored."""

    DETECTORS: tuple[str, ...] = ()
    """Dotted paths of further detectors: see :mod:`django_agent_sessions.detectors`."""

    FULL_TEXT_SEARCH: str | None = None
    """PostgreSQL's text search configuration (``"simple"``, ``"english"`` …) of the index that
    ``manage.py agent_sessions_search_index`` makes. ``None`` searches without an index."""

    SEARCH_CANDIDATES: int = 10_000
    """How many of the newest messages a search without an index looks at."""

    EVENTS_POLL_SECONDS: int | float = 1
    """Seconds between two looks of a process at all sessions whose events it streams: one small
    statement, and only while somebody waits."""

    LISTEN_DATABASE: str | None = None
    """Alias by which PostgreSQL's notices of new messages are heard, so that streams tell of them
    at once and the database is looked at every 15 seconds only. It is the same database over a
    connection of its own: not through a pooler in transaction mode. Needs psycopg 3."""

    REPLICA_DATABASE: str | None = None
    """Alias of a replica of the sessions' database, from which lists of sessions and the messages
    of transcripts are shown, in the API and the admin. Agents never read from it, and nothing that
    is written depends on it: see :mod:`django_agent_sessions.replicas`."""

    REPLICA_LAG_SECONDS: int | float = 10
    """Seconds for which somebody who has just written reads from the primary: more than the
    replica is ever behind. It takes the middleware
    ``django_agent_sessions.middleware.reading_own_writes``."""

    LEASE_SECONDS: int | float = 30
    """Seconds after which an exclusive run that gave no sign of life may lose its session to the
    next one: its process was killed, or stood still. A living one gives a sign three times as
    often."""

    LEASE_WAIT_SECONDS: int | float = 60
    """Seconds that an exclusive run waits for a session that another run holds, before
    :class:`~django_agent_sessions.exceptions.SessionBusyError`."""


def get_settings() -> AgentSessionsSettings:
    """Reads ``settings.AGENT_SESSIONS``.

    Keys that do not exist are left out here and reported by the system check, so that a typing
    error breaks ``manage.py check`` and not a customer's request.
    """
    global _known
    given = getattr(django_settings, SETTING, None)
    if not given:
        return _DEFAULTS
    said, known = _known
    if given != said:
        if not isinstance(given, Mapping):
            raise ConfigurationError(_NO_DICT)
        known = AgentSessionsSettings(**{k: v for k, v in given.items() if k in _FIELDS})
        # A copy, because a test may change the dict itself.
        _known = copy.deepcopy(given), known
    return known


def problems(given: object) -> list[tuple[str, str]]:
    """Says what is wrong with a value of ``AGENT_SESSIONS``."""
    if not isinstance(given, Mapping):
        return [(_NO_DICT, f"Write {SETTING} = {{…}} in the settings.")]
    found = []
    hints = get_type_hints(AgentSessionsSettings)
    for key, value in given.items():
        if key not in _FIELDS:
            found.append((f"{SETTING} has no key {key!r}", _keys_like(key)))
        elif wrong := _wrong(value, hints[key]):
            takes = _WORDS[hints[key]] + _EXAMPLES.get(key, "")
            found.append((f"{SETTING}[{key!r}] {wrong}", f"It must be {takes}."))
    return found


def _keys_like(key: object) -> str:
    """Says which keys there are, and which of them was meant, if one is like what was written."""
    near = difflib.get_close_matches(str(key).upper(), sorted(_FIELDS), n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return f"{meant}The keys are: {', '.join(sorted(_FIELDS))}."


def _wrong(value: object, hint: Any) -> str:
    """Says what is wrong with one value; nothing if it is right."""
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            return f"is of type {type(value).__name__}"
        # No more than its type: what is put there by mistake may be anything.
        odd = [type(item).__name__ for item in value if not isinstance(item, str)]
        return f"has an item of type {odd[0]}" if odd else ""
    if type(value) not in (get_args(hint) or (hint,)):
        return f"is of type {type(value).__name__}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    right = 0 < value < math.inf if float in get_args(hint) else value >= 1
    return "" if right else f"is {value}"


_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number, 1 or more",
    int | None: "a whole number, 1 or more, or None",
    int | float: "a finite number, more than 0",
    str: "a text",
    str | None: "a text, or None",
    tuple[str, ...]: "a list of texts",
}
_EXAMPLES = {
    "REDACT_ON_WRITE": ', such as ["card"]',
    "DETECTORS": ', such as ["project.detectors.StaffNumber"]',
}
_FIELDS = frozenset(f.name for f in dataclasses.fields(AgentSessionsSettings))
_NO_DICT = f"{SETTING} must be a dict"
_DEFAULTS = AgentSessionsSettings()
_known: tuple[Mapping[str, Any], AgentSessionsSettings] = {}, _DEFAULTS
