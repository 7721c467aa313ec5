"""Quotas of an owner: sessions, branches and bytes that requests of the owner may add.

Requests check them, agents and commands do not: an acknowledged message is never refused because of
a quota. A check does not lock, so that concurrent requests may exceed a quota by what they add.

The bytes of an owner are usually summed once an hour, and kept in Django's default cache. What
requests add is added to the kept sum; what agents add counts from the next sum on.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.core.cache import cache
from django.db.models import Model, Sum

from django_agent_sessions import conf
from django_agent_sessions.db.tenants import tenant_of
from django_agent_sessions.exceptions import QuotaExceededError
from django_agent_sessions.models import (
    Blob,
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.models.functions import OctetLength

logger = logging.getLogger("django_agent_sessions")

_KEPT_SECONDS = 60 * 60
_RECENT_SECONDS = 60


def check_sessions(owner: Any, using: str) -> None:
    """Raise ``QuotaExceededError`` if an owner has as many sessions as allowed."""
    most = conf.get_settings().MAX_OWNER_SESSIONS
    if most is None or owner is None:
        return
    rows = Session.objects.using(using).filter(owner=owner).order_by()
    if rows.values("pk")[:most].count() >= most:
        raise QuotaExceededError(
            f"The user has {most} sessions, which is the limit (MAX_OWNER_SESSIONS): delete some "
            "first."
        )


def check_branches(owner: Any, using: str) -> None:
    """Raise ``QuotaExceededError`` if an owner has as many branches as allowed."""
    most = conf.get_settings().MAX_OWNER_BRANCHES
    if most is None or owner is None:
        return
    rows = Branch.objects.using(using).filter(session__owner=owner).order_by()
    if rows.values("pk")[:most].count() >= most:
        raise QuotaExceededError(
            f"The user has {most} branches, which is the limit (MAX_OWNER_BRANCHES): delete some "
            "first."
        )


def check_snapshots(session: Session, using: str) -> None:
    """Raise ``QuotaExceededError`` if a session has as many snapshots as its owner may branches."""
    most = conf.get_settings().MAX_OWNER_BRANCHES
    if most is None or session.owner_id is None:
        return
    rows = Snapshot.objects.using(using).filter(session=session.pk).order_by()
    if rows.values("pk")[:most].count() >= most:
        raise QuotaExceededError(
            f"The session has {most} snapshots, which is the limit (MAX_OWNER_BRANCHES): fork it, "
            "which copies none."
        )


def check_bytes(owner: Any, added: int, using: str) -> None:
    """Count bytes that a request adds; raise ``QuotaExceededError`` if they are too many."""
    require_room(owner, added, using)
    count_bytes(owner, added, using)


def require_room(owner: Any, added: int, using: str) -> None:
    """Raise ``QuotaExceededError`` if an owner may not add these bytes; count nothing."""
    most = conf.get_settings().MAX_OWNER_BYTES
    if most is None or owner is None:
        return
    used = _used(owner, using, _KEPT_SECONDS)
    if used.bytes + added > most:
        # The owner may have deleted sessions since.
        used = _used(owner, using, _RECENT_SECONDS)
    if used.bytes + added > most:
        raise QuotaExceededError(
            f"The user's sessions have {used.bytes} bytes, and this request would add {added}: the "
            f"limit is {most} (MAX_OWNER_BYTES). Delete some sessions first; after a minute they "
            "no longer count."
        )


def count_bytes(owner: Any, added: int, using: str) -> None:
    """Add bytes to the kept sum of an owner; without one, the next sum includes them."""
    if not added or not counts_bytes(owner):
        return
    if (used := _kept(owner, using, _KEPT_SECONDS)) is not None:
        _keep(owner, using, _Used(used.bytes + added, used.at))


class SessionBytes(NamedTuple):
    """The bytes of a session."""

    messages: int
    """Messages and their files."""

    states: int
    """States of agents and orchestrators: a copy or snapshot adds about as much."""

    others: int
    """Snapshots and stored objects, which no copy has."""


def counts_bytes(owner: Any) -> bool:
    """Return whether the bytes of an owner are limited, so that they are worth measuring."""
    return owner is not None and conf.get_settings().MAX_OWNER_BYTES is not None


def measure(session: UUID, using: str, *, messages: bool = True) -> SessionBytes:
    """Sum the bytes of a session; those of messages only on request, because it takes longer."""
    of_session = {"session": session}
    return SessionBytes(
        _message_bytes(using, **of_session) if messages else 0,
        _column_bytes(using, _STATES, **of_session),
        _other_bytes(using, **of_session),
    )


class _Used(NamedTuple):
    bytes: int
    at: float


def _used(owner: Any, using: str, seconds: int) -> _Used:
    if (kept := _kept(owner, using, seconds)) is not None:
        return kept
    of_owner = {"session__owner": owner}
    size = _message_bytes(using, **of_owner) + _column_bytes(using, _STATES, **of_owner)
    used = _Used(size + _other_bytes(using, **of_owner), time.time())
    _keep(owner, using, used)
    return used


def _kept(owner: Any, using: str, seconds: int) -> _Used | None:
    kept: Any = None
    try:
        kept = cache.get(_name(owner, using))
    except Exception as error:
        logger.warning("the cache cannot be read: %s", type(error).__name__)
    if isinstance(kept, tuple) and time.time() - kept[1] < seconds:
        return _Used(*kept)
    return None


def _keep(owner: Any, using: str, used: _Used) -> None:
    try:
        cache.set(_name(owner, using), tuple(used), _KEPT_SECONDS)
    except Exception as error:
        logger.warning("the cache cannot be written: %s", type(error).__name__)


def _name(owner: Any, using: str) -> str:
    # Hashed, because caches refuse some names, such as those with spaces.
    tenant = hashlib.sha256(repr(tenant_of(using)).encode()).hexdigest()
    return f"agent_sessions:bytes:{tenant}:{getattr(owner, 'pk', owner)}"


def _message_bytes(using: str, **condition: Any) -> int:
    """Return the bytes of messages and files."""
    messages = SessionMessage.objects.using(using).filter(**condition).order_by()
    texts = messages.aggregate(size=Sum(OctetLength("message")))["size"]
    files = Blob.objects.using(using).filter(**condition).aggregate(size=Sum("size"))["size"]
    return int(texts or 0) + int(files or 0)


def _other_bytes(using: str, **condition: Any) -> int:
    """Return the bytes of snapshots and stored objects."""
    objects = StoredObject.objects.using(using).filter(**condition).order_by()
    size = objects.aggregate(size=Sum("size"))["size"] or 0
    return int(size) + _column_bytes(using, _SNAPSHOTS, **condition)


_STATES: Mapping[type[Model], tuple[str, ...]] = {
    SessionAgent: ("state", "conversation_manager_state", "internal_state"),
    SessionMultiAgent: ("state",),
}

_SNAPSHOTS: Mapping[type[Model], tuple[str, ...]] = {Snapshot: ("document", "messages")}


def _column_bytes(
    using: str, columns: Mapping[type[Model], tuple[str, ...]], **condition: Any
) -> int:
    total = 0
    for model, names in columns.items():
        rows = model._default_manager.using(using).filter(**condition).order_by()
        sums = rows.aggregate(**{f"size_{name}": Sum(OctetLength(name)) for name in names})
        total += sum(size or 0 for size in sums.values())
    return total
