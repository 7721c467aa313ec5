"""The search in a session's messages and in the binaries that they refer to."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django_agent_sessions import blobs
from django_agent_sessions.content import masking
from django_agent_sessions.content.blob_refs import BlobRef, references
from django_agent_sessions.content.masking import Finder
from django_agent_sessions.content.work_budget import check_work, hold_work
from django_agent_sessions.exceptions import RedactionScopeError
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store.contents import Copy, MessageRow

from .copies import MessageCopies
from .excerpts import excerpts
from .findings import RowFindings, with_subpath
from .scope_groups import PositionalScope, ScopeGroups, Spans, apply_scope, finder_for
from .scopes import Detect, Find, Hit, Place, WholeMessage

_KEPT = 3
"""A changed message and its original need about so many times the memory of its text."""


class MessageSearch:
    """Searches the messages of one session.

    ``with_texts`` fills the texts of all matches.
    """

    def __init__(self, using: str, session: UUID, groups: ScopeGroups, *, with_texts: bool) -> None:
        self._using = using
        self._session = session
        self._groups = groups
        self._with_texts = with_texts
        # Binaries without matches of the session-wide finders.
        self._without_hits: set[BlobRef] = set()
        self._unreadable: set[BlobRef] = set()

    def forget_unreadable(self) -> None:
        """Read binaries again that could not be read: they may have been stored meanwhile."""
        self._unreadable.clear()

    def search(self, copy: Copy, copies: MessageCopies | None) -> RowFindings:
        """Search a message; ``copies`` are the scopes for it and its copies, if any."""
        found = RowFindings(self._groups, copy)
        for name in copy.columns.ids:
            found.keep_id(getattr(copy.row, name), found.place(name))
        dialect: str = copy.row.dialect  # type: ignore[attr-defined] # an annotation
        current = self._with_binaries(found, copy.values["message"], copies)
        changed = self._redact(found, current, dialect, copies)
        if changed is current:
            return found
        found.is_copy = copies is not None and copy.key not in copies.named
        found.message = MessageRow(dialect, changed, limited=False)
        # With the message that was read.
        hold_work(_KEPT * sum(map(len, found.message.texts)))
        return found

    def _with_binaries(self, found: RowFindings, shown: Any, copies: MessageCopies | None) -> Any:
        """Return what is shown of the message, with the binaries that have matches.

        Each binary is read once, and kept in memory only if its message changes.
        """
        message_finders = _finders(copies)
        everywhere = self._groups.everywhere
        finders = [*everywhere, *message_finders] if message_finders else everywhere
        all_references = {ref for _, ref in references(shown)} if finders else set()
        if not all_references:
            return shown
        contents = self._read(all_references - self._without_hits - self._unreadable)
        if all_references & self._unreadable:
            found.unread.append(found.place("message"))
        hits = {ref: masking.mask_tree([value], finders)[1] for ref, value in contents.items()}
        matching = {ref.sha256 for ref, matches in hits.items() if matches}
        if not matching and any(matches.unread for matches in hits.values()):
            found.unread.append(found.place("message"))
        if not message_finders:
            readable = contents.keys() - self._unreadable
            self._without_hits |= {ref for ref in readable if ref.sha256 not in matching}
        if not matching:
            return shown
        return blobs.existing_binaries(self._using, self._session, [shown])[0]

    def _read(self, wanted: set[BlobRef]) -> dict[BlobRef, Any]:
        check_work(sum(ref.size for ref in wanted))
        values = blobs.existing_binaries(self._using, self._session, list(wanted))
        contents = dict(zip(wanted, values, strict=True))
        self._unreadable |= {ref for ref, value in contents.items() if isinstance(value, BlobRef)}
        return contents

    def _redact(
        self, found: RowFindings, payload: Any, dialect: str, copies: MessageCopies | None
    ) -> Any:
        changed = payload
        steps = () if copies is None else copies.steps(found.copy.key, payload)
        for step in steps:
            changed = self._apply(found, step, changed, dialect)
        return found.mask(changed, found.place("message"), dialect=dialect)

    def _apply(
        self,
        found: RowFindings,
        step: Find | Detect | PositionalScope | list[Finder],
        payload: Any,
        dialect: str,
    ) -> Any:
        place = found.place("message")
        if isinstance(step, list):
            return found.mask(payload, place, finders=step, dialect=dialect)
        if isinstance(step, Find | Detect):
            return found.mask(payload, place, finders=[finder_for(step)], dialect=dialect)
        changed = _apply_position(step, payload, dialect, place)
        if changed == payload:
            return payload
        found.secrets.update(masking.masked_texts(payload, changed))
        path = () if isinstance(step, WholeMessage) else step.path
        hit_place = with_subpath(place, path)
        texts = self._texts(step, payload, dialect)
        found.count(hit_place, count=len(texts))
        found.hits += [Hit(hit_place, "", before, after) for before, after in texts]
        return changed

    def _texts(self, step: PositionalScope, payload: Any, dialect: str) -> list[tuple[str, str]]:
        if self._with_texts:
            return excerpts(step, payload, dialect)
        # The redacted content must not be returned.
        return [("", masking.mask())] * (len(step.parts) if isinstance(step, Spans) else 1)


def _apply_position(step: PositionalScope, payload: Any, dialect: str, place: Place) -> Any:
    if isinstance(payload, CorruptPayload):
        # It stays a corrupt payload, which no SDK receives.
        return CorruptPayload(masking.mask())
    changed = apply_scope(step, payload, dialect)
    if changed is None:
        raise RedactionScopeError(f"message {place.key} has no content at this path")
    return changed


def _finders(copies: MessageCopies | None) -> list[Finder]:
    scopes = copies.scopes if copies is not None else ()
    return [finder_for(scope) for scope in scopes if isinstance(scope, Find | Detect)]
