"""Import of one session: its row, agents and orchestrators.

The session's ``origin`` records the import that created it and, until it is complete, the progress
of each agent, updated in the transaction of each batch. Therefore the next run continues exactly
there, and imported messages are never mixed with those of a session of another origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import AgentSessionsError, PayloadError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    Session,
    SessionAgent,
    SessionMultiAgent,
)
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store import MAIN_NAME, SessionStore
from django_agent_sessions.store.importing import (
    MAX_COST,
    ImportedBranch,
    ImportStore,
    plausible_count,
)
from django_agent_sessions.values.ids import new_id, validate_id
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, AgentState, SessionRecord, Usage

from .message_import import CHANGED_REASON, MessageImport
from .reports import ImportRun
from .review_import import imported_review
from .sources import Skipped, SourceAgent, SourceMultiAgent, SourceSession
from .untrusted import is_valid_window, valid_count, valid_key, valid_time

IMPORT_ACTOR = "agent_sessions_import"
"""The audited actor of a legal hold that is taken over from the source."""

_ORIGIN_KEY = "import"
_COUNTERS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class SessionImport:
    """The import of one session."""

    def __init__(
        self, run: ImportRun, found: SourceSession, store: SessionStore, place: str
    ) -> None:
        self.run, self.found, self.store, self.place = run, found, store, place
        self.now = timezone.now()
        self.created_at = valid_time(found.created_at) or self.now
        # Without an owner filter, because ids are unique across owners.
        self.all = SessionStore(
            owner=EVERYBODY, namespace=store.namespace, scope=store.scope, using=run.using
        )
        self.target, self.all_targets = ImportStore(store), ImportStore(self.all)
        # True if this run created the session, which therefore has no rows yet.
        self.fresh = False
        self.left_out_agents = 0
        self.origin: dict[str, Any] = {}
        self.mark: dict[str, Any] = {}

    def take(self) -> str:
        """Import the session; return the name of the report's counter."""
        validate_id(self.found.session_id)
        existing = self.all_targets.find_imported(self.found.session_id)
        self._set_origin({})
        if existing is None:
            session, outcome = self._create_session(), "made"
            self.fresh = True
        else:
            session, outcome = existing[0], "continued"
            if (reason := self._refusal(existing[1])) is not None:
                self.skip("", reason)
                return "left_out"
            self._set_origin(existing[1][_ORIGIN_KEY].get("agents", {}))
            if existing[1][_ORIGIN_KEY].get("complete"):
                return "unchanged"
            if session.redaction_epoch != self._epoch():
                self.skip("", CHANGED_REASON)
                return "left_out"
        for skipped in self.found.skipped:
            self.run.report.skip(skipped)
        latest = None
        for agent in self._unique_agents():
            moment = self._agent(session, agent)
            latest = max(filter(None, (latest, moment)), default=None)
        for multi_agent in self.found.multi_agents:
            self._multi_agent(session, multi_agent)
        self._complete(session, latest)
        return outcome

    def is_imported_by_another(self) -> bool:
        """Return, after a conflict, whether another import has created the same session."""
        existing = self.all_targets.find_imported(self.found.session_id)
        if existing is None or self._refusal(existing[1]) is not None:
            return False
        return existing[0].redaction_epoch == self._epoch()

    def _epoch(self) -> int:
        return valid_count(self.found.columns.get("redaction_epoch")) or 0

    def _set_origin(self, progress: Mapping[str, Any]) -> None:
        known = self.found.columns.get("origin")
        known_key, made = self.found.columns.get("id"), self.found.created_at
        self.mark = {
            "source": self.run.kind,
            "id": self.found.session_id,
            "key": str(known_key) if known_key else None,
            # Distinguishes sessions of the same id in several sources.
            "created_at": made.isoformat() if made else None,
            "complete": False,
            "agents": {name: list(figures) for name, figures in progress.items()},
        }
        self.origin = {**(known if isinstance(known, dict) else {}), _ORIGIN_KEY: self.mark}

    def _refusal(self, origin: Any) -> str | None:
        """Return why this import must not continue an existing session, or None."""
        mark = origin.get(_ORIGIN_KEY) if isinstance(origin, dict) else None
        if not isinstance(mark, dict):
            return (
                "a session with this id already exists and was not created by an import: choose "
                "another --namespace"
            )
        if any(mark.get(name) != self.mark[name] for name in ("source", "id", "key", "created_at")):
            return (
                f"a session with this id was imported from another source "
                f"({mark.get('source')}): choose another --namespace"
            )
        return None

    def _create_session(self) -> SessionRecord:
        columns = self.found.columns
        epoch = self._epoch()
        redactions = valid_count(columns.get("redactions"))
        values = {
            "title": str(columns.get("title") or ""),
            "title_derived": columns.get("title_derived") is True,
            "metadata": columns.get("metadata") or {},
            "external_id": columns.get("external_id"),
            "session_type": displayable(str(columns.get("session_type") or "AGENT"))[:32],
            "updated_at": valid_time(self.found.updated_at),
            "redaction_epoch": epoch,
            # Older files have one number for both.
            "redactions": epoch if redactions is None else redactions,
            "archived_at": valid_time(columns.get("archived_at")),
            "expires_at": valid_time(columns.get("expires_at")),
        }
        if self.run.dry_run:
            return _dry_run_record(self.found.session_id, self.store, self.now)
        values["id"] = self.all_targets.unused_or_new_key(
            Session, valid_key(columns.get("id"), self.now)
        )
        try:
            return self._create_row(values)
        except PayloadError as error:
            self.skip(", metadata", str(error))
            return self._create_row({**values, "metadata": {}})

    def _create_row(self, columns: Mapping[str, Any]) -> SessionRecord:
        return self.target.create_imported(
            self.found.session_id,
            origin=self.origin,
            columns=columns,
            created_at=self.created_at,
        )

    def _unique_agents(self) -> Iterator[SourceAgent]:
        seen: set[str] = set()
        for agent in self.found.agents:
            if agent.agent_id in seen:
                self.skip(f", agent {agent.agent_id!r}", "another agent has this id")
                self.left_out_agents += 1
            else:
                seen.add(agent.agent_id)
                yield agent

    def _agent(self, session: SessionRecord, agent: SourceAgent) -> datetime | None:
        """Import an agent; return the time of its last message."""
        place = f", agent {agent.agent_id!r}"
        try:
            validate_id(agent.agent_id, "agent_id")
        except AgentSessionsError as error:
            self.skip(place, str(error))
            self.left_out_agents += 1
            return None
        record = self._open_agent(session, agent, place)
        latest = MessageImport(self, session, record, agent, place).take()
        main_name = agent.columns.get("main_name")
        has_rows = agent.branches or agent.costs or main_name is not None
        if has_rows and not self.run.dry_run:
            taken = {MAIN_NAME}
            branches = self._branches(agent, place, taken)
            if main_name is not None:
                main_name = self._branch_name(main_name, f"{place}, name of the main branch", taken)
            self.target.import_branches(record, branches, agent.costs, main_name=main_name)
        return latest

    def _branches(
        self, agent: SourceAgent, place: str, taken: set[str]
    ) -> dict[int, ImportedBranch]:
        read, written = self.mark["agents"].get(agent.agent_id, (0, 0))
        return {
            branch.number: ImportedBranch(
                self._branch_name(branch.name, f"{place}, name of branch {branch.number}", taken),
                valid_time(branch.created_at) or self.created_at,
                branch.kind or Branch.Kind.IMPORTED,
                branch.parent or MAIN_BRANCH,
                # Messages that the branches have in common may be missing.
                branch.start if read == written else None,
            )
            for branch in agent.branches
        }

    def _branch_name(self, name: str, place: str, taken: set[str]) -> str | None:
        """Return a valid name that no other branch has, and add it to those; None otherwise."""
        problem = "another branch has this name" if name in taken else ""
        try:
            taken.add(validate_id(name, "branch name"))
        except AgentSessionsError as error:
            problem = str(error)
        if problem:
            self.skip(place, problem)
        return None if problem else name

    def _open_agent(self, session: SessionRecord, agent: SourceAgent, place: str) -> AgentRecord:
        data = self._valid_state(agent.data, place)
        made = valid_time(agent.created_at) or self.created_at
        changed = valid_time(agent.updated_at) or made
        if self.run.dry_run:
            existing = None if self.fresh else self.all.agents.find(session, agent.agent_id)
            return existing or AgentRecord(
                new_id(), session.id, agent.agent_id, agent.dialect, data, made, changed
            )
        existing = None if self.fresh else self.store.agents.find(session, agent.agent_id)
        if existing is not None:
            return existing
        free = self.target.unused_or_new_key(
            SessionAgent, valid_key(agent.columns.get("id"), self.now)
        )

        def create(data: AgentState) -> AgentRecord:
            return self.store.agents.create(
                session,
                agent.agent_id,
                dialect=agent.dialect,
                data=data,
                id=free,
                created_at=made,
                updated_at=changed,
            )

        try:
            return create(data)
        except PayloadError as error:
            self.skip(f"{place}, state", str(error))
            return create(AgentState())

    def _valid_state(self, data: AgentState, place: str) -> AgentState:
        """Replace corrupt and invalid values, with which the agent could not be restored."""
        empty = AgentState()
        corrupt = {
            name: getattr(empty, name)
            for name in AgentState.__dataclass_fields__
            if isinstance(getattr(data, name), CorruptPayload)
        }
        for name in corrupt:
            self.skip(f"{place}, {name}", "it is corrupt")
        if "window" not in corrupt and not is_valid_window(data.window):
            self.skip(f"{place}, window", "it is invalid")
            corrupt["window"] = empty.window
        return replace(data, **corrupt)

    def _multi_agent(self, session: SessionRecord, found: SourceMultiAgent) -> None:
        place = f", orchestrator {found.multi_agent_id!r}"
        try:
            validate_id(found.multi_agent_id, "multi_agent_id")
            if isinstance(found.state, CorruptPayload):
                self.skip(place, "its state is corrupt")
            elif not (
                self.run.dry_run or self.store.multi_agents.find(session, found.multi_agent_id)
            ):
                known = valid_key(found.columns.get("id"), self.now)
                self.store.multi_agents.create(
                    session,
                    found.multi_agent_id,
                    found.state,
                    kind=displayable(found.kind)[:64],
                    id=self.target.unused_or_new_key(SessionMultiAgent, known),
                    created_at=valid_time(found.created_at) or self.created_at,
                    updated_at=valid_time(found.updated_at),
                    nodes=not found.has_transcript,
                )
        except AgentSessionsError as error:
            self.skip(place, str(error))

    def _complete(self, session: SessionRecord, latest: datetime | None) -> None:
        if self.run.dry_run:
            return
        known = self.found.columns
        changed = valid_time(self.found.updated_at) or latest or self.created_at
        columns: dict[str, Any] = {
            "updated_at": changed,
            "last_activity_at": valid_time(known.get("last_activity_at")) or latest or changed,
        }
        counters = {"cost": plausible_count(known.get("cost"), MAX_COST)}
        if self._is_whole():
            counters |= {name: plausible_count(known.get(name)) for name in _COUNTERS}
            counters["message_count"] = valid_count(known.get("message_count"))
        # Unknown tokens stay unknown; a figure that the source does not have is added up instead.
        columns |= {name: None for name in _COUNTERS if known.get(name, 0) is None}
        columns |= {name: value for name, value in counters.items() if value is not None}
        if known.get("legal_hold") is True:
            legal_hold.hold(
                session,
                reason="under legal hold in the source",
                actor=IMPORT_ACTOR,
                using=self.run.using,
            )
        self.mark["complete"] = True
        del self.mark["agents"]
        review = None
        if self.found.review is not None:
            review = imported_review(
                self.found.review,
                session.id,
                made=self.created_at,
                now=self.now,
                using=self.target.using,
            )
        self.target.finish_import(session, origin=self.origin, columns=columns, review=review)

    def _is_whole(self) -> bool:
        """Return whether all messages of the source were written, also by earlier runs."""
        progress = self.mark["agents"].values()
        return not self.left_out_agents and all(read == written for read, written in progress)

    def skip(self, place: str, reason: str, *, error: bool = True) -> None:
        """Record an item that was not imported, or not as it is."""
        self.run.report.skip(Skipped(self.place + place, reason, error))


def _dry_run_record(session_id: str, store: SessionStore, now: datetime) -> SessionRecord:
    return SessionRecord(
        id=new_id(),
        session_id=session_id,
        namespace=store.namespace,
        scope=store.scope,
        session_type="AGENT",
        owner_id=None,
        external_id=None,
        title="",
        metadata={},
        redaction_epoch=0,
        usage=Usage(),
        legal_hold=False,
        created_at=now,
        updated_at=now,
        last_activity_at=now,
        archived_at=None,
        expires_at=None,
    )
