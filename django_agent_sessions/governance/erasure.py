"""Erase a person: every session of an owner, its copies, and the person's name in the audit trail.

::

    from django_agent_sessions.governance.erasure import erase

    print(erase(user, reason="Request 31", dry_run=True).counts)
    receipt = erase(user, reason="Request 31", actor=request.user)
    Path("receipt.json").write_text(receipt.to_json())

The forks of other owners are changed first and the sessions are deleted after them, because a
fork is found by its origin. After an interruption, the same call does the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.blobs import files_to_delete
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import ConfigurationError, ReasonRequiredError
from django_agent_sessions.models import (
    AuditEvent,
    Blob,
    Participant,
    RedactedOriginal,
    Session,
    SessionMessage,
    ShareLink,
    UsageCursor,
    UsageRollup,
    deletion,
    removal,
)
from django_agent_sessions.models.querysets import groups_of_keys
from django_agent_sessions.models.session_names import by_key
from django_agent_sessions.store.contents import clear_copied_content
from django_agent_sessions.values import observing
from django_agent_sessions.values.owners import EVERYBODY, NOBODY, owner_key

from . import reasons
from .erased_keys import DETAIL, PersonKeys, destroyed_keys
from .erasure_receipt import ErasureReceipt, content_hashes, hashed, verify
from .operation_erasure import delete_exports_of, forget_person
from .person_data import PersonData
from .redaction import WholeMessage, redact
from .session_change import SessionChange, change

__all__ = ["ErasureReceipt", "Forks", "erase", "verify"]

Forks = Literal["redact", "delete"]
"""How to treat forks of other owners."""

_BATCH = 500


@sync_only
def erase(
    owner: Any,
    *,
    reason: str | None = None,
    actor: Any = None,
    forks: Forks = "redact",
    dry_run: bool = False,
    using: str | None = None,
) -> ErasureReceipt:
    """Erase all data of an owner, except the user's row, which the project deletes.

    It commits in batches, so it is refused in a transaction, and can be repeated after an
    interruption.

    Args:
        owner: The user, or the user's primary key, also of a deleted user.
        reason: The reason, for the audit trail; the person's name is masked in it.
        actor: The user who erases, or a text that names a program.
        forks: How to treat forks that other owners have of the person's sessions. ``"redact"``
            blanks the copied messages, and empties the titles, metadata, states and snapshots;
            ``"delete"`` deletes the forks.
        dry_run: Count, and change nothing.
        using: The database alias.

    Raises:
        ConfigurationError: The owner is not a user, ``forks`` has another value, or a transaction
            is open, which could still be rolled back when the files and the receipt are there.
        LegalHoldError: A session of the person, a fork, or a session with feedback of the person
            is under legal hold; its ``protected_objects`` has the sessions. Nothing was changed.
        ReasonRequiredError: The reason is blank, and ``dry_run`` is false.
    """
    key = owner_key(owner)
    if key is NOBODY or key is EVERYBODY:
        raise ConfigurationError("erase() requires a user or a user's primary key as the owner")
    if forks not in ("redact", "delete"):
        raise ConfigurationError(f"forks is {forks!r}, not 'redact' or 'delete'")
    alias = bridge.database(using)
    audit.refuse_username(actor, using=alias)
    erasure = _Erasure(alias, key, forks)
    if dry_run:
        return erasure.receipt(actor, dry_run=True)
    if not deletion.can_commit_batches(alias):
        raise ConfigurationError(
            "erase() was called in a transaction; call it outside of atomic() and ATOMIC_REQUESTS"
        )
    reason = reasons.clean_reason(AuditEvent.Action.ERASED, reason, what="erasing a person")
    if not reason:
        raise ReasonRequiredError("erasing a person: a reason is required")
    removal.check_removable(erasure.changed_sessions(), "erasing a person")
    run = functools.partial(erasure.run, audit.mask_reason(reason, erasure.names), actor)
    observer = observing.current
    return run() if observer is None else observer.run("erase", run, {})


@dataclass
class _Erasure:
    using: str
    key: Any
    how: Forks
    fork_keys: list[UUID] = field(init=False)
    names: list[str] = field(init=False)
    counts: dict[str, int] = field(init=False)
    person: str = field(init=False)
    data: PersonData = field(init=False)
    keys: PersonKeys = field(init=False)
    keys_kept: list[str] = field(default_factory=list)
    fork_messages: list[str] = field(default_factory=list)
    fork_content: set[str] = field(default_factory=set)
    written_sessions: list[str] = field(default_factory=list)
    written_messages: list[str] = field(default_factory=list)
    files_left: int = 0

    def __post_init__(self) -> None:
        self.person = hashed("person", self.key)
        self.data = PersonData(self.using, self.key)
        self.keys = PersonKeys(self.using, self.key)
        self.names = self.data.names()
        self.fork_keys = self.data.forks()
        self.counts = self._count()

    # --- what belongs to the person ----------------------------------------------------------

    @property
    def forks(self) -> Iterator[Any]:
        """The forks in batches."""
        rows = Session.objects.using(self.using)
        return (rows.filter(pk__in=keys) for keys in groups_of_keys(self.fork_keys))

    def changed_sessions(self) -> Iterator[Any]:
        """Yield all sessions that lose content, in groups; one may be in several."""
        data, rows = self.data, Session.objects.using(self.using)
        # A union, because PostgreSQL reads the whole table for sub-queries joined by OR.
        changed = data.sessions.order_by().values("pk")
        others = [data.feedback, data.objects.exclude(session=None), data.written]
        changed = changed.union(*(other.order_by().values("session") for other in others))
        yield rows.filter(pk__in=changed)
        yield from self.forks

    def _count(self) -> dict[str, int]:
        messages = SessionMessage.objects.using(self.using)
        copies = [self.data.copied_messages(fork).count() for fork in self.fork_keys]
        return {
            "sessions": self.data.sessions.count(),
            "messages": messages.filter(session__owner=self.key).count(),
            "written_messages": self.data.written.count(),
            "feedback": self.data.feedback.count(),
            "notes": self.data.notes.count(),
            "objects": self.data.objects.count(),
            "files": sum(rows.count() for rows in self._blobs()) + self._remaining_files(),
            "participations": self.data.participations.count(),
            "usage": self.data.usage.count(),
            "audit_events": self.data.audit_events.count(),
            "fork_sessions": len(self.fork_keys),
            "fork_messages": sum(copies),
            "keys": len(self.keys.ids),
        }

    def _blobs(self) -> Iterator[QuerySet[Blob]]:
        rows = Blob.objects.using(self.using).order_by()
        yield rows.filter(session__owner=self.key)
        if self.how == "delete":
            yield from (rows.filter(session__in=keys) for keys in groups_of_keys(self.fork_keys))

    def _remaining_files(self) -> int:
        """Count the files that deletions of the person's content have left in a storage."""
        rows = files_to_delete.remaining_files(self.using)
        files = list(rows.values_list("owner", "session"))
        sessions = {*self.fork_keys, *self._deleted()} if files else set()
        return sum(owner == str(self.key) or session in sessions for owner, session in files)

    # --- erasing -----------------------------------------------------------------------------

    @property
    def via(self) -> str:
        """What the audit events of the deleted sessions have as ``via``."""
        return f"erasure {self.person}"

    def run(self, reason: str, actor: Any) -> ErasureReceipt:
        # A person who erases is not named either.
        actor = self.person if self._is_person(actor) else actor
        changed = self._changed_keys()
        self._delete_exports(changed, actor)
        for fork in self.fork_keys if self.how == "redact" else []:
            self._redact_fork(fork, reason, actor)
        self._redact_written(reason, actor)
        with audit.acting(actor, via=self.via, reason=reason):
            if self.how == "delete":
                for forks in self.forks:
                    forks.delete()
            self.data.feedback.delete()
            self._delete_originals()
            self.data.sessions.delete()
            deletion.delete_tombstones(Session.objects.using(self.using))
        # An export that read the sessions before may have been recorded since; later ones cannot.
        self._delete_exports(changed | self._deleted(), actor)
        self.data.objects.delete()
        self.data.participations.delete()
        self._leave_unnamed()
        self._release_usage()
        self._pseudonymize_reviews()
        audit.pseudonymize(str(self.key), self.names, self.person, using=self.using)
        forget_person(str(self.key), self.names, self.person, actor=actor, using=self.using)
        # Those of an earlier run, too: it was interrupted, or the storage refused.
        files_to_delete.delete_remaining(self.using)
        self.files_left = self._remaining_files()
        # Created while it ran, too.
        self.keys = PersonKeys(self.using, self.key)
        are_free = self.keys.release()
        self.keys_kept = [] if are_free else self.keys.ids
        self.counts["keys"] = len(self.keys.ids) if are_free else 0
        event = self._record(reason, actor)
        # After the event, from which a receipt after an interruption names them.
        if are_free:
            self.keys.destroy()
        return self.receipt(actor, event=event)

    def _changed_keys(self) -> set[UUID]:
        rows = (sessions.order_by() for sessions in self.changed_sessions())
        return {key for sessions in rows for key in sessions.values_list("pk", flat=True)}

    def _delete_exports(self, sessions: set[UUID], actor: Any) -> None:
        delete_exports_of(sessions, person=str(self.key), actor=actor, using=self.using)

    def _record(self, reason: str, actor: Any) -> AuditEvent:
        figures: dict[str, Any] = {name: count for name, count in self.counts.items() if count}
        if figures.get("keys"):
            figures[DETAIL] = self.keys.ids
        return audit.record_checked(
            AuditEvent.Action.ERASED,
            actor=actor,
            reason=reason,
            details={"person": self.person, "forks": self.how, **figures},
            using=self.using,
        )

    def _is_person(self, actor: Any) -> bool:
        return str(getattr(actor, "pk", None)) == str(self.key) or str(actor) in self.names

    def _redact_fork(self, fork: UUID, reason: str, actor: Any) -> None:
        keys = list(self.data.copied_messages(fork).order_by("pk").values_list("pk", flat=True))
        self.fork_messages += [hashed("message", key) for key in keys]
        before = content_hashes(fork, self.using)

        def clear(current: SessionChange) -> None:
            # Both change nothing in a fork that a run before an interruption cleared.
            forgotten = self._forget_originals(current, keys)
            current.changed = clear_copied_content(self.using, current.session) or forgotten

        self._blank(fork, keys, reason, actor)
        what = f"erasing a person in session {fork}"
        change(fork, clear, what=what, removes=True, content=True, using=self.using)
        self.fork_content |= before - content_hashes(fork, self.using)

    def _redact_written(self, reason: str, actor: Any) -> None:
        """Redact what the person wrote in the sessions of others, which stay."""
        rows = self.data.written.order_by("session_id").values_list("session_id", flat=True)
        sessions: list[UUID] = list(rows.distinct())
        for session in sessions:
            written = self.data.written.filter(session=session)
            keys = list(written.order_by("pk").values_list("pk", flat=True))
            self.written_sessions.append(hashed("session", session))
            self.written_messages += [hashed("message", key) for key in keys]

            def forget(current: SessionChange, keys: list[UUID] = keys) -> None:
                self._forget_originals(current, keys)
                messages = SessionMessage.objects.using(self.using).filter(pk__in=keys)
                messages.update(author=self.person)
                current.changed = True

            self._blank(session, keys, reason, actor)
            what = f"erasing a person in session {session}"
            change(session, forget, what=what, removes=True, using=self.using)

    def _blank(self, session: UUID, keys: list[UUID], reason: str, actor: Any) -> None:
        for start in range(0, len(keys), _BATCH):
            scopes = map(WholeMessage, keys[start : start + _BATCH])
            redact(by_key(session), *scopes, reason=reason, actor=actor, using=self.using)

    def _forget_originals(self, current: SessionChange, keys: list[UUID]) -> bool:
        """Delete the digests of redacted messages; return whether there were some."""
        rows = RedactedOriginal.objects.using(self.using).filter(session=current.session.pk)
        changed = False
        for start in range(0, len(keys), _BATCH):
            digests, _ = rows.filter(message__in=keys[start : start + _BATCH]).delete()
            changed = changed or bool(digests)
        return changed

    def _pseudonymize_reviews(self) -> None:
        """Replace the person in notes and reviews of the sessions of others, which stay."""
        self.data.notes.update(author_id=self.person, author=self.person)
        assigned, changed = map(self.data.reviews, ("assignee_id", "updated_by_id"))
        assigned.update(assignee_id=self.person, assignee=self.person)
        changed.update(updated_by_id=self.person, updated_by=self.person)

    def _delete_originals(self) -> None:
        """Delete the digests of redacted messages, which outlive a session otherwise."""
        own = self.data.sessions.order_by().values("pk")
        RedactedOriginal.objects.using(self.using).filter(session__in=own).delete()

    def _release_usage(self) -> None:
        """Delete the person's figures; those of months become figures without an owner.

        So that they still add up to the figures of the month's days, if there are some.
        """
        rows = UsageRollup.objects.using(self.using)
        of_days = rows.filter(dimension=UsageRollup.Dimension.DAY).order_by()
        with transaction.atomic(self.using):
            # A roll-up, which writes the rows too, locks it as well.
            list(UsageCursor.objects.using(self.using).select_for_update())
            months = {day.replace(day=1) for day in of_days.values_list("period", flat=True)}
            of_months = self.data.usage.filter(dimension=UsageRollup.Dimension.OWNER)
            for row in of_months.filter(period__in=months):
                unnamed, _ = rows.get_or_create(
                    dimension=row.dimension, period=row.period, key="", hour=row.hour
                )
                unnamed.add(row)
                unnamed.save(using=self.using)
            self.data.usage.delete()

    def _leave_unnamed(self) -> None:
        """Blank who added participants and created links in sessions of others."""
        key = str(self.key)
        Participant.objects.using(self.using).filter(added_by=key).update(added_by="")
        ShareLink.objects.using(self.using).filter(created_by=key).update(created_by="")

    # --- the receipt -------------------------------------------------------------------------

    def receipt(
        self, actor: Any, *, event: AuditEvent | None = None, dry_run: bool = False
    ) -> ErasureReceipt:
        keys = set(self.data.sessions.values_list("pk", flat=True)) if dry_run else self._deleted()
        held = [removal.kept_among(rows).order_by() for rows in self.changed_sessions()]
        held_keys = {key for rows in held for key in rows.values_list("pk", flat=True)}
        return ErasureReceipt(
            person=self.person,
            at=timezone.now().isoformat(),
            by=audit.actor_name(actor),
            event="" if event is None else str(event.pk),
            forks=self.how,
            counts=self.counts,
            sessions=_hashes(keys - set(self.fork_keys)),
            fork_sessions=_hashes(self.fork_keys),
            fork_messages=sorted(self.fork_messages),
            fork_content=sorted(self.fork_content),
            written_sessions=sorted(self.written_sessions),
            written_messages=sorted(self.written_messages),
            held=_hashes(held_keys),
            files_left=self.files_left,
            keys=[] if dry_run else destroyed_keys(self.using, self.person),
            keys_kept=self.keys_kept,
            dry_run=dry_run,
            held_sessions=tuple(sorted(held_keys)),
        )

    def _deleted(self) -> set[UUID]:
        """Return the sessions that this erasure deleted, also before it was interrupted."""
        deleted = AuditEvent.Action.DELETED
        events = AuditEvent.objects.using(self.using).filter(action=deleted, details__via=self.via)
        return {key for key in events.values_list("session", flat=True) if key is not None}


def _hashes(keys: Iterable[UUID]) -> list[str]:
    return sorted(hashed("session", key) for key in keys)
