"""The steps of changing branches, each inside the caller's transaction."""

from __future__ import annotations

from django.db.models import Max
from django.utils import timezone

from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, Branch, SessionMessage, TurnUsage
from django_agent_sessions.values.ids import new_id, validate_id
from django_agent_sessions.values.records import AgentRecord, BranchRecord

from ._message_copies import common_prefix_length, copy_messages
from ._queries import branch_rows, conversation, conversation_length, snapshot_rows

MAIN_NAME = "main"
"""Name reserved for the main branch."""


def branch_record(agent: AgentRecord, number: int, row: Branch | None, length: int) -> BranchRecord:
    if row is None:
        # The main branch, or one of an import from before branches had names.
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


def move_to_branch(
    using: str, agent: AgentRecord, to: int, name: str | None, kind: str, what: str
) -> BranchRecord | None:
    """Move the messages after a position to a new branch, and copy the earlier ones there.

    They are those of the agent's ``branch``.
    """
    length = conversation_length(using, agent)
    if not -1 <= to < length:
        raise SessionNotFoundError(f"{what}: message {to} does not exist")
    if to == length - 1:
        return None
    source, number = agent.branch, free_number(using, agent)
    row = insert_branch(using, agent, number, name, source, to + 1, kind, what)
    remaining = conversation(using, agent).filter(message_id__lte=to)
    turns = TurnUsage.objects.using(using).filter(agent=agent.id, branch=source)
    turns.filter(turn__gt=remaining.filter(role="user").count()).update(branch=number)
    conversation(using, agent).filter(message_id__gt=to).order_by().update(branch=number)
    # Only the earlier messages are left on the source branch now.
    copy_messages(using, conversation(using, agent), agent.on_branch(number))
    snapshots = snapshot_rows(using, agent).filter(branch=source, length__gt=to + 1)
    # The latest snapshot stays with the conversation that the agent continues.
    snapshots.exclude(snapshot_id="").update(branch=number)
    return branch_record(agent, number, row, length)


def copy_branch(
    using: str,
    agent: AgentRecord,
    name: str | None,
    source: int,
    upto: int | None,
    kind: str,
    what: str,
) -> BranchRecord:
    number = free_number(using, agent)
    messages = conversation(using, agent.on_branch(source))
    if upto is not None:
        messages = messages.filter(message_id__lt=upto)
    row = insert_branch(using, agent, number, name, source, 0, kind, what)
    copied = copy_messages(using, messages, agent.on_branch(number))
    branch_rows(using, agent).filter(pk=row.pk).update(start=copied)
    row.start = copied
    return branch_record(agent, number, row, copied)


def swap_with_main(
    using: str,
    agent: AgentRecord,
    number: int,
    row: Branch | None,
    *,
    change: int,
    former_name: str | None,
) -> tuple[BranchRecord, str]:
    """Swap the main branch with another; the former main branch gets a new number.

    Return the former main branch, and the name of the one that became the main branch. ``change``
    is the change number with which the messages of the new main branch got their positions, from
    the session's locked row. ``former_name`` is the name that the main branch had as a side branch,
    which it gets back.
    """
    main = agent.on_branch(MAIN_BRANCH)
    name = branch_record(agent, number, row, 0).name
    start = common_prefix_length(using, agent, MAIN_BRANCH, number)
    length = conversation_length(using, main)
    free = free_number(using, agent)
    if former_name is None or branch_rows(using, agent).filter(name=former_name).exists():
        # A new name, because it now holds other messages than the branch that had the old name.
        former_name = unused_name(using, agent, free)
    _move_branch(using, agent, MAIN_BRANCH, free)
    _move_branch(using, agent, number, MAIN_BRANCH)
    _keep_common_turns(using, agent.on_branch(free), start)
    conversation(using, main).order_by().update(change=change)
    columns = {
        "number": free,
        "name": former_name,
        "kind": Branch.Kind.REWOUND,
        "parent": MAIN_BRANCH,
        "start": start,
        "created_at": timezone.now(),
    }
    if row is None:
        former_main = Branch(session_id=agent.session, agent_id=agent.id, **columns)
        former_main.save(using=using, force_insert=True)
    else:
        former_main = row
        branch_rows(using, agent).filter(pk=row.pk).update(**columns)
        for column, value in columns.items():
            setattr(row, column, value)
    others = branch_rows(using, agent).exclude(pk=former_main.pk)
    others.filter(parent=MAIN_BRANCH).update(parent=free)
    others.filter(parent=number).update(parent=MAIN_BRANCH)
    return branch_record(agent, free, former_main, length), name


