"""What the changes of branches are made of, each within a transaction of somebody else."""

from __future__ import annotations

from django.db.models import Max
from django.utils import timezone

from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.ids import new_id, validate_id
from django_agent_sessions.models import MAIN_BRANCH, Branch, SessionMessage, TurnUsage
from django_agent_sessions.records import AgentRecord, BranchRecord, Usage

from .copying import common, copy
from .messages import MessageStore
from .moments import MomentStore

MAIN_NAME = "main"
"""What the main branch is called; no other can be."""


class BranchWriter(MomentStore, MessageStore):
    """Steps that change branches, with the session's row locked."""

    def _set_aside(
        self, agent: AgentRecord, to: int, name: str | None, kind: str, what: str
    ) -> BranchRecord | None:
        agent = agent.on_branch(MAIN_BRANCH)
        length = self._length(agent)
        if not -1 <= to < length:
            raise SessionNotFoundError(f"{what}: there is no message {to}")
        if to == length - 1:
            return None
        number = self._free_number(agent)
        made = self._insert_branch(agent, number, name, MAIN_BRANCH, to + 1, kind, what)
        kept = self._messages(agent).filter(message_id__lte=to)
        turns = TurnUsage.objects.using(self.using).filter(agent=agent.id, branch=MAIN_BRANCH)
        turns.filter(turn__gt=kept.filter(role="user").count()).update(branch=number)
        self._messages(agent).filter(message_id__gt=to).order_by().update(branch=number)
        copied = copy(self.using, self._messages(agent), agent.on_branch(number))
        snapshots = self._snapshots(agent).filter(branch=MAIN_BRANCH, length__gt=to + 1)
        # The latest one is of what the agent goes on with, wherever that is.
        snapshots.exclude(snapshot_id="").update(branch=number)
        self._count(agent, Usage(messages=copied))
        return branch_record(agent, number, made, length)

    def _create(
        self,
        agent: AgentRecord,
        name: str | None,
        source: int,
        upto: int | None,
        kind: str,
        what: str,
    ) -> BranchRecord:
        number = self._free_number(agent)
        messages = self._messages(agent.on_branch(source))
        if upto is not None:
            messages = messages.filter(message_id__lt=upto)
        made = self._insert_branch(agent, number, name, source, 0, kind, what)
        copied = copy(self.using, messages, agent.on_branch(number))
        self._branch_rows(agent).filter(pk=made.pk).update(start=copied)
        made.start = copied
        self._count(agent, Usage(messages=copied))
        return branch_record(agent, number, made, copied)

    def _swap(self, agent: AgentRecord, number: int, row: Branch | None) -> BranchRecord:
        """Lets the main branch and another change places; the main one gets a new number."""
        main = agent.on_branch(MAIN_BRANCH)
        start = common(self.using, agent, MAIN_BRANCH, number)
        length = self._length(main)
        free = self._free_number(agent)
        self._move_branch(agent, MAIN_BRANCH, free)
        self._move_branch(agent, number, MAIN_BRANCH)
        made = Branch(session_id=agent.session, agent_id=agent.id) if row is None else row
        # A new name: what is kept now is another branch than the one that bore the old one.
        made.number, made.name = free, f"branch-{free}"
        made.kind, made.parent, made.start = Branch.Kind.REWOUND, MAIN_BRANCH, start
        made.created_at = timezone.now()
        made.save(using=self.using)
        others = self._branch_rows(agent).exclude(pk=made.pk)
        others.filter(parent=MAIN_BRANCH).update(parent=free)
        others.filter(parent=number).update(parent=MAIN_BRANCH)
        return branch_record(agent, free, made, length)

    def _move_branch(self, agent: AgentRecord, number: int, to: int) -> None:
        self._messages(agent.on_branch(number)).order_by().update(branch=to)
        snapshots = self._snapshots(agent).exclude(snapshot_id="")
        snapshots.filter(branch=number).update(branch=to)
        turns = TurnUsage.objects.using(self.using).filter(agent=agent.id, branch=number)
        turns.update(branch=to)

    def _insert_branch(
        self,
        agent: AgentRecord,
        number: int,
        name: str | None,
        parent: int,
        start: int,
        kind: str,
        what: str,
    ) -> Branch:
        name = f"branch-{number}" if name is None else validate_id(name, "branch name")
        taken = self._branch_rows(agent).filter(name=name).exists()
        if taken or name == MAIN_NAME:
            raise SessionConflictError(f"{what}: there is a branch of this name already")
        made = Branch(
            id=new_id(),
            session_id=agent.session,
            agent_id=agent.id,
            number=number,
            name=name,
            kind=kind,
            parent=parent,
            start=start,
        )
        made.save(using=self.using, force_insert=True)
        return made

    def _known_branch(self, agent: AgentRecord, number: int, what: str) -> Branch | None:
        row = self._branch_rows(agent).filter(number=number).first()
        there = row is not None or number == MAIN_BRANCH
        if not there and not self._messages(agent.on_branch(number)).exists():
            raise SessionNotFoundError(f"{what}: there is no such branch")
        return row

    def _free_number(self, agent: AgentRecord) -> int:
        rows = self._branch_rows(agent).aggregate(last=Max("number"))["last"] or 0
        messages = SessionMessage.objects.using(self.using).filter(agent=agent.id)
        last = messages.order_by("-branch").values_list("branch", flat=True).first() or 0
        return max(rows, last) + 1

    def _lengths(self, agent: AgentRecord) -> dict[int, int]:
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id).order_by()
        found = rows.values_list("branch").annotate(last=Max("message_id"))
        return {branch: last + 1 for branch, last in found}


def branch_record(agent: AgentRecord, number: int, row: Branch | None, length: int) -> BranchRecord:
    """Tells what is known of a branch."""
    if row is None:
        # The main branch, or one that an import made before branches had names.
        name = MAIN_NAME if number == MAIN_BRANCH else f"branch-{number}"
        kind = "" if number == MAIN_BRANCH else Branch.Kind.IMPORTED
        return BranchRecord(agent.id, number, name, kind, MAIN_BRANCH, 0, length, None)
    return BranchRecord(
        agent=agent.id,
        number=number,
        name=row.name,
        kind=str(row.kind),
        parent=row.parent,
        start=row.start,
        length=length,
        created_at=row.created_at,
    )
