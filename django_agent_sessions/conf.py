"""The ``AGENT_SESSIONS`` setting: typed and documented.

The parsed settings are cached while the setting is the same dict, so that reading them costs
nothing and ``override_settings`` works.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from importlib.util import find_spec
from typing import Any, get_args, get_origin, get_type_hints

from django.conf import settings as django_settings

from django_agent_sessions.exceptions import ConfigurationError

SETTING = "AGENT_SESSIONS"

OTHER_MODELS = "*"
"""The name in ``PRICES`` of the models that no other name stands for."""

GENAI_PRICES = "genai-prices"
"""What ``OTHER_MODELS`` stands for: the prices of that package, in US dollars."""


@dataclass(frozen=True, slots=True)
class AgentSessionsSettings:
    """Every key of ``AGENT_SESSIONS``, with its default."""

    DATABASE: str | None = None
    """Alias of the database of the sessions, which may differ from the database of the users.
    ``None`` asks the database routers."""

    ACCESS: str | None = None
    """Dotted path of a subclass of :class:`~django_agent_sessions.models.access.AccessRule`, which
    decides whose sessions a user can access in the API and in the admin. ``None`` checks only
    Django's permissions: see :doc:`/how-to/access`."""

    SESSION_ADMIN: str | None = None
    """Dotted path of a subclass of ``django_agent_sessions.admin.SessionAdmin``, which the admin
    uses for sessions: see :doc:`/how-to/admin`."""

    ROUTER: str | None = None
    """Dotted path of a subclass of ``django_agent_sessions.rest.routers.SessionRouter``, whose
    views ``django_agent_sessions.rest.urls`` serves: see :doc:`/reference/rest`."""

    SESSION_SERIALIZER: str | None = None
    """Dotted path of a subclass of ``django_agent_sessions.rest.serializers.SessionSerializer``,
    which represents one session in the API."""

    SESSION_ROW_SERIALIZER: str | None = None
    """Dotted path of a subclass of ``django_agent_sessions.rest.serializers.SessionRowSerializer``,
    which represents a session in the API's list."""

    SHARE_LINKS: bool = False
    """Whether sessions can be shared by links that anybody can read. While it is off, existing
    links do not work. See :doc:`/how-to/sharing`."""

    SHARE_LINK_SECONDS: int = 30 * 24 * 60 * 60
    """Maximum number of seconds for which a new link is valid."""

    MAX_PAYLOAD_BYTES: int = 64 * 1024 * 1024
    """Maximum size of a message or state, in bytes of JSON text (UTF-8, binaries as base64)."""

    MAX_PAYLOAD_DEPTH: int = 200
    """Maximum nesting depth of lists and dicts in a message or state."""

    MAX_INTEGER_DIGITS: int = 4300
    """Maximum number of digits of an integer. Python itself reads no more than 4,300."""

    BLOB_STORAGE: str | None = None
    """Alias in ``STORAGES`` of the storage for the large binaries of messages: images, documents,
    recordings. ``None`` stores them in the messages. When the alias changes, existing files stay
    readable in their storage. Do not use a storage whose files are public."""

    BLOB_MIN_BYTES: int = 8 * 1024
    """Minimum size of a binary that is stored in ``BLOB_STORAGE``, in bytes."""

    BLOB_PREFIX: str = "agent_sessions"
    """Folder in ``BLOB_STORAGE``. It contains a folder for each session."""

    BLOB_PLACEHOLDERS: bool = False
    """Whether an agent reads a placeholder text for a binary that is missing or damaged. Otherwise
    :class:`~django_agent_sessions.exceptions.BlobNotFoundError` is raised."""

    BLOB_URL_SECONDS: int | None = None
    """Lifetime of the signed URL of a binary, in seconds, if the storage can create such URLs.
    ``None`` serves every binary through Django."""

    MAX_BLOB_BYTES: int = 100 * 1024 * 1024
    """Maximum size of a binary that is stored in ``BLOB_STORAGE``, in bytes."""

    MAX_BLOBS: int = 200
    """Maximum number of large binaries in a message."""

    MAX_CONNECTIONS: int = 8
    """Maximum number of connections that a process opens per database for agents that run in an
    event loop. Usually one is enough; others are opened only after work has waited 0.1 seconds."""

    CONNECTION_SETUP: str | None = None
    """Dotted path of a callable that takes the connection and returns a context manager. Every
    database call on a connection of this package runs in it: row-level security,
    django-tenants."""

    WRITE_RETRIES: int = 50
    """Maximum number of retries of a write that conflicts with a write of another process to the
    same conversation. After that
    :class:`~django_agent_sessions.exceptions.SessionConflictError` is raised."""

    RETRY_SECONDS: int | float = 10
    """Seconds for which a database call is retried while the server is unavailable or restarts, or
    another transaction holds a lock. After that Django's own error is raised. In a transaction of
    the caller it is raised at once."""

    REDACTION_SECONDS: int | float = 1
    """Seconds of processor time that the redaction of a request may take, checked between pieces of
    limited size. Users with the permission ``redact`` may use ten times as much in the API and the
    admin. The command ``agent_sessions_redact`` and your own code have no limit."""

    REDACTION_BYTES: int = 48 * 1024 * 1024
    """Estimated bytes of memory that the redaction of a request may use, with the same
    exceptions."""

    REDACT_ON_WRITE: tuple[str, ...] = ()
    """Names of detectors whose findings are masked before a message, state, title or metadata is
    written. The copy in the agent's memory is not masked until the agent is restored."""

    REASON_REQUIRED: tuple[str, ...] = ("redacted", "held", "released")
    """Actions that require a reason, as the audit trail names them: ``redacted``, ``held``,
    ``released``, ``exported``, ``deleted``, ``forked``, ``rewound``, ``restored``,
    ``branch_deleted``, and ``erased``, which always requires one. Your value replaces the default,
    so include the actions of the default that you want to keep. See :doc:`/how-to/audit`."""

    DETECTORS: tuple[str, ...] = ()
    """Dotted paths of additional detectors: see :mod:`django_agent_sessions.content.detectors`."""

    DIALECTS: tuple[str, ...] = ()
    """Dotted paths of additional message formats, subclasses of
    :class:`django_agent_sessions.content.dialects.Dialect`. They import neither the framework nor
    Django, so that a web process without the framework can show its transcripts."""

    FULL_TEXT_SEARCH: str | None = None
    """PostgreSQL's text search configuration (``"simple"``, ``"english"`` …) of the index that
    ``manage.py agent_sessions_search_index`` creates. ``None`` searches without an index."""

    METADATA_FILTERS: tuple[str, ...] = ()
    """Keys of session metadata by which the admin's list can be filtered."""

    SEARCH_CANDIDATES: int = 10_000
    """Number of the newest messages that a search without an index reads."""

    SEARCH_BYTES: int | None = 16 * 1024 * 1024
    """Maximum size of the texts that a search without an index reads, the newest first, in bytes.
    ``None`` reads all candidates, however long they are."""

    MAX_ANSWER_BYTES: int = 8 * 1024 * 1024
    """Maximum size of the messages, and of the files in them, in an answer of the routes for
    assistant-ui, and of the metadata in its lists of threads, in bytes. The excess is shortened
    or omitted. Other pages have at most 4 MiB of messages."""

    MAX_METADATA_BYTES: int = 64 * 1024
    """Maximum size of the metadata that a client sends for a session, in bytes of JSON; more is a
    413. It does not limit the store and agents."""

    MAX_OWNER_SESSIONS: int | None = 10_000
    """Maximum number of sessions that a user may have to create or fork another one in a request
    to the API. More is a 413. Agents, commands and the admin are not limited. ``None`` for no
    limit."""

    MAX_OWNER_BRANCHES: int | None = 1000
    """Maximum number of branches that a user may have in all sessions to create another one in a
    request to the API, and of snapshots in one session. ``None`` for no limit."""

    MAX_OWNER_BYTES: int | None = 5 * 1024**3
    """Maximum size of the messages and files that a user may have to add more in a request to the
    API: a fork, a branch, a message of a chat client. It is usually summed once an hour, and kept
    in the default cache. ``None`` for no limit."""

    PRICES: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Price of a million input and output tokens of each model, in one currency of your choice:
    ``{"gpt-5": {"input": "1.25", "output": "10"}}``. Tokens of a prompt cache cost what other input
    costs, without ``"cache_read"`` and ``"cache_write"``. A name stands for all models whose names
    begin with it; the longest match counts. ``{"*": "genai-prices"}`` prices all other models by
    the package ``genai-prices`` (extra ``prices``), offline and in US dollars. See
    :doc:`/how-to/feedback`."""

    CURRENCY: str = ""
    """The currency of ``PRICES`` (``"EUR"``), which is shown after costs; that of
    ``genai-prices`` is ``"USD"``."""

    KEEP_SESSIONS_OF_DELETED_USERS: bool = False
    """Whether the sessions of a user whom Django deletes stay, without an owner. Otherwise they are
    deleted with the user. See :ref:`owners-deletion`."""

    RETENTION: Mapping[str, Any] = field(default_factory=dict)
    """How long sessions, audit events and usage are kept: a dict with ``SESSIONS`` (lifetimes by
    namespace), ``AUDIT_EVENTS`` and ``USAGE``. ``manage.py agent_sessions_prune`` deletes what is
    older; by default, only sessions whose ``expires_at`` has passed.
    See :doc:`/how-to/retention`."""

    ENCRYPTION: dict | None = None  # type: ignore[type-arg] # the type that a value must have
    """Encryption of content in the database and in storages: a dict with ``KEYS`` (dotted path of a
    callable that returns the master keys by id, or the keys) and, optionally, ``KEY_DATABASE``
    (alias of the database of the data keys), ``CACHE_SECONDS`` (seconds for which a process keeps a
    key, 60 by default), ``METADATA`` (``True`` encrypts the metadata of sessions too) and
    ``DECRYPT_ONLY`` (``True`` reads what is encrypted, and writes plain text). ``None`` encrypts
    nothing. See :doc:`/how-to/encryption`."""

    OPERATIONS_IN_PROCESS: bool = True
    """Whether the admin runs an operation on all matching sessions in a thread of its own process.
    ``False`` leaves it to ``manage.py agent_sessions_run_operations``, run by cron, as a worker or
    from a task queue. See :doc:`/how-to/operations`."""

    EXPORT_STORAGE: str | None = None
    """Alias in ``STORAGES`` of the storage for exports of all matching sessions. ``None`` uses
    ``BLOB_STORAGE``; without either, such an export is not offered. Do not use a storage whose
    files are public."""

    EXPORT_SECONDS: int = 7 * 24 * 60 * 60
    """Seconds for which the file of an export can be downloaded; after that,
    ``manage.py agent_sessions_run_operations`` deletes it. A redaction or deletion does not change
    the file; an erasure deletes it."""

    EVENTS_POLL_SECONDS: int | float = 1
    """Seconds between two polls of a process for the events of all sessions that it streams. A
    poll is one small query, and only runs while a client is connected."""

    LISTEN_DATABASE: str | None = None
    """Alias of the connection that runs PostgreSQL's ``LISTEN``, so that new messages are streamed
    at once and the database is polled only every 15 seconds. It must be the sessions' database, not
    through a pooler in transaction mode. Requires psycopg 3.2 or
    newer."""

    TELEMETRY: bool = False
    """Whether operations are recorded as OpenTelemetry spans and metrics. It is read at the
    start of the process. Requires ``django-agent-sessions[otel]``. See
    :doc:`/how-to/monitoring`."""

    TELEMETRY_BAGGAGE: bool = True
    """With ``TELEMETRY``, whether the ids of the session are also set as baggage. Instrumented HTTP
    clients send baggage with each request, including those to other companies."""

    LEASE_SECONDS: int | float = 30
    """Seconds after which the lease of an exclusive run expires if it is not renewed, because its
    process was killed or suspended. A run renews its lease three times in this period."""

    LEASE_WAIT_SECONDS: int | float = 60
    """Seconds that an exclusive run waits for a session whose lease another run holds. After that
    :class:`~django_agent_sessions.exceptions.SessionBusyError` is raised."""


def get_settings() -> AgentSessionsSettings:
    """Return the current settings.

    Unknown keys are ignored here and reported by the system check, so that a typing error fails
    ``manage.py check`` and not a request.
    """
    raw = getattr(django_settings, SETTING, None)
    cached, parsed = _cache
    return parsed if raw is cached else _parse(raw)


def _parse(raw: object) -> AgentSessionsSettings:
    """Parse a value of ``AGENT_SESSIONS`` and cache it until the setting is another object."""
    global _cache
    if raw and not isinstance(raw, Mapping):
        raise ConfigurationError(_NO_DICT)
    given = raw if isinstance(raw, Mapping) else {}
    parsed = AgentSessionsSettings(**{k: v for k, v in given.items() if k in _FIELDS})
    _cache = raw, parsed
    return parsed


def raw_settings() -> object:
    """Return ``AGENT_SESSIONS`` as the project wrote it, valid or not."""
    return getattr(django_settings, SETTING, {})


def are_valid(*keys: str) -> bool:
    """Return whether these keys have valid values; a missing key has its default."""
    raw = raw_settings()
    return isinstance(raw, Mapping) and not problems({key: raw[key] for key in keys if key in raw})


def problems(raw: object) -> list[tuple[str, str]]:
    """Return a message and a hint for each problem of a value of ``AGENT_SESSIONS``."""
    if not isinstance(raw, Mapping):
        return [(_NO_DICT, f"Write {SETTING} = {{…}} in the settings.")]
    result = []
    hints = get_type_hints(AgentSessionsSettings)
    for key, value in raw.items():
        if key not in _FIELDS:
            result.append((f"{SETTING} has no key {key!r}", _suggest_key(key)))
        elif problem := _problem(value, hints[key]) or _duration_problem(key, value):
            expected = _TYPES[hints[key]] + _EXAMPLES.get(key, "")
            result.append((f"{SETTING}[{key!r}] {problem}", f"It must be {expected}."))
    if raw.get("CURRENCY") not in (None, "", "USD") and _has_dollars(raw.get("PRICES")):
        problem = f"{SETTING}['CURRENCY'] is not that of {GENAI_PRICES}, which PRICES has"
        result.append((problem, 'It must be "USD".'))
    return result


def _has_dollars(prices: object) -> bool:
    return isinstance(prices, Mapping) and OTHER_MODELS in prices


_LONGEST_SECONDS = 100 * 365 * 24 * 60 * 60
"""A date plus a longer duration would overflow."""


def _suggest_key(key: object) -> str:
    near = difflib.get_close_matches(str(key).upper(), sorted(_FIELDS), n=1)
    suggestion = f"Did you mean {near[0]}? " if near else ""
    return f"{suggestion}The keys are: {', '.join(sorted(_FIELDS))}."


def _problem(value: object, hint: Any) -> str:
    """Return the problem of a value; an empty text if it is valid."""
    if hint == _PRICES:
        return _price_problem(value)
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            return f"is of type {type(value).__name__}"
        # Only its type: the value may be a secret that was put here by mistake.
        invalid = [type(item).__name__ for item in value if not isinstance(item, str)]
        return f"has an item of type {invalid[0]}" if invalid else ""
    if get_origin(hint) is Mapping:
        return "" if isinstance(value, Mapping) else f"is of type {type(value).__name__}"
    if type(value) not in (get_args(hint) or (hint,)):
        return f"is of type {type(value).__name__}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    valid = 0 < value < math.inf if float in get_args(hint) else value >= 1
    return "" if valid else f"is {value}"


def _duration_problem(key: str, value: Any) -> str:
    is_duration = key.endswith(("_SECONDS", "_TTL")) and value is not None
    return "is longer than 100 years" if is_duration and value > _LONGEST_SECONDS else ""


def _price_problem(prices: object) -> str:
    """Return the problem of a table of prices; an empty text if it is valid."""
    if not isinstance(prices, Mapping):
        return f"is of type {type(prices).__name__}"
    for model, price in prices.items():
        if not isinstance(model, str) or not model:
            return "has a key that is not the name of a model"
        if model == OTHER_MODELS:
            if price != GENAI_PRICES:
                return f"has a price for {OTHER_MODELS!r} that is not {GENAI_PRICES!r}"
            if find_spec("genai_prices") is None:
                return "needs genai-prices: install django-agent-sessions[prices]"
            continue
        if not isinstance(price, Mapping) or not price or set(price) - _KINDS_OF_TOKENS:
            return f"has a price for {model!r} that is not a dict with 'input' and 'output'"
        if not all(map(_is_price, price.values())):
            return f"has a price for {model!r} that is not a number of 0 or more"
    return ""


def _is_price(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return False
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return False
    return number.is_finite() and 0 <= number <= _HIGHEST_PRICE


_KINDS_OF_TOKENS = {"input", "output", "cache_read", "cache_write"}
_HIGHEST_PRICE = 10**9
_PRICES = Mapping[str, Mapping[str, Any]]
_TYPES: dict[Any, str] = {
    _PRICES: "a dict of prices by the names of models",
    bool: "True or False",
    int: "a whole number, 1 or more",
    int | None: "a whole number, 1 or more, or None",
    int | float: "a finite number, more than 0",
    str: "a string",
    str | None: "a string, or None",
    dict | None: "a dict, or None",
    tuple[str, ...]: "a list of strings",
    Mapping[str, Any]: "a dict",
}
_EXAMPLES = {
    "PRICES": ', such as {"gpt-5": {"input": "1.25", "output": "10"}}',
    "RETENTION": ', such as {"SESSIONS": {"*": {"IDLE": timedelta(days=365)}}}',
    "ENCRYPTION": ', such as {"KEYS": "project.keys.master_keys"}',
    "REDACT_ON_WRITE": ', such as ["card"]',
    "REASON_REQUIRED": ', such as ["redacted", "deleted"]',
    "DIALECTS": ', such as ["project.dialects.Parrot"]',
    "DETECTORS": ', such as ["project.detectors.StaffNumber"]',
}
_FIELDS = frozenset(f.name for f in dataclasses.fields(AgentSessionsSettings))
_NO_DICT = f"{SETTING} must be a dict"
_cache: tuple[object, AgentSessionsSettings] = None, AgentSessionsSettings()