def _move_branch(using: str, agent: AgentRecord, number: int, to: int) -> None:
    conversation(using, agent.on_branch(number)).order_by().update(branch=to)
    snapshots = snapshot_rows(using, agent).exclude(snapshot_id="")
    snapshots.filter(branch=number).update(branch=to)
    turns = TurnUsage.objects.using(using).filter(agent=agent.id, branch=number)
    turns.update(branch=to)


def _keep_common_turns(using: str, former: AgentRecord, start: int) -> None:
    """Move the usage of the turns that a former main branch has in common with the new one there.

    ``start`` is the number of messages that they have in common.
    """
    turns = TurnUsage.objects.using(using).filter(agent=former.id)
    if not start or not turns.filter(branch=former.branch).exists():
        return
    rows = conversation(using, former).order_by()
    common = rows.filter(message_id__lt=start, role="user").count()
    # A turn that goes on in the former main branch alone is not the same turn.
    common -= rows.filter(message_id=start).exclude(role="user").count()
    stored = turns.filter(branch=MAIN_BRANCH, turn__lte=common).values_list("turn", flat=True)
    moved = turns.filter(branch=former.branch, turn__lte=common).exclude(turn__in=list(stored))
    moved.update(branch=MAIN_BRANCH)


def insert_branch(
    using: str,
    agent: AgentRecord,
    number: int,
    name: str | None,
    parent: int,
    start: int,
    kind: str,
    what: str,
) -> Branch:
    name = unused_name(using, agent, number) if name is None else validate_id(name, "branch name")
    taken = branch_rows(using, agent).filter(name=name).exists()
    if taken or name == MAIN_NAME:
        raise SessionConflictError(f"{what}: a branch with this name exists; choose another name")
    row = Branch(
        id=new_id(),
        session_id=agent.session,
        agent_id=agent.id,
        number=number,
        name=name,
        kind=kind,
        parent=parent,
        start=start,
    )
    row.save(using=using, force_insert=True)
    return row


def unused_name(using: str, agent: AgentRecord, number: int) -> str:
    """Return the name of a branch that was given none: ``branch-<number>``, if that is unused."""
    name = f"branch-{number}"
    while branch_rows(using, agent).filter(name=name).exists():
        name += "-"
    return name


def find_branch_row(using: str, agent: AgentRecord, number: int, what: str) -> Branch | None:
    row = branch_rows(using, agent).filter(number=number).first()
    exists = row is not None or number == MAIN_BRANCH
    if not exists and not conversation(using, agent.on_branch(number)).exists():
        raise SessionNotFoundError(f"{what}: the branch does not exist")
    return row


def free_number(using: str, agent: AgentRecord) -> int:
    rows = branch_rows(using, agent).aggregate(last=Max("number"))["last"] or 0
    messages = SessionMessage.objects.using(using).filter(agent=agent.id)
    last = messages.order_by("-branch").values_list("branch", flat=True).first() or 0
    return max(rows, last) + 1


def branch_lengths(using: str, agent: AgentRecord) -> dict[int, int]:
    rows = SessionMessage.objects.using(using).filter(agent=agent.id).order_by()
    last_positions = rows.values_list("branch").annotate(last=Max("message_id"))
    return {branch: last + 1 for branch, last in last_positions}
