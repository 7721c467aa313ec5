"""Data keys: created, cached for a short time, and found by their ids."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db import connections, router, transaction
from django.db.models import Max

from django_agent_sessions import conf
from django_agent_sessions.db.tenants import Tenant, tenant_of
from django_agent_sessions.exceptions import DestroyedKeyError, EncryptionKeyError
from django_agent_sessions.models import DataKey
from django_agent_sessions.values.ids import new_id

from . import master_keys
from .envelope import cipher_of, unwrap, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MAX_CACHED = 10_000
CACHE_SECONDS = 60.0
"""Seconds for which a process keeps a data key: so long a destroyed key still works in it."""

K = TypeVar("K")
V = TypeVar("V")


class CachedKey(NamedTuple):
    """A data key that is ready for use."""

    id: str
    cipher: AESGCM


class _Holder(NamedTuple):
    """Whose key it is: tenants may have owners of the same primary key."""

    tenant: Tenant
    owner: str


class TimedCache(Generic[K, V]):
    """A cache of limited size whose entries expire."""

    def __init__(self, seconds: float, size: int = _MAX_CACHED) -> None:
        self._seconds, self._size = seconds, size
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return an entry that has not expired."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[0] > time.monotonic() else None

    def put(self, key: K, value: V) -> None:
        """Add an entry, and remove the oldest one if there are too many."""
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = time.monotonic() + self._seconds, value
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()


class DataKeys:
    """The data keys of the owners. The owner ``""`` stands for sessions without one."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._given = options.get("KEYS")
        self._alias: str | None = options.get("KEY_DATABASE")
        seconds = options.get("CACHE_SECONDS", CACHE_SECONDS)
        self._current: TimedCache[_Holder, CachedKey] = TimedCache(seconds)
        self._by_id: TimedCache[str, CachedKey] = TimedCache(seconds)
        self._masters: TimedCache[None, master_keys.MasterKeys] = TimedCache(seconds)

    @property
    def alias(self) -> str:
        """The database of the keys."""
        return (
            self._alias or conf.get_settings().DATABASE or router.db_for_write(DataKey) or "default"
        )

    def forget(self) -> None:
        """Forget all keys, so that the next use reads them."""
        self._current.clear()
        self._by_id.clear()
        self._masters.clear()

    def masters(self) -> master_keys.MasterKeys:
        """Return the project's master keys."""
        if (found := self._masters.get(None)) is None:
            found = master_keys.load(self._given)
            self._masters.put(None, found)
        return found

    def current(self, owner: str) -> CachedKey:
        """Return the key that encrypts an owner's content; create it if there is none."""
        holder = self._holder(owner)
        if (found := self._current.get(holder)) is not None:
            return found
        if (new := self._new_key(holder)) is not None:
            return new
        found = self._unwrapped(self._newest(owner) or self.create(owner, 1))
        if self._new_key(holder) is None:
            self.keep(holder, found)
        return found

    def find(self, key_id: str) -> CachedKey:
        """Return a key by its id; raise DestroyedKeyError if it does not exist any more."""
        if (found := self._by_id.get(key_id)) is not None:
            return found
        row = self._row(lambda: DataKey.objects.using(self.alias).filter(pk=UUID(key_id)))
        if row is None:
            raise DestroyedKeyError(key_id, self.alias)
        found = self._unwrapped(row)
        # Also if it is rolled back: then nothing that it has encrypted is stored.
        self._by_id.put(key_id, found)
        return found

    def create(self, owner: str, generation: int) -> DataKey:
        """Create an owner's key of a generation, unless another process creates it first."""
        key, masters = new_id(), self.masters()
        row = DataKey(
            id=key,
            owner=owner,
            generation=generation,
            master=masters.current,
            wrapped=self.wrapped(key, owner, os.urandom(32), masters),
        )
        rows = DataKey.objects.using(self.alias)
        rows.bulk_create([row], ignore_conflicts=True)
        stored = self._row(lambda: rows.filter(owner=owner, generation=generation))
        if stored is None:
            raise EncryptionKeyError("another process deleted a new data key; try again")
        if stored.pk == key and connections[self.alias].in_atomic_block:
            transaction.on_commit(
                _NewKey(self, self._holder(owner), self._unwrapped(row)), self.alias
            )
        return stored

    def ids(self, owner: str) -> list[str]:
        """Return the ids of an owner's keys, of all generations."""
        rows = DataKey.objects.using(self.alias).filter(owner=owner).order_by("generation")
        return [key.hex for key in rows.values_list("pk", flat=True)]

    def destroy(self, ids: Sequence[str]) -> None:
        """Delete keys, and forget all that are in memory."""
        DataKey.objects.using(self.alias).filter(pk__in=list(map(UUID, ids))).delete()
        for new in self._new_keys():
            new.is_destroyed = new.is_destroyed or new.key.id in ids
        self.forget()

    def rotate(self) -> int:
        """Create the next key of each owner; return their number.

        Other processes use the former keys for ``CACHE_SECONDS``.
        """
        rows = DataKey.objects.using(self.alias).order_by()
        newest = list(rows.values_list("owner").annotate(newest=Max("generation")))
        for owner, generation in newest:
            self.create(owner, generation + 1)
        self.forget()
        return len(newest)

    def rewrap(self) -> int:
        """Wrap the data keys that another master key wraps by the current one; return how many."""
        masters = self.masters()
        rows = DataKey.objects.using(self.alias).exclude(master=masters.current)
        changed = 0
        for row in rows.order_by("pk").iterator():
            wrapped = self.wrapped(row.pk, row.owner, self.unwrapped(row), masters)
            same = DataKey.objects.using(self.alias).filter(pk=row.pk, wrapped=row.wrapped)
            changed += same.update(wrapped=wrapped, master=masters.current)
        return changed

    def wrapped(self, key: UUID, owner: str, data: bytes, masters: master_keys.MasterKeys) -> str:
        """Return a data key as it is stored."""
        return wrap(masters.get(masters.current), _context(key, owner), data)

    def unwrapped(self, row: DataKey) -> bytes:
        """Return the key that a row contains."""

        def failed() -> Exception:
            return EncryptionKeyError(
                f"master key {row.master!r} does not unwrap data key {row.pk.hex}: it is another "
                "key than the one that wrapped it, or the row was changed"
            )

        return unwrap(
            self.masters().get(row.master), _context(row.pk, row.owner), row.wrapped, failed
        )

    def keep(self, holder: _Holder, key: CachedKey) -> None:
        """Keep an owner's newest key, which is committed."""
        self._current.put(holder, key)
        self._by_id.put(key.id, key)

    def _holder(self, owner: str) -> _Holder:
        return _Holder(tenant_of(self.alias), owner)

    def _new_keys(self) -> Iterator[_NewKey]:
        """Yield the keys that this thread's transaction has created, newest first.

        Django forgets what follows a commit if the transaction or its savepoint is rolled back.
        """
        for _, action, *_ in reversed(connections[self.alias].run_on_commit):
            if isinstance(action, _NewKey) and action.keys is self:
                yield action

    def _new_key(self, holder: _Holder) -> CachedKey | None:
        mine = (new for new in self._new_keys() if new.holder == holder and not new.is_destroyed)
        return next((new.key for new in mine), None)

    def _unwrapped(self, row: DataKey) -> CachedKey:
        return CachedKey(row.pk.hex, cipher_of(self.unwrapped(row)))

    def _newest(self, owner: str) -> DataKey | None:
        rows = DataKey.objects.using(self.alias).filter(owner=owner)
        return rows.order_by("-generation").first()

    def _row(self, rows: Callable[[], Any]) -> DataKey | None:
        row: DataKey | None = rows().first()
        connection = connections[self.alias]
        if row is None and connection.vendor == "mysql" and connection.in_atomic_block:
            # The snapshot of the transaction may be older than the key.
            row = rows().select_for_update().first()
        return row


@dataclass
class _NewKey:
    """A key that only its transaction may use before the commit; called after it."""

    keys: DataKeys
    holder: _Holder
    key: CachedKey
    is_destroyed: bool = False

    def __call__(self) -> None:
        if not self.is_destroyed:
            self.keys.keep(self.holder, self.key)


def _context(key: UUID, owner: str) -> str:
    return f"data key|{key.hex}|{owner}"
