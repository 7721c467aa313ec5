"""Repairs of findings that lose no data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef, Sum

from django_agent_sessions import audit
from django_agent_sessions.blobs import blob_rows, update_references
from django_agent_sessions.content import codec, dialects
from django_agent_sessions.db.db_errors import is_missing_privilege
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.governance.session_change import SessionChange, change
from django_agent_sessions.models import (
    AuditEvent,
    Blob,
    BlobReference,
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
    TurnUsage,
)
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.functions import error_count, message_count, one_row_each
from django_agent_sessions.models.removal import may_remove
from django_agent_sessions.sql.triggers import Trigger, create_trigger
from django_agent_sessions.store.contents import replace_derived
from django_agent_sessions.values.token_counts import TokenCounts

from .batch import UNDECRYPTABLE, Agent, Batch, UsageSum
from .binaries import dangling_references
from .conversations import read_messages, wrong_derived_columns
from .counters import counter_corrections, expired_leases
from .findings import Finding, Kind
from .gaps import REPAIR_ACTOR, close_gaps

_UNDER_LEGAL_HOLD = "the session is under legal hold"
_DELETED = "the session was deleted"
_UNDECRYPTABLE = "a value of the session cannot be decrypted"

_Repair = Callable[[str, Session, Sequence[Finding]], str]
"""Repairs findings of one kind under the session's lock; returns the reason if it does not."""


def repair_findings(using: str, session: UUID, findings: Sequence[Finding]) -> dict[Finding, str]:
    """Repair findings of one session; return why others were left.

    Each kind is repaired in its own transaction.

    A session under legal hold must not change, except for its lease.
    """
    by_kind: dict[Kind, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_kind[finding.kind].append(finding)
    left: dict[Finding, str] = {}
    # In the order of the kinds: later repairs rely on correct positions.
    for kind in Kind:
        if kind in by_kind:
            reason = _repair_kind(using, session, kind, by_kind[kind])
            left |= dict.fromkeys(by_kind[kind], reason) if reason else {}
    return left


def _repair_kind(using: str, session: UUID, kind: Kind, findings: Sequence[Finding]) -> str:
    def repair(current: SessionChange) -> str:
        # Each repair reads the current rows, so a retry is safe.
        if not may_remove(current.session) and kind is not Kind.LEASE:
            return _UNDER_LEGAL_HOLD
        with codec.reading_damaged():
            return _REPAIRS[kind](using, current.session, findings)

    try:
        return change(session, repair, what=f"repairing session {session}", using=using).result
    except SessionNotFoundError:
        return _DELETED
    except UNDECRYPTABLE:
        return _UNDECRYPTABLE


def recreate_trigger(using: str, trigger: Trigger, problem: str) -> str:
    """Create a trigger again and record it; return the reason if the user may not."""
    try:
        with transaction.atomic(using):
            create_trigger(using, trigger)
            audit.record_checked(
                AuditEvent.Action.REPAIRED,
                actor=REPAIR_ACTOR,
                details={"trigger": f"{trigger.name}: {problem}"},
                using=using,
            )
    except DatabaseError as error:
        if not is_missing_privilege(error):
            raise
        return "only the owner of the table can create it"
    return ""


def _repair_derived_columns(using: str, session: Session, findings: Sequence[Finding]) -> str:
    agents = {
        key: Agent(session.pk, dialect, None)
        for key, dialect in SessionAgent.objects.using(using)
        .filter(session=session)
        .values_list("pk", "dialect")
    }
    batch = Batch(using, {session.pk: session}, agents)
    for part in read_messages(using, _rows(findings)):
        for row in part:
            agent = agents.get(row.agent_id)
            content = decode_payload(row.payload)
            if agent is None or isinstance(content, CorruptPayload):
                continue
            dialect = dialects.get(agent.dialect)
            if columns := wrong_derived_columns(batch, row, dialect, content):
                replace_derived(using, row.pk, columns)
    return ""


def _repair_gaps(using: str, session: Session, findings: Sequence[Finding]) -> str:
    agents = {finding.agent for finding in findings if finding.agent is not None}
    return next(filter(None, [close_gaps(using, session, agent) for agent in sorted(agents)]), "")


def _create_branch_rows(using: str, session: Session, findings: Sequence[Finding]) -> str:
    for finding in findings:
        agent, number = finding.agent, finding.branch
        if agent is None or number is None:
            continue
        branches = Branch.objects.using(using).filter(agent=agent)
        name = f"branch-{number}"
        while branches.filter(name=name).exists():
            name += "-"
        if not branches.filter(number=number).exists():
            Branch(
                session=session,
                agent_id=agent,
                number=number,
                name=name,
                kind=Branch.Kind.IMPORTED,
            ).save(using=using, force_insert=True)
    return ""


def _repair_references(using: str, session: Session, findings: Sequence[Finding]) -> str:
    dangling_references(using).filter(session=session).delete()
    update_references(using, session.pk, _rows(findings))
    return ""


def _delete_unused_blobs(using: str, session: Session, findings: Sequence[Finding]) -> str:
    used = BlobReference.objects.filter(blob=OuterRef("pk"))
    unused = Blob.objects.using(using).filter(~Exists(used), session=session)
    blob_rows.delete_blobs(using, list(unused.filter(pk__in=_rows(findings))))
    return ""


def _repair_counters(using: str, session: Session, findings: Sequence[Finding]) -> str:
    messages = SessionMessage.objects.using(using).filter(session=session).order_by()
    sums = {f"all_{name}": Sum(name) for name in TokenCounts._fields}
    of_messages = UsageSum().plus(0, *one_row_each(messages).aggregate(**sums).values())
    of_turns = UsageSum()
    turns = TurnUsage.objects.using(using).filter(session=session).order_by()
    for figures in turns.values_list("input_tokens", "output_tokens"):
        of_turns = of_turns.plus(0, *figures, 0, 0)
    spent = of_messages.at_least(of_turns)
    counts = messages.aggregate(messages=message_count(), errors=error_count())
    if correct := counter_corrections(session, **counts, spent=spent):
        Session.objects.using(using).filter(pk=session.pk).update(**correct)
    return ""


def _delete_old_leases(using: str, session: Session, findings: Sequence[Finding]) -> str:
    expired_leases(using).filter(session=session).delete()
    return ""


_REPAIRS: dict[Kind, _Repair] = {
    Kind.GAP: _repair_gaps,
    Kind.NEUTRAL: _repair_derived_columns,
    Kind.BRANCH_UNNAMED: _create_branch_rows,
    Kind.BLOB_USES: _repair_references,
    Kind.BLOB_UNUSED: _delete_unused_blobs,
    Kind.COUNTERS: _repair_counters,
    Kind.LEASE: _delete_old_leases,
}


def _rows(findings: Iterable[Finding]) -> list[UUID]:
    return [finding.row for finding in findings if finding.row is not None]
