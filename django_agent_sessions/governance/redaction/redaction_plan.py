"""The plan of a redaction: searched without a lock, checked and written under it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions import audit, blobs
from django_agent_sessions.content.work_budget import check_work
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.exceptions import MatchesChangedError, SessionNotFoundError
from django_agent_sessions.governance.operation_erasure import mask_operations
from django_agent_sessions.governance.session_change import SessionChange
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.querysets import groups_of_keys
from django_agent_sessions.models.session_names import by_key
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.contents import uploads_of, write_redaction
from django_agent_sessions.store.locking import check_removal, lock_session
from django_agent_sessions.values.owners import EVERYBODY

from .copies import MessageCopies, named_messages
from .findings import count_kinds
from .scope_groups import ScopeGroups
from .scopes import Redaction
from .session_search import SessionSearch
from .visibility import SessionVisibility, Visibility


class RedactionPlan:
    """A redaction in a session and, if requested, in its forks."""

    def __init__(
        self,
        using: str,
        session: UUID,
        groups: ScopeGroups,
        *,
        descendants: bool,
        dry_run: bool,
        within: QuerySet[Session] | None = None,
        visibility: SessionVisibility | None = None,
    ) -> None:
        self._using = using
        self._session = session
        self._groups = groups
        self._descendants = descendants
        self._within = within
        self._visibility = visibility
        self._unreached: list[UUID] = []
        self._dry_run = dry_run
        self._copied: dict[UUID, MessageCopies] = {}
        self._searches: dict[UUID, SessionSearch] = {}
        self._uploads: dict[UUID, blobs.Uploads] = {}
        self._superseded: list[blobs.Uploads] = []
        self._attempts = ExitStack()
        self._uploaded: set[UUID] = set()

    # --- search ------------------------------------------------------------------------------

    def search(self) -> None:
        """Search all sessions that were not searched, or were written since."""
        if self._session not in self._searches:
            rows = Session.objects.using(self._using)
            if (first := rows.filter(pk=self._session).first()) is None:
                raise SessionNotFoundError(f"session {self._session} does not exist")
            keys = self._fork_keys() if self._descendants else []
            forks = [rows.filter(pk__in=batch).order_by("pk") for batch in groups_of_keys(keys)]
            self._begin([first, *itertools.chain.from_iterable(forks)])
        for search in self._searches.values():
            check_work()
            search.search()
            if search.session.pk == self._session:
                search.require(self._groups.by_message)
        self._superseded += self._uploads.values()
        self._uploads, self._uploaded = {}, set()

    def _begin(self, sessions: Sequence[Session]) -> None:
        self._copied = named_messages(self._using, self._session, self._groups)
        self._searches = {session.pk: self._new_search(session) for session in sessions}

    def _new_search(self, session: Session) -> SessionSearch:
        return SessionSearch(
            self._using,
            session,
            self._groups,
            self._copied,
            dry_run=self._dry_run,
            visibility=self._visibility(session) if self._visibility else Visibility(),
        )

    # --- with the lock -----------------------------------------------------------------------

    def is_outdated(self, session: Session) -> bool:
        """Return whether a row was written since the search; lock the forks, too."""
        sessions = [session, *(self._locked_forks() if self._descendants else ())]
        if any(map(self._was_changed, sessions)):
            self._begin(sessions)
            return True
        searches = {row.pk: self._searches.get(row.pk) or self._new_search(row) for row in sessions}
        for row in sessions:
            searches[row.pk].session = row
        self._searches = searches
        outdated = [search for search in searches.values() if search.is_outdated()]
        if outdated and self._groups.by_message:
            # The scopes of copies depend on the named messages.
            self._begin(sessions)
        return bool(outdated)

    def _was_changed(self, session: Session) -> bool:
        """Return whether another operation moved or redacted messages since the search."""
        search = self._searches.get(session.pk)
        if search is None:
            return session.pk == self._session
        return search.session.redaction_epoch != session.redaction_epoch

    def _fork_keys(self) -> list[UUID]:
        store = SessionStore(owner=EVERYBODY, using=self._using)
        keys = store.sessions.descendants(by_key(self._session))
        if self._within is None:
            return keys
        reached: set[UUID] = set()
        for batch in groups_of_keys(keys):
            reached.update(self._within.filter(pk__in=batch).values_list("pk", flat=True))
        self._unreached = [key for key in keys if key not in reached]
        return [key for key in keys if key in reached]

    def _locked_forks(self) -> list[Session]:
        """Lock all forks of the locked session, each after the session it was forked from."""
        locked: dict[UUID, Session | None] = {}
        # A session could be forked until it was locked. Keys are ordered by time, so that other
        # processes lock the same sessions in the same order.
        while more := set(self._fork_keys()) - locked.keys():
            for key in sorted(more):
                check_work()
                locked[key] = lock_session(self._using, key, content=True)
        return [row for row in locked.values() if row is not None]

    @contextmanager
    def without_orphans(self) -> Iterator[None]:
        """Delete at the end what was uploaded and is not used; if the block raises, everything."""
        try:
            yield
        except Exception:
            self._searches = {}
            raise
        finally:
            # Also of forks that were deleted meanwhile.
            keys = self._uploads.keys() - self._searches.keys()
            for uploads in [*self._superseded, *(self._uploads[key] for key in keys)]:
                uploads.discard()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Upload the binaries of redacted messages; kept for a retry after a conflict."""
        with ExitStack() as self._attempts, secure_delete(self._using):
            self._uploaded = set()
            self._upload()
            yield

    def _upload(self) -> None:
        for key, search in self._searches.items():
            if key not in self._uploads:
                rows = [found.message for found in search.changes if found.message is not None]
                self._uploads[key] = uploads_of(self._using, key, rows, known=True)
            if key not in self._uploaded:
                self._attempts.enter_context(self._uploads[key].attempt())
                self._uploaded.add(key)

    def apply(self, change: SessionChange, expected: str | None = None) -> Redaction:
        """Write and audit the changes; without any, write nothing."""
        searches = list(self._searches.values())
        found = self.result()
        if expected is not None and expected != found.digest:
            raise MatchesChangedError(found)
        for search in searches:
            check_removal(search.session, bool(search.changes), "redacting")
        self._upload()
        secrets = set().union(*(search.secrets for search in searches))
        if secrets or self._visibility is None:
            # A guess that is in no place that the user sees is not tried on reasons.
            secrets |= self._groups.named_texts
        change.is_silent = not self._searches[self._session].is_seen_by_agents
        for search in searches:
            self._write(search, change, secrets)
        return self.result()

    def _write(self, search: SessionSearch, change: SessionChange, secrets: set[str]) -> None:
        changes = search.changes
        # Before the event of this redaction, whose reason is masked when it is recorded.
        reasons = audit.mask_reasons(search.session.pk, secrets, using=self._using)
        operations = mask_operations(search.session.pk, secrets, using=self._using)
        if not (changes or reasons or operations):
            return
        session, result = search.session, search.result()
        is_fork = session.pk != self._session
        targets = {found.copy.key for found in changes if not found.is_copy}
        event = change.record(
            AuditEvent.Action.REDACTED,
            session=session.pk,
            target=targets.pop() if len(targets) == 1 else None,
            secrets=secrets,
            messages=result.messages,
            states=result.states,
            hits=result.total,
            kinds=count_kinds(result.counts),
            **({"reasons": reasons} if reasons else {}),
            **({"operations": operations} if operations else {}),
            **({"forked_from": str(self._session)} if is_fork else {}),
        )
        if not changes:
            return
        # Not in the row, which a retry compares with the row of then.
        search.epoch = write_redaction(
            self._using,
            session,
            event,
            self._uploads[session.pk],
            messages=[
                (found.copy.key, found.copy.version, found.message)
                for found in changes
                if found.message is not None
            ],
            rows=[(found.copy.row, found.values) for found in changes if found.message is None],
            is_seen=search.is_seen_by_agents,
        )

    def result(self) -> Redaction:
        found, *others = [search.result() for search in self._searches.values()]
        found.forks.extend(others)
        found.unreached.extend(self._unreached)
        return found
