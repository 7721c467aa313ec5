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
from django_agent_sessions.models.stored_text import MEASURED_TEXT

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
    """Raise ``QuotaExceededError`` if a session has as many snapshots as its owner may branches.

    Also if its states, which a snapshot copies, are too many bytes.
    """
    most = conf.get_settings().MAX_OWNER_BRANCHES
    if session.owner_id is None:
        return
    rows = Snapshot.objects.using(using).filter(session=session.pk).order_by()
    if most is not None and rows.values("pk")[:most].count() >= most:
        raise QuotaExceededError(
            f"The session has {most} snapshots, which is the limit (MAX_OWNER_BRANCHES): fork it, "
            "which copies none."
        )
    if conf.get_settings().MAX_OWNER_BYTES is not None:
        states = SessionAgent.objects.using(using).filter(session=session.pk).order_by()
        size = states.aggregate(size=Sum(OctetLength("state")))["size"] or 0
        check_bytes(session.owner_id, size, using)


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
    if owner is None or conf.get_settings().MAX_OWNER_BYTES is None or not added:
        return
    if (used := _kept(owner, using, _KEPT_SECONDS)) is not None:
        _keep(owner, using, _Used(used.bytes + added, used.at))


def session_bytes(session: Session, using: str) -> int:
    """Return the bytes of a session's messages and files, which a copy would add."""
    return _sum(using, session=session.pk)


def fork_bytes(session: Session, using: str) -> int:
    """Return the bytes of a session's messages, files and states, which a fork would add."""
    states = _column_bytes(using, _STATES, session=session.pk)
    return session_bytes(session, using) + states


class _Used(NamedTuple):
    bytes: int
    at: float


def _used(owner: Any, using: str, seconds: int) -> _Used:
    if (kept := _kept(owner, using, seconds)) is not None:
        return kept
    of_owner = {"session__owner": owner}
    used = _Used(_sum(using, **of_owner) + _state_bytes(using, **of_owner), time.time())
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


def _sum(using: str, **condition: Any) -> int:
    """Return the bytes of messages and files."""
    messages = SessionMessage.objects.using(using).filter(**condition).order_by()
    texts = messages.aggregate(size=Sum(OctetLength(MEASURED_TEXT)))["size"]
    files = Blob.objects.using(using).filter(**condition).aggregate(size=Sum("size"))["size"]
    return int(texts or 0) + int(files or 0)


def _state_bytes(using: str, **condition: Any) -> int:
    """Return the bytes of states, snapshots and stored objects, as they are stored."""
    objects = StoredObject.objects.using(using).filter(**condition).order_by()
    size = objects.aggregate(size=Sum("size"))["size"] or 0
    columns: dict[type[Model], tuple[str, ...]] = {
        **_STATES,
        Snapshot: ("document", "messages"),
    }
    return int(size) + _column_bytes(using, columns, **condition)


_STATES: Mapping[type[Model], tuple[str, ...]] = {
    SessionAgent: ("state", "conversation_manager_state", "internal_state"),
    SessionMultiAgent: ("state",),
}


def _column_bytes(
    using: str, columns: Mapping[type[Model], tuple[str, ...]], **condition: Any
) -> int:
    total = 0
    for model, names in columns.items():
        rows = model._default_manager.using(using).filter(**condition).order_by()
        sums = rows.aggregate(**{f"size_{name}": Sum(OctetLength(name)) for name in names})
        total += sum(size or 0 for size in sums.values())
    return total
