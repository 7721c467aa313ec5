"""The search in one session, which can be repeated for the rows that were written since."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Model

from django_agent_sessions.content import masking
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import (
    MessageFeedback,
    Note,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.models.content_columns import content_models
from django_agent_sessions.models.holds import refuse_if_held
from django_agent_sessions.store.contents import (
    Copy,
    MessageRef,
    agents_with_windows,
    are_short,
    content_versions,
    has_variants,
    snapshots_with_variants,
    walk,
)

from .column_masking import mask_columns
from .comments import COMMENT_COLUMNS, comments_on, mask_comment
from .copies import MessageCopies, NodeChanges, copies_in_session
from .findings import RowFindings
from .message_search import MessageSearch
from .scope_groups import ScopeGroups
from .scopes import Redaction
from .snapshot_columns import (
    drop_variants,
    mask_variants,
)
from .visibility import Visibility

# Rows that can have variants of messages; each is searched after the messages.
_WITH_VARIANTS: list[type[Model]] = [SessionAgent, Snapshot]


@dataclass
class _SearchedRows:
    """The searched rows of a model: their versions, what was found, and what to search again."""

    versions: dict[UUID, Any] = field(default_factory=dict)
    findings: dict[UUID, RowFindings] = field(default_factory=dict)
    stale: set[UUID] = field(default_factory=set)
    listed: int = 0
    with_variants: set[UUID] = field(default_factory=set)

    def forget(self, keys: Collection[UUID]) -> None:
        for key in keys:
            self.versions.pop(key, None)
            self.drop(key)

    def add(self, found: RowFindings) -> None:
        """Keep what was found in a row; of its matches those that are among the first ones."""
        found.hits = found.hits[: max(0, masking.MAX_LISTED_MATCHES - self.listed)]
        self.listed += len(found.hits)
        self.findings[found.copy.key] = found

    def drop(self, key: UUID) -> None:
        if (found := self.findings.pop(key, None)) is not None:
            self.listed -= len(found.hits)
            self.with_variants.discard(key)


def _models_to_search(groups: ScopeGroups, visibility: Visibility) -> list[type[Model]]:
    """Return the models in the order of a search."""
    if not groups.everywhere:
        models: list[type[Model]] = [SessionMessage, *COMMENT_COLUMNS]
        models += [SessionMultiAgent, *_WITH_VARIANTS]
    else:
        models = content_models()
    if groups.everywhere and groups.by_message:
        # The orchestrators after the messages, copies of which are in their states.
        models.remove(SessionMultiAgent)
        models.insert(models.index(SessionMessage) + 1, SessionMultiAgent)
    # What is hidden after what is seen, whose matches it is searched for.
    return sorted(models, key=visibility.hidden_models.__contains__)


class SessionSearch:
    """What a redaction finds in one session, and what it will write."""

    def __init__(
        self,
        using: str,
        session: Session,
        groups: ScopeGroups,
        families: Mapping[UUID, MessageCopies],
        *,
        dry_run: bool,
        visibility: Visibility,
    ) -> None:
        self.session = session
        self._visibility = visibility
        self._hidden = visibility.hidden_models
        self._using = using
        self._groups = groups
        self._families = families
        self._dry_run = dry_run
        self._messages = MessageSearch(using, session.pk, groups, with_texts=dry_run)
        self._models = _models_to_search(groups, visibility)
        self._members: dict[UUID, MessageCopies] = {}
        self._rows: dict[type[Model], _SearchedRows] = {}
        # The changed messages when the snapshots and windows were searched.
        self._refs: set[MessageRef] = set()
        # The named messages that changed when the orchestrators were searched.
        self._changes = NodeChanges()
        # What was found in what the user sees, when the rest was searched for it.
        self._texts: dict[type[Model], set[str]] = {}
        self.epoch: int | None = None

    # --- search ------------------------------------------------------------------------------

    def search(self) -> int:
        """Search the rows that were not searched yet, and return their number."""
        count = 0
        self._messages.forget_unreadable()
        self._members = copies_in_session(self._using, self.session.pk, self._families)
        for model in self._models:
            if model in _WITH_VARIANTS and self._refs != (refs := self._changed_refs()):
                # Their variants depend on the changed messages.
                self._refs = refs
                for changed in _WITH_VARIANTS:
                    self._rows.pop(changed, None)
            if model is SessionMultiAgent and self._changes != (changes := self._node_changes()):
                # Their states have copies of the changed messages.
                self._changes = changes
                self._rows.pop(SessionMultiAgent, None)
            if model in self._hidden and self._texts.get(model) != (texts := self._seen_texts()):
                self._texts[model] = texts
                self._rows.pop(model, None)
            searched = self._rows.get(model)
            keys = self._limit(model) if searched is None else searched.stale
            searched = searched or _SearchedRows()
            if keys is None or keys:
                for copy in walk(self._using, self.session, model, keys=keys):
                    self._search_row(searched, copy)
                    count += 1
            # Assigned last, so that a search that a lost connection interrupts starts again.
            self._rows[model] = searched
            searched.stale = set()
        return count

    def require(self, messages: Collection[UUID]) -> None:
        """Raise if one of the messages was not among the rows."""
        if missing := set(messages) - self._rows[SessionMessage].versions.keys():
            raise SessionNotFoundError(f"session {self.session.pk} has no message {min(missing)}")

    def count_written(self) -> int:
        """Count the rows that were written since the search, and forget what was found in them.

        Requires the session's lock.
        """
        self.epoch = None
        self._members = copies_in_session(self._using, self.session.pk, self._families)
        return sum(map(self._count_written, self._models))

    def is_short(self) -> bool:
        """Return whether what was written since the search can be searched with the lock."""
        if not all(model in self._rows for model in self._models):
            return False
        # A changed message can have variants in all of them, which are then searched, too.
        if self._changes or self._rows[Snapshot].versions or self._rows[SessionAgent].with_variants:
            return False
        stale = {model: rows.stale for model, rows in self._rows.items() if rows.stale}
        if stale and self._hidden:
            return False
        messages = stale.pop(SessionMessage, set())
        return not stale and are_short(self._using, messages)

    def _count_written(self, model: type[Model]) -> int:
        if (searched := self._rows.get(model)) is None:
            return 1
        versions = content_versions(self._using, self.session, model, self._limit(model))
        gone = searched.versions.keys() - versions.keys()
        searched.stale = {
            key for key, version in versions.items() if searched.versions.get(key) != version
        }
        searched.forget(gone | searched.stale)
        return len(gone | searched.stale)

    def _limit(self, model: type[Model]) -> Collection[UUID] | None:
        """Return the keys of the rows to search; None for all rows."""
        if self._groups.everywhere:
            return None
        if model is SessionMessage:
            return self._members.keys()
        if model in COMMENT_COLUMNS:
            return comments_on(self._using, self.session.pk, model, self._members)
        if model is SessionMultiAgent:
            return None if self._node_changes() else ()
        if not self._changed_refs():
            return ()
        key = self.session.pk
        if model is SessionAgent:
            return [row.pk for row in agents_with_windows(self._using, key) if has_variants(row)]
        rows = snapshots_with_variants(self._using, key)
        return list(rows.values_list("pk", flat=True))

    def _search_row(self, searched: _SearchedRows, copy: Copy) -> None:
        if isinstance(copy.row, SessionMessage):
            found = self._messages.search(copy, self._members.get(copy.key))
        elif self._visibility.hides(copy.row):
            groups = self._groups.limited_to(self._texts[type(copy.row)])
            found = RowFindings(groups, copy, is_hidden=True)
            self._search_columns(found)
        else:
            found = RowFindings(self._groups, copy)
            self._search_columns(found)
        searched.versions[copy.key] = copy.version
        searched.drop(copy.key)
        if found:
            searched.add(found)

    def _search_columns(self, found: RowFindings) -> None:
        if isinstance(found.copy.row, SessionMultiAgent):
            mask_columns(found)
            self._changes.replace_in(found)
            return
        if isinstance(row := found.copy.row, MessageFeedback | Note):
            if self._groups.everywhere or found.is_hidden:
                mask_columns(found)
            if found.is_hidden:
                return
            family = None if row.message_id is None else self._members.get(row.message_id)
            if family is not None:
                mask_comment(found, family, with_text=self._dry_run)
            return
        if not self._groups.everywhere:
            drop_variants(found, self._refs)
            return
        mask_columns(found)
        if isinstance(row, SessionAgent | Snapshot):
            mask_variants(found, self._refs)

    def _seen_texts(self) -> set[str]:
        """Return what is searched in what the user does not see."""
        return set().union(*(found.secrets for found in self.findings if not found.is_hidden))

    def _node_changes(self) -> NodeChanges:
        searched = self._rows.get(SessionMessage)
        found = searched.findings if searched else {}
        return NodeChanges.of(one for key, one in found.items() if key in self._members)

    def _changed_refs(self) -> set[MessageRef]:
        searched = self._rows.get(SessionMessage)
        rows = (
            [found.copy.row for found in searched.findings.values() if found.message]
            if (searched)
            else []
        )
        return {
            MessageRef(row.agent_id, row.branch, row.message_id)
            for row in rows
            if isinstance(row, SessionMessage)
        }

    # --- result ------------------------------------------------------------------------------

    @property
    def findings(self) -> list[RowFindings]:
        """What was found, in the order of the models and of their keys."""
        return [
            found
            for model in self._models
            if model in self._rows
            for _, found in sorted(self._rows[model].findings.items())
        ]

    @property
    def changes(self) -> list[RowFindings]:
        """The rows to write."""
        return [found for found in self.findings if found.values or found.message is not None]

    @property
    def secrets(self) -> set[str]:
        """The texts to mask in the reason."""
        return set().union(*(found.secrets for found in self.findings))

    @property
    def is_seen_by_agents(self) -> bool:
        """Whether a change is in the conversation, its state or its feedback: not only in notes."""
        return any(not isinstance(found.copy.row, Note) for found in self.changes)

    def result(self) -> Redaction:
        findings = [found for found in self.findings if not found.is_hidden]
        changes = [found for found in self.changes if not found.is_hidden]
        messages = sum(found.message is not None for found in changes)
        return Redaction(
            [hit for found in findings for hit in found.hits][: masking.MAX_LISTED_MATCHES],
            [place for found in findings for place in found.kept],
            messages,
            len(changes) - messages,
            self.session.redaction_epoch if self.epoch is None else self.epoch,
            self._dry_run,
            self.session.pk,
            unread=[place for found in findings for place in found.unread],
            counts={group: n for found in findings for group, n in found.counts.items()},
            hidden=self._visibility.hidden,
        )

    def check_legal_hold(self) -> None:
        """Raise ``LegalHoldError`` if there are changes and the session is under legal hold."""
        if self.changes:
            refuse_if_held(self.session, "redacting")
