"""Looking for what to redact in a locked session, and writing what was found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.utils import timezone

from django_agent_sessions import blobs, detectors, masking
from django_agent_sessions.exceptions import (
    LegalHoldError,
    RedactionScopeError,
    SessionNotFoundError,
)
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.masking import Finder, Path
from django_agent_sessions.models import Session, SessionAgent, SessionMessage, SessionMultiAgent
from django_agent_sessions.references import BlobRef, references
from django_agent_sessions.store.redacting import (
    keeps_original,
    move_epoch,
    record_redaction,
    redacted_columns,
)
from django_agent_sessions.store.rows import Row
from django_agent_sessions.store.vendors import check_statement_size, check_values_size

from .scopes import Block, Detect, Find, Hit, Place, Redaction, Scope, Span, WholeMessage

M = TypeVar("M", bound=Model)

_CHUNK = 200
_TITLE_LENGTH = 255


class ChangedMeanwhileError(Exception):
    """A writer without an epoch changed a message between its reading and its redaction."""


class Plan:
    """The scopes, in order of what they reach."""

    def __init__(self, scopes: Sequence[Scope]) -> None:
        self.everywhere: list[Finder] = []
        # What detectors take for a card in an id or a state's own bookkeeping is chance.
        self.named: list[Finder] = []
        self.by_message: dict[UUID, list[Scope]] = {}
        # As they were typed, which may not be how they were found.
        self.named_texts = {s.text for s in scopes if isinstance(s, Find) and not s.pattern}
        for scope in scopes:
            if isinstance(scope, Find | Detect) and scope.message is None:
                finder = _finder(scope)
                self.everywhere.append(finder)
                if isinstance(scope, Find):
                    self.named.append(finder)
            elif scope.message is not None:
                self.by_message.setdefault(scope.message, []).append(scope)


def _finder(scope: Find | Detect) -> Finder:
    if isinstance(scope, Detect):
        known = detectors.load(scope.names) if scope.names else detectors.available()
        return masking.Detecting(known)
    finder = _named(scope)
    if finder is None:
        what = "the pattern is not valid" if scope.pattern else "there is nothing to look for"
        raise RedactionScopeError(what)
    return finder


def _named(scope: Find) -> Finder | None:
    try:
        return masking.Pattern(scope.text) if scope.pattern else masking.Literal(scope.text)
    except (ValueError, re.error, OverflowError, RecursionError):
        # The message of the second holds the pattern: not even as context it may go along. The
        # others are of patterns that repeat something too often, or nest too deep.
        return None


@dataclass
class _Change:
    """A row to update."""

    row: Model
    columns: dict[str, Any]
    message: Row | None = None


class Work:
    """One redaction in one session, whose row is locked."""

    def __init__(self, using: str, session: Session, plan: Plan) -> None:
        self._using = using
        self._session = session
        self._plan = plan
        self._keep = keeps_original(session)
        self._hits: list[Hit] = []
        self._kept: list[Place] = []
        self._secrets: set[str] = set()
        self._changes: list[_Change] = []
        # Binaries in which nothing of what is looked for everywhere is.
        self._without_hits: set[BlobRef] = set()

    def run(self, reason: str, actor: Any, *, dry_run: bool) -> Redaction:
        """Finds, and writes what was found."""
        dialects: dict[UUID, str] = {}
        if self._plan.everywhere:
            self._look_at_session()
            for agent in self._owned(SessionAgent.objects.all(), locked=not dry_run):
                dialects[agent.pk] = agent.dialect
                self._look_at_agent(agent)
            for row in self._owned(SessionMultiAgent.objects.all(), locked=not dry_run):
                self._look_at_orchestrator(row)
        self._look_at_messages(dialects)
        messages = sum(change.message is not None for change in self._changes)
        states = len(self._changes) - messages
        epoch = self._session.redaction_epoch
        if self._changes and not dry_run:
            self._refuse_if_held()
            epoch = self._write(reason, actor, {"messages": messages, "states": states})
        return Redaction(self._hits, self._kept, messages, states, epoch, dry_run)

    def _owned(self, rows: QuerySet[M], *, locked: bool) -> QuerySet[M]:
        rows = rows.using(self._using).filter(session=self._session).order_by("pk")
        # A state that somebody writes without an epoch must not come in between.
        return rows.select_for_update() if locked else rows

    # --- looking -----------------------------------------------------------------------------

    def _look_at_session(self) -> None:
        session = self._session
        columns: dict[str, Any] = {}
        for name in ("title", "metadata", "origin"):
            value = getattr(session, name)
            changed = self._mask(value, self._place("session", session, "", name), free=True)
            if changed is not value:
                columns[name] = changed[:_TITLE_LENGTH] if name == "title" else changed
        self._change(session, columns)
        for name in ("session_id", "external_id", "namespace"):
            self._keep_id(getattr(session, name), self._place("session", session, "", name))

    def _look_at_agent(self, agent: SessionAgent) -> None:
        columns: dict[str, Any] = {}
        for name in ("state", "conversation_manager_state", "internal_state"):
            value = getattr(agent, name)
            place = self._place("agent", agent, agent.agent_id, name)
            changed = self._mask(value, place, free=name == "state")
            if changed is not value:
                columns[name] = changed
        self._change(agent, columns)
        self._keep_id(agent.agent_id, self._place("agent", agent, agent.agent_id, "agent_id"))

    def _look_at_orchestrator(self, row: SessionMultiAgent) -> None:
        place = self._place("orchestrator", row, row.multi_agent_id, "state")
        state = row.state
        if isinstance(state, dict) and "id" in state:
            # The program's name for its orchestrator, by which it is found.
            own = state["id"]
            if isinstance(own, str):
                self._keep_id(own, _at_path(place, ("id",)))
            rest = {key: value for key, value in state.items() if key != "id"}
            changed = self._mask(rest, place)
            changed = state if changed is rest else {"id": own, **changed}
        else:
            changed = self._mask(state, place)
        if changed is not state:
            self._change(row, {"state": changed})
        named = self._place("orchestrator", row, row.multi_agent_id, "multi_agent_id")
        self._keep_id(row.multi_agent_id, named)

    def _look_at_messages(self, dialects: dict[UUID, str]) -> None:
        wanted = None if self._plan.everywhere else set(self._plan.by_message)
        missing = set(self._plan.by_message)
        for row in self._messages(wanted):
            missing.discard(row.pk)
            if row.agent_id not in dialects:
                # Of single messages the agents' states, which may be large, are not read; and
                # looking locks nothing: an agent may have been made since.
                dialects |= self._dialects()
            if row.agent_id in dialects:
                self._look_at_message(row, dialects[row.agent_id])
        if missing:
            raise SessionNotFoundError(f"session {self._session.pk} has no message {min(missing)}")

    def _dialects(self) -> dict[UUID, str]:
        agents = SessionAgent.objects.using(self._using).filter(session=self._session)
        return dict(agents.values_list("pk", "dialect"))

    def _messages(self, wanted: set[UUID] | None) -> Iterator[SessionMessage]:
        # By key and in parts: a conversation may be larger than the memory, and a pooler in
        # transaction mode has no cursors.
        rows = SessionMessage.objects.using(self._using).filter(session=self._session)
        rows = rows.order_by("id") if wanted is None else rows.filter(pk__in=wanted).order_by("id")
        last: UUID | None = None
        while True:
            part = list((rows if last is None else rows.filter(pk__gt=last))[:_CHUNK])
            yield from part
            if len(part) < _CHUNK:
                return
            last = part[-1].pk

    def _look_at_message(self, row: SessionMessage, dialect: str) -> None:
        scopes = self._plan.by_message.get(row.pk, ())
        message, redact_message = self._with_binaries(row, scopes)
        current = message if redact_message is None else redact_message
        place = self._place("message", row, str(row.message_id), "message")
        changed = self._redacted(current, place, dialect, scopes)
        hidden = redact_message is not None and message != redact_message
        if changed is current and hidden and not self._keep:
            # An original from when originals were kept.
            place = self._place("message", row, str(row.message_id), "original")
            if not self._is_in_original(message, place, scopes):
                return
        elif changed is current:
            return
        self._changes.append(_Change(row, {}, message=Row(dialect, changed, limited=False)))

    def _with_binaries(self, row: SessionMessage, scopes: Sequence[Scope]) -> list[Any]:
        """Puts those binaries into a message in which something is found.

        Each is read once, however often it was said, and kept only with a message that changes.
        """
        both = [row.message, row.redact_message]
        looking: list[Finder] = [_finder(s) for s in scopes if isinstance(s, Find | Detect)]
        finders = [*self._plan.everywhere, *looking]
        if not finders:
            return both
        wanted = {reference for _, reference in references(both)} - self._without_hits
        found = dict(
            zip(wanted, blobs.found_in(self._using, self._session.pk, list(wanted)), strict=True)
        )
        holding = {
            reference.sha256
            for reference, value in found.items()
            if masking.mask_tree([value], finders)[1]
        }
        if not looking:
            self._without_hits |= {ref for ref in wanted if ref.sha256 not in holding}
        if not holding:
            return both
        return blobs.found_in(self._using, self._session.pk, both)

    def _is_in_original(self, original: Any, place: Place, scopes: Sequence[Scope]) -> bool:
        if any(isinstance(scope, WholeMessage) for scope in scopes):
            self._hits.append(Hit(place, "", "", masking.mask()))
            return True
        found = [_finder(scope) for scope in scopes if isinstance(scope, Find | Detect)]
        finders = [*self._plan.everywhere, *found]
        return self._mask(original, place, finders=finders) is not original

    def _redacted(self, payload: Any, place: Place, dialect: str, scopes: Sequence[Scope]) -> Any:
        changed = payload
        for scope in _in_order(scopes):
            changed = self._apply(scope, changed, place, dialect)
        return self._mask(changed, place)

    def _apply(self, scope: Find | Detect | _Cut, payload: Any, place: Place, dialect: str) -> Any:
        if isinstance(scope, Find | Detect):
            return self._mask(payload, place, finders=[_finder(scope)])
        if isinstance(payload, CorruptPayload):
            # It stays what no SDK is given.
            changed: Any = CorruptPayload(masking.mask())
        else:
            changed = _tried(scope, payload, dialect)
            if changed is None:
                raise RedactionScopeError(f"message {place.key} has nothing at this path")
        if changed == payload:
            return payload
        path = () if isinstance(scope, WholeMessage) else scope.path
        self._secrets.update(masking.removed(payload, changed))
        parts = len(scope.parts) if isinstance(scope, _Spans) else 1
        self._hits += [Hit(_at_path(place, path), "", "", masking.mask())] * parts
        return changed

    def _mask(
        self,
        value: Any,
        place: Place,
        *,
        free: bool = False,
        finders: Sequence[Finder] | None = None,
    ) -> Any:
        finders = self._plan.everywhere if finders is None else finders
        if not finders:
            return value
        corrupt = isinstance(value, CorruptPayload)
        kept: list[Path] = []
        content = value.text if isinstance(value, CorruptPayload) else value
        changed, hits = masking.mask_tree(content, finders, free=free, kept=kept)
        self._kept += [_at_path(place, path) for path in kept]
        for hit in hits:
            self._secrets.add(hit.found)
            self._hits.append(Hit(_at_path(place, hit.path), hit.kind, hit.before, hit.after))
        if not hits:
            return value
        return CorruptPayload(changed) if corrupt else changed

    def _keep_id(self, value: str | None, place: Place) -> None:
        if value and masking.places(value, self._plan.named):
            self._kept.append(place)

    def _place(self, kind: str, row: Model, name: str, column: str) -> Place:
        return Place(kind, row.pk, name, column)

    def _change(self, row: Model, columns: dict[str, Any]) -> None:
        if columns:
            self._changes.append(_Change(row, columns))

    # --- writing -----------------------------------------------------------------------------

    def _refuse_if_held(self) -> None:
        if self._session.legal_hold and any(c.message is None for c in self._changes):
            raise LegalHoldError(
                f"session {self._session.session_id!r} is under legal hold, and what is to be "
                "redacted stands in a state, title or metadata, which keep no original: release "
                "it first",
                [self._session],
            )

    def _write(self, reason: str, actor: Any, figures: dict[str, int]) -> int:
        messages = [change.message for change in self._changes if change.message is not None]
        uploads = blobs.Uploads(self._using, self._session.pk, messages, known=True)
        uploads.prepare()
        try:
            # Nobody takes a binary away: the session is locked.
            uploads.store()
            return self._write_rows(reason, actor, figures)
        except BaseException:
            uploads.discard()
            raise

    def _write_rows(self, reason: str, actor: Any, figures: dict[str, int]) -> int:
        now = timezone.now()
        targets = {change.row.pk for change in self._changes}
        event = record_redaction(
            self._session,
            target=targets.pop() if len(targets) == 1 else None,
            actor=actor,
            reason=reason,
            secrets=self._secrets | self._plan.named_texts,
            details={**figures, "hits": len(self._hits), "kinds": self._kinds()},
            using=self._using,
        )
        for change in self._changes:
            columns = change.columns
            if change.message is None:
                check_values_size(self._using, *columns.values())
                columns = {**columns, "updated_at": now}
            else:
                check_statement_size(self._using, change.message.texts * 2)
                columns = redacted_columns(change.message, event, keep=self._keep)
            rows = type(change.row)._base_manager.using(self._using).filter(pk=change.row.pk)
            if isinstance(change.row, SessionMessage):
                rows = rows.filter(revision=change.row.revision)
            if not rows.update(**columns):
                raise ChangedMeanwhileError
        changed = [change.row.pk for change in self._changes if change.message is not None]
        blobs.note_uses(self._using, self._session.pk, changed)
        return move_epoch(self._using, self._session, now)

    def _kinds(self) -> dict[str, int]:
        kinds: dict[str, int] = {}
        for hit in self._hits:
            kinds[hit.kind or "NAMED"] = kinds.get(hit.kind or "NAMED", 0) + 1
        return kinds


@dataclass(frozen=True)
class _Spans:
    """All spans of one text: cut out one by one, the first would move the others."""

    path: Path
    parts: tuple[tuple[int, int], ...]


_Cut: TypeAlias = WholeMessage | Block | _Spans


def _in_order(scopes: Sequence[Scope]) -> list[Find | Detect | _Cut]:
    """Puts what names places by number before what changes the numbers."""
    by_path: dict[Path, list[tuple[int, int]]] = {}
    for scope in scopes:
        if isinstance(scope, Span):
            by_path.setdefault(scope.path, []).append((scope.start, scope.end))
    spans = [_Spans(path, tuple(dict.fromkeys(parts))) for path, parts in by_path.items()]
    return [*spans, *(scope for scope in scopes if not isinstance(scope, Span))]


def _tried(scope: _Cut, payload: Any, dialect: str) -> Any:
    try:
        return _cut(scope, payload, dialect)
    except LookupError:
        # Its message holds the key that is not there: not even as context it may go along.
        return None


def _cut(scope: _Cut, payload: Any, dialect: str) -> Any:
    if isinstance(scope, WholeMessage):
        return masking.blank(dialect, payload)
    if isinstance(scope, Block):
        return masking.blank_block(dialect, payload, scope.path)
    return masking.blank_spans(payload, scope.path, *scope.parts)


def _at_path(place: Place, path: Path) -> Place:
    return Place(place.kind, place.key, place.name, place.column, path)
