"""Copies of messages: on other branches, in forks, and in the states of orchestrators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from django_agent_sessions.content import dialects, masking
from django_agent_sessions.content.masking import Finder
from django_agent_sessions.content.paths import Path, value_at
from django_agent_sessions.models import MessageFeedback, Note, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload

from .findings import RowFindings
from .scope_groups import PositionalScope, ScopeGroups, apply_scope, spans_first
from .scopes import Detect, Find, Scope, WholeMessage

_MISSING = object()


@dataclass
class MessageCopies:
    """A message and its copies, with the scopes that apply to them."""

    scopes: list[Scope] = field(default_factory=list)
    named: dict[UUID, Any] = field(default_factory=dict, repr=False)
    removed_texts: set[str] = field(default_factory=set, repr=False)
    commented: set[UUID] = field(default_factory=set)
    """Those with feedback or notes."""

    def steps(
        self, key: UUID, payload: Any
    ) -> list[Find | Detect | PositionalScope | list[Finder]]:
        """Return the steps that redact the message with this key, in order."""
        found: list[Find | Detect | PositionalScope | list[Finder]] = []
        for scope in spans_first(self.scopes):
            if (
                key in self.named
                or isinstance(scope, Find | Detect | WholeMessage)
                or isinstance(payload, CorruptPayload)
                or self._is_same(payload, scope.path)
            ):
                found.append(scope)
            else:
                # Including short texts, because only this message is searched.
                found.append([masking.TextFinder(secret) for secret in sorted(self.removed_texts)])
        return found

    def _is_same(self, payload: Any, path: Path) -> bool:
        value = _value_or_missing(payload, path)
        return value is not _MISSING and any(
            value == _value_or_missing(named, path) for named in self.named.values()
        )


def named_messages(using: str, session: UUID, groups: ScopeGroups) -> dict[UUID, MessageCopies]:
    """Return the named messages, grouped by the message of which they are copies."""
    found: dict[UUID, MessageCopies] = {}
    if not groups.by_message:
        return found
    rows = SessionMessage.objects.using(using).filter(session=session, pk__in=groups.by_message)
    columns = ("pk", "source", "agent__dialect", "message")
    for key, source, dialect, current in rows.order_by("pk").values_list(*columns):
        copies = found.setdefault(source or key, MessageCopies())
        scopes = groups.by_message[key]
        copies.scopes += scopes
        copies.named[key] = current
        copies.removed_texts |= _removed_texts(current, dialect, scopes)
    return found


def copies_in_session(
    using: str, session: UUID, copied: Mapping[UUID, MessageCopies]
) -> dict[UUID, MessageCopies]:
    """Return the messages of a session that are named or copies of named ones."""
    if not copied:
        return {}
    rows = SessionMessage.objects.using(using).filter(
        Q(pk__in=copied) | Q(source__in=copied), session=session
    )
    rated = Exists(MessageFeedback.objects.filter(message=OuterRef("pk")))
    noted = Exists(Note.objects.filter(session=session, message=OuterRef("pk")))
    found: dict[UUID, MessageCopies] = {}
    for key, source, *commented in rows.order_by().values_list("pk", "source", rated, noted):
        if (copies := copied.get(source or key)) is None:
            continue
        found[key] = copies
        if any(commented):
            copies.commented.add(key)
    return found


def _removed_texts(payload: Any, dialect: str, scopes: Sequence[Scope]) -> set[str]:
    if isinstance(payload, CorruptPayload):
        return set()
    removed: set[str] = set()
    for scope in spans_first(scopes):
        if not isinstance(scope, Find | Detect | WholeMessage):
            changed = apply_scope(scope, payload, dialect)
            if changed is not None:
                removed |= masking.masked_texts(payload, changed)
    return removed


def _value_or_missing(payload: Any, path: Path) -> Any:
    try:
        return value_at(payload, path)
    except LookupError:
        return _MISSING


@dataclass(frozen=True)
class NodeChanges:
    """The messages of nodes that a redaction changes, each with its replacement.

    The state of their orchestrator has what they said last.
    """

    by_dialect: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, messages: Iterable[RowFindings]) -> Self:
        """Collect the changed messages of nodes."""
        found: dict[str, list[tuple[Any, Any]]] = {}
        for one in messages:
            name: str = one.copy.row.dialect  # type: ignore[attr-defined] # an annotation
            if one.message is None or not dialects.get(name).is_of_nodes:
                continue
            before = one.copy.values["message"]
            if isinstance(before, dict):
                found.setdefault(name, []).append((before, one.message.message))
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self.by_dialect)

    def replace_in(self, found: RowFindings) -> None:
        """Replace the copies of the messages in the state of an orchestrator."""
        state = before = found.values.get("state", found.copy.values["state"])
        for name, changes in self.by_dialect.items():
            state = dialects.get(name).replace_node_messages(state, changes)
        if state is not before:
            found.is_copy = True
            found.values["state"] = state
