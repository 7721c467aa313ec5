"""Redaction of one locked session: search, then write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_agent_sessions import blobs
from django_agent_sessions.content import masking
from django_agent_sessions.content.blob_refs import BlobRef, references
from django_agent_sessions.content.masking import Finder
from django_agent_sessions.db.db_errors import RetryError
from django_agent_sessions.exceptions import (
    LegalHoldError,
    RedactionScopeError,
    SessionNotFoundError,
)
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store.contents import (
    MessageRow,
    check_statement_size,
    check_values_size,
    increment_redaction_epoch,
    is_original_kept,
    record_redaction,
    redacted_columns,
)

from .copies import MessageCopies, copies_in_session, named_messages
from .excerpts import excerpts
from .findings import Findings, PayloadChange, place_of, with_subpath
from .objects import search_objects, write_object
from .plan import Plan, PositionalScope, Spans, apply_scope, finder_for
from .scopes import Detect, Find, Hit, Place, Redaction, WholeMessage
from .snapshots import drop_message_variants, search_snapshots
from .states import search_states

_CHUNK = 200


def redact_all(
    using: str,
    session: Session,
    forks: Sequence[Session],
    plan: Plan,
    *,
    reason: str,
    actor: Any,
    dry_run: bool,
) -> Redaction:
    """Redact in a session and its forks; search all of them before writing any."""
    families = named_messages(using, session.pk, plan)
    first = SessionRedaction(using, session, plan, families, dry_run=dry_run)
    works = [
        first,
        *(SessionRedaction(using, fork, plan, families, dry_run=dry_run) for fork in forks),
    ]
    first.look(named=set(plan.by_message))
    for work in works[1:]:
        work.look()
    if not dry_run:
        for work in works:
            work.check_legal_hold()
        secrets = plan.named_texts.union(*(work.secrets for work in works))
        with ExitStack() as stack:
            for work in works:
                details = {} if work is first else {"forked_from": str(session.pk)}
                stack.enter_context(work.uploading())
                work.write(reason, actor, secrets, details)
    found, *others = [work.result() for work in works]
    found.forks.extend(others)
    return found


class SessionRedaction:
    """A redaction in one session, whose row is locked."""

    def __init__(
        self,
        using: str,
        session: Session,
        plan: Plan,
        families: Mapping[UUID, MessageCopies],
        *,
        dry_run: bool,
    ) -> None:
        self._using = using
        self._session = session
        self._plan = plan
        self._families = families
        self._dry_run = dry_run
        self._keep = is_original_kept(session)
        self._findings = Findings(plan)
        self._epoch = session.redaction_epoch
        # Binaries without matches of the session-wide finders.
        self._without_hits: set[BlobRef] = set()
        # Binaries that could not be read.
        self._unreadable: set[BlobRef] = set()

    @property
    def secrets(self) -> set[str]:
        """The texts to mask in the reason."""
        return self._findings.secrets

    def result(self) -> Redaction:
        found = self._findings
        return Redaction(
            found.hits,
            found.kept,
            found.messages,
            len(found.changes) - found.messages,
            self._epoch,
            self._dry_run,
            self._session.pk,
            unread=found.unread,
        )

    # --- search ------------------------------------------------------------------------------

    def look(self, named: set[UUID] | None = None) -> None:
        """Search the session."""
        dialects: dict[UUID, str] = {}
        if self._plan.everywhere:
            dialects = search_states(
                self._using, self._session, self._findings, locked=not self._dry_run
            )
        self._search_messages(dialects, named or set())
        if self._plan.everywhere:
            search_snapshots(self._using, self._session, self._findings)
            search_objects(self._using, self._session, self._findings)
        else:
            drop_message_variants(self._using, self._session, self._findings)

    def _search_messages(self, dialects: dict[UUID, str], missing: set[UUID]) -> None:
        members = copies_in_session(self._using, self._session.pk, self._families)
        for row in self._messages(None if self._plan.everywhere else set(members)):
            missing.discard(row.pk)
            if row.agent_id not in dialects:
                # The agents were not read, because their states may be large, or a new one was
                # created during a dry run, which takes no locks.
                dialects |= self._dialects()
            if row.agent_id in dialects:
                self._search_message(row, dialects[row.agent_id], members.get(row.pk))
        if missing:
            raise SessionNotFoundError(f"session {self._session.pk} has no message {min(missing)}")

    def _dialects(self) -> dict[UUID, str]:
        agents = SessionAgent.objects.using(self._using).filter(session=self._session)
        return dict(agents.values_list("pk", "dialect"))

    def _messages(self, wanted: set[UUID] | None) -> Iterator[SessionMessage]:
        # Keyset pagination: a conversation may exceed the memory, and connection poolers in
        # transaction mode do not support cursors.
        if wanted is not None and not wanted:
            return
        rows = SessionMessage.objects.using(self._using).filter(session=self._session)
        rows = rows.order_by("id") if wanted is None else rows.filter(pk__in=wanted).order_by("id")
        last: UUID | None = None
        while True:
            part = list((rows if last is None else rows.filter(pk__gt=last))[:_CHUNK])
            yield from part
            if len(part) < _CHUNK:
                return
            last = part[-1].pk

    def _search_message(
        self, row: SessionMessage, dialect: str, family: MessageCopies | None
    ) -> None:
        message, redact_message = self._with_binaries(row, family)
        current = message if redact_message is None else redact_message
        place = place_of("message", row, str(row.message_id), "message")
        changed = self._redact(current, place, dialect, row.pk, family)
        hidden = redact_message is not None and message != redact_message
        if changed is current and hidden and not self._keep:
            # An original that was kept by an earlier redaction.
            place = place_of("message", row, str(row.message_id), "original")
            if not self._matches_original(message, place, family):
                return
        elif changed is current:
            return
        follows = family is not None and row.pk not in family.named
        new_row = MessageRow(dialect, changed, limited=False)
        self._findings.changes.append(PayloadChange(row, {}, message=new_row, is_copy=follows))

    def _with_binaries(self, row: SessionMessage, family: MessageCopies | None) -> list[Any]:
        """Return the message and its redacted version, with the binaries that have matches.

        Each binary is read once, and kept in memory only if its message changes.
        """
        versions = [row.message, row.redact_message]
        message_finders = _finders(family)
        finders = [*self._plan.everywhere, *message_finders]
        if not finders:
            return versions
        all_references = {reference for _, reference in references(versions)}
        wanted = all_references - self._without_hits - self._unreadable
        found = dict(
            zip(
                wanted,
                blobs.existing_binaries(self._using, self._session.pk, list(wanted)),
                strict=True,
            )
        )
        self._unreadable |= {
            reference for reference, value in found.items() if isinstance(value, BlobRef)
        }
        if all_references & self._unreadable:
            place = place_of("message", row, str(row.message_id), "message")
            self._findings.unread.append(place)
        matching = {
            reference.sha256
            for reference, value in found.items()
            if masking.mask_tree([value], finders)[1]
        }
        if not message_finders:
            self._without_hits |= {
                ref for ref in wanted - self._unreadable if ref.sha256 not in matching
            }
        if not matching:
            return versions
        return blobs.existing_binaries(self._using, self._session.pk, versions)

    def _matches_original(self, original: Any, place: Place, family: MessageCopies | None) -> bool:
        scopes = family.scopes if family is not None else ()
        if any(isinstance(scope, WholeMessage) for scope in scopes):
            self._findings.hits.append(Hit(place, "", "", masking.mask()))
            return True
        finders = [*self._plan.everywhere, *_finders(family)]
        return self._findings.mask(original, place, finders=finders) is not original

    def _redact(
        self, payload: Any, place: Place, dialect: str, key: UUID, family: MessageCopies | None
    ) -> Any:
        changed = payload
        for step in family.steps(key, payload) if family is not None else ():
            changed = self._apply(step, changed, place, dialect)
        return self._findings.mask(changed, place)

    def _apply(
        self,
        step: Find | Detect | PositionalScope | list[Finder],
        payload: Any,
        place: Place,
        dialect: str,
    ) -> Any:
        if isinstance(step, list):
            return self._findings.mask(payload, place, finders=step)
        if isinstance(step, Find | Detect):
            return self._findings.mask(payload, place, finders=[finder_for(step)])
        if isinstance(payload, CorruptPayload):
            # It stays a corrupt payload, which no SDK receives.
            changed: Any = CorruptPayload(masking.mask())
        else:
            changed = apply_scope(step, payload, dialect)
            if changed is None:
                raise RedactionScopeError(f"message {place.key} has no content at this path")
        if changed == payload:
            return payload
        path = () if isinstance(step, WholeMessage) else step.path
        self._findings.secrets.update(masking.masked_texts(payload, changed))
        if self._dry_run:
            texts = excerpts(step, payload, dialect)
        else:
            # The redacted content must not be returned.
            parts = len(step.parts) if isinstance(step, Spans) else 1
            texts = [("", masking.mask())] * parts
        hit_place = with_subpath(place, path)
        self._findings.hits += [Hit(hit_place, "", before, after) for before, after in texts]
        return changed

    # --- writing -----------------------------------------------------------------------------

    def check_legal_hold(self) -> None:
        """Raise :exc:`LegalHoldError` if a legal hold forbids the changes."""
        if self._session.legal_hold and any(c.message is None for c in self._findings.changes):
            raise LegalHoldError(
                f"session {self._session.session_id!r} is under legal hold, and the redaction "
                "would change a state, snapshot, stored object, title or metadata, whose "
                "original cannot be kept: release the hold first",
                [self._session],
            )

    @contextmanager
    def uploading(self) -> Iterator[None]:
        """Upload the binaries of redacted messages, and delete them if the block raises."""
        messages = [c.message for c in self._findings.changes if c.message is not None]
        uploads = blobs.Uploads(self._using, self._session.pk, messages, known=True)
        uploads.prepare()
        try:
            # The session is locked, so that no process deletes a binary.
            uploads.store()
            yield
        except BaseException:
            uploads.discard()
            raise

    def write(self, reason: str, actor: Any, secrets: set[str], details: Mapping[str, Any]) -> None:
        """Write and audit the changes, if any."""
        found = self._findings
        if not found.changes:
            return
        now = timezone.now()
        targets = {change.row.pk for change in found.changes if not change.is_copy}
        event = record_redaction(
            self._session,
            target=targets.pop() if len(targets) == 1 else None,
            actor=actor,
            reason=reason,
            secrets=secrets,
            details={
                "messages": found.messages,
                "states": len(found.changes) - found.messages,
                "hits": len(found.hits),
                "kinds": found.kinds(),
                **details,
            },
            using=self._using,
        )
        for change in found.changes:
            if change.contents is not None:
                if not write_object(self._using, change):
                    raise RetryError
                continue
            columns = change.columns
            if change.message is None:
                check_values_size(self._using, *columns.values())
                columns = {**columns, "updated_at": now}
                if isinstance(change.row, Session):
                    columns["header_change"] = self._session.change + 1
            else:
                check_statement_size(self._using, change.message.texts * 2)
                columns = redacted_columns(
                    change.message, event, change=self._session.change + 1, keep=self._keep
                )
            rows = type(change.row)._base_manager.using(self._using).filter(pk=change.row.pk)
            if isinstance(change.row, SessionMessage):
                rows = rows.filter(revision=change.row.revision)
            if not rows.update(**columns):
                raise RetryError
        changed = [change.row.pk for change in found.changes if change.message is not None]
        blobs.update_references(self._using, self._session.pk, changed)
        self._epoch = increment_redaction_epoch(self._using, self._session, now)


def _finders(family: MessageCopies | None) -> list[Finder]:
    scopes = family.scopes if family is not None else ()
    return [finder_for(scope) for scope in scopes if isinstance(scope, Find | Detect)]
