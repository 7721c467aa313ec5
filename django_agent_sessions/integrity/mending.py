"""Mending what can be mended without anything being lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Sum

from django_agent_sessions.blobs import note_uses, rows
from django_agent_sessions.fields import CorruptPayload, read
from django_agent_sessions.models import (
    Blob,
    BlobReference,
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
    TurnUsage,
)
from django_agent_sessions.store.alone import lock_session
from django_agent_sessions.store.base import write

from .batch import Agent, Batch, Tally
from .binaries import dangling
from .closing import close_gaps
from .conversations import changed_columns, read_messages
from .figures import old_leases, wanted_counters
from .findings import Finding, Kind

_HELD = "the session is under legal hold"
_GONE = "the session is gone"

_Mender = Callable[[str, Session, Sequence[Finding]], str]
"""Mends findings of one kind with the session's row locked; says why not, if not."""


def mend(using: str, session: UUID, findings: Sequence[Finding]) -> dict[Finding, str]:
    """Mends findings of one session, each kind in a transaction of its own.

    Nothing is mended in a session under legal hold, in which nothing may change.
    """
    by_kind: dict[Kind, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_kind[finding.kind].append(finding)
    left: dict[Finding, str] = {}
    # In the order of the kinds: positions are closed up before anything counts on them.
    for kind in Kind:
        if kind in by_kind:
            why = _mend(using, session, kind, by_kind[kind])
            left |= dict.fromkeys(by_kind[kind], why) if why else {}
    return left


def _mend(using: str, session: UUID, kind: Kind, findings: Sequence[Finding]) -> str:
    def mend_kind(unsure: bool) -> str:
        # Each looks at what is there, so that it may be done twice.
        with transaction.atomic(using):
            row = lock_session(using, session)
            if row is None:
                return _GONE
            if row.legal_hold and kind is not Kind.LEASE:
                return _HELD
            return _MENDERS[kind](using, row, findings)

    return write(using, mend_kind, what=f"mending session {session}")


def _neutral_columns(using: str, session: Session, findings: Sequence[Finding]) -> str:
    agents = {
        key: Agent(session.pk, dialect, None)
        for key, dialect in SessionAgent.objects.using(using)
        .filter(session=session)
        .values_list("pk", "dialect")
    }
    batch = Batch(using, {session.pk: session}, agents)
    for part in read_messages(using, _rows(findings)):
        for row in part:
            agent = agents.get(row.agent)
            content = read(row.shown)
            if agent is None or isinstance(content, CorruptPayload):
                continue
            if columns := changed_columns(batch, row, agent, content):
                SessionMessage.objects.using(using).filter(pk=row.pk).update(**columns)
    return ""


def _gaps(using: str, session: Session, findings: Sequence[Finding]) -> str:
    agents = {finding.agent for finding in findings if finding.agent is not None}
    return next(filter(None, [close_gaps(using, session, agent) for agent in sorted(agents)]), "")


def _branches(using: str, session: Session, findings: Sequence[Finding]) -> str:
    for finding in findings:
        agent, number = finding.agent, finding.branch
        if agent is None or number is None:
            continue
        there = Branch.objects.using(using).filter(agent=agent)
        name = f"branch-{number}"
        while there.filter(name=name).exists():
            name += "-"
        if not there.filter(number=number).exists():
            Branch(
                session=session,
                agent_id=agent,
                number=number,
                name=name,
                kind=Branch.Kind.IMPORTED,
            ).save(using=using, force_insert=True)
    return ""


def _blob_uses(using: str, session: Session, findings: Sequence[Finding]) -> str:
    dangling(using).filter(session=session).delete()
    note_uses(using, session.pk, _rows(findings))
    return ""


def _unused_blobs(using: str, session: Session, findings: Sequence[Finding]) -> str:
    used = BlobReference.objects.filter(blob=OuterRef("pk"))
    unused = Blob.objects.using(using).filter(~Exists(used), session=session)
    rows.drop(using, list(unused.filter(pk__in=_rows(findings))))
    return ""


def _counters(using: str, session: Session, findings: Sequence[Finding]) -> str:
    messages = SessionMessage.objects.using(using).filter(session=session).order_by()
    sums = {"all_in": Sum("input_tokens"), "all_out": Sum("output_tokens")}
    said = messages.filter(source=None).aggregate(**sums)
    turns = TurnUsage.objects.using(using).filter(session=session).order_by().aggregate(**sums)
    spent = Tally()
    for figures in (said, turns):
        spent = spent.plus(0, figures["all_in"], figures["all_out"])
    count = messages.aggregate(count=Count("pk"))["count"]
    if wanted := wanted_counters(session, count, spent):
        Session.objects.using(using).filter(pk=session.pk).update(**wanted)
    return ""


def _leases(using: str, session: Session, findings: Sequence[Finding]) -> str:
    old_leases(using).filter(session=session).delete()
    return ""


_MENDERS: dict[Kind, _Mender] = {
    Kind.GAP: _gaps,
    Kind.NEUTRAL: _neutral_columns,
    Kind.BRANCH_UNNAMED: _branches,
    Kind.BLOB_USES: _blob_uses,
    Kind.BLOB_UNUSED: _unused_blobs,
    Kind.COUNTERS: _counters,
    Kind.LEASE: _leases,
}


def _rows(findings: Iterable[Finding]) -> list[UUID]:
    return [finding.row for finding in findings if finding.row is not None]
