"""The search in one session, which is repeated if a row was written since."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Model

from django_agent_sessions.content import masking
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import (
    MessageFeedback,
    Note,
    Session,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.models.content_columns import (
    ContentColumns,
    ContentKind,
    content_columns_of,
    content_models,
    models_with,
)
from django_agent_sessions.store.contents import (
    Copy,
    MessageRef,
    content_versions,
    keys_with_inline_messages,
    walk_model,
)

from .column_masking import mask_columns
from .comments import COMMENT_COLUMNS, comments_on, mask_comment
from .copies import MessageCopies, NodeChanges, copies_in_session
from .findings import RowFindings
from .inline_messages import drop_inline_messages, mask_inline_messages
from .message_search import MessageSearch
from .scope_groups import ScopeGroups
from .scopes import Redaction
from .visibility import Visibility


def _models_to_search(
    groups: ScopeGroups, hidden: Collection[type[Model]]
) -> dict[type[Model], ContentColumns]:
    """Return the models in the order of a search, with their columns."""
    if not groups.everywhere:
        models: list[type[Model]] = [SessionMessage, *COMMENT_COLUMNS]
        # After the messages, which these rows can have in another form.
        models += [SessionMultiAgent, *models_with(ContentKind.REFERENCES)]
    else:
        models = content_models()
    if groups.everywhere and groups.by_message:
        # The orchestrators after the messages, copies of which are in their states.
        models.remove(SessionMultiAgent)
        models.insert(models.index(SessionMessage) + 1, SessionMultiAgent)
    # What is hidden after what is seen, whose matches it is searched for.
    models.sort(key=hidden.__contains__)
    return {model: content_columns_of(model) for model in models}


class SessionSearch:
    """What a redaction finds in one session, and what it will write."""

    def __init__(
        self,
        using: str,
        session: Session,
        groups: ScopeGroups,
        copied: Mapping[UUID, MessageCopies],
        *,
        dry_run: bool,
        visibility: Visibility,
    ) -> None:
        self.session = session
        self._visibility = visibility
        self._using = using
        self._groups = groups
        self._copied = copied
        self._dry_run = dry_run
        self._messages = MessageSearch(using, session.pk, groups, with_texts=dry_run)
        self._hidden = visibility.hidden_models
        self._models = _models_to_search(groups, self._hidden)
        self.epoch: int | None = None
        self._is_done = False
        self._start()

    def _start(self) -> None:
        self._members: dict[UUID, MessageCopies] = {}
        self._versions: dict[type[Model], dict[Any, Any]] = {}
        self._findings: dict[type[Model], dict[Any, RowFindings]] = {}
        # The changed messages, which other rows can have inline.
        self._refs: set[MessageRef] = set()
        # The named messages that changed, copies of which are in the states of orchestrators.
        self._changes = NodeChanges()

    # --- search ------------------------------------------------------------------------------

    def search(self) -> None:
        """Search all rows, unless that was done and none was written since."""
        if self._is_done:
            return
        self._start()
        self._messages.forget_unreadable()
        self._members = copies_in_session(self._using, self.session.pk, self._copied)
        for model in self._models:
            self._search_model(model)
        self._is_done = True

    def _search_model(self, model: type[Model]) -> None:
        groups = self._groups
        if model in self._hidden:
            groups = groups.limited_to(self._seen_texts())
        versions: dict[Any, Any] = {}
        findings: dict[Any, RowFindings] = {}
        room = masking.MAX_LISTED_MATCHES
        keys = self._limit(model)
        is_searched = keys is None or keys
        columns = self._models[model]
        for copy in (
            walk_model(self._using, self.session, model, columns, keys) if is_searched else ()
        ):
            key = copy.row.pk
            versions[key] = copy.version
            if found := self._search_row(copy, groups):
                findings[key] = found
                # Of all matches the first ones are listed.
                found.hits = found.hits[:room]
                room -= len(found.hits)
        self._versions[model], self._findings[model] = versions, findings
        if model is SessionMessage:
            self._refs = self._changed_refs()
            self._changes = self._node_changes()

    def require(self, messages: Collection[UUID]) -> None:
        """Raise if one of the messages was not among the rows."""
        if missing := set(messages) - self._versions[SessionMessage].keys():
            raise SessionNotFoundError(f"session {self.session.pk} has no message {min(missing)}")

    def is_outdated(self) -> bool:
        """Return whether a row was written since the search, which is then done again.

        Requires the session's lock.
        """
        self.epoch = None
        self._members = copies_in_session(self._using, self.session.pk, self._copied)
        if self._is_done:
            # Of each model, because this locks the rows that are written without the session.
            limits = {model: self._limit(model) for model in self._models}
            versions = content_versions(self._using, self.session, self._models, limits)
            self._is_done = versions == self._versions
        return not self._is_done

    def _limit(self, model: type[Model]) -> Collection[UUID] | None:
        """Return the keys of the rows to search; None for all rows."""
        if self._groups.everywhere:
            return None
        if model is SessionMessage:
            return self._members.keys()
        if model in COMMENT_COLUMNS:
            return comments_on(self._using, self.session.pk, model, self._members)
        if model is SessionMultiAgent:
            return None if self._changes else ()
        if not self._refs:
            return ()
        return keys_with_inline_messages(self._using, self.session.pk, model)

    def _search_row(self, copy: Copy, groups: ScopeGroups) -> RowFindings:
        """Search a row; ``groups`` are what is searched in rows that the user does not see."""
        row = copy.row
        if isinstance(row, SessionMessage):
            return self._messages.search(copy, self._members.get(row.pk))
        is_hidden = type(row) in self._hidden and self._visibility.hides(row)
        found = RowFindings(groups if is_hidden else self._groups, copy, is_hidden=is_hidden)
        self._search_columns(found)
        return found

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
            copies = None if row.message_id is None else self._members.get(row.message_id)
            if copies is not None:
                mask_comment(found, copies, with_text=self._dry_run)
            return
        if not self._groups.everywhere:
            drop_inline_messages(found, self._refs)
            return
        mask_columns(found)
        mask_inline_messages(found, self._refs)

    def _seen_texts(self) -> set[str]:
        """Return what was found in what the user sees."""
        return set().union(*(found.secrets for found in self.findings if not found.is_hidden))

    def _node_changes(self) -> NodeChanges:
        found = self._findings[SessionMessage]
        return NodeChanges.of(one for key, one in found.items() if key in self._members)

    def _changed_refs(self) -> set[MessageRef]:
        rows: Any = [
            found.copy.row for found in self._findings[SessionMessage].values() if found.message
        ]
        return {MessageRef(row.agent_id, row.branch, row.message_id) for row in rows}

    # --- result ------------------------------------------------------------------------------

    @property
    def findings(self) -> list[RowFindings]:
        """What was found, in the order of the models and of their keys."""
        return [
            found
            for model in self._models
            for _, found in sorted(self._findings.get(model, {}).items())
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
