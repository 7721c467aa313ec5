"""The timeline changes: what their pages say that will and will not change, and what makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_agent_sessions.admin.formatting import fill_in, moment_tag
from django_agent_sessions.admin.pages import admin_url
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, SessionAgent, Snapshot
from django_agent_sessions.models.removal import may_remove
from django_agent_sessions.timeline import Timeline
from django_agent_sessions.values.records import AgentRecord, BranchRecord

from .listing import (
    TimelineTarget,
    get_agent_or_404,
    get_branch_or_404,
    get_message_or_404,
    get_snapshot_or_404,
    main_branch_length,
)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The content of a confirmation page."""

    title: str
    button: str
    back: str
    """URL of the cancel link."""

    lines: list[str]
    """Sentences that describe the change."""

    action: AuditEvent.Action
    apply: Callable[[Timeline], tuple[str, str]]
    """Makes the change, and returns the success message and the URL to redirect to."""

    notes: list[str] = field(default_factory=list)
    """Further information."""

    blocked: str = ""
    """Why the change is not possible; empty if it is."""

    danger: bool = False
    """Whether data is lost."""

    seen: str = ""
    """The figures in the text. If they change before the POST, the page is shown again."""


def confirm_fork(viewer: Viewer, message: UUID) -> Confirmation:
    """Confirm a fork, create it and redirect to it."""
    target = get_message_or_404(viewer, message)

    def apply(timeline: Timeline) -> tuple[str, str]:
        key, _created = timeline.fork(at=target.key)
        text = _("This is the fork. The original conversation did not change.")
        return text, admin_url(viewer.model_admin, "session_change", key)

    copied = _count_messages(target.position + 1)
    notes = [
        _("The fork belongs to the same owner. This conversation does not change."),
        _("Redacted text is also redacted in the fork, and no original is copied."),
    ]
    if _has_other_agents(viewer, target.agent):
        notes.insert(0, _("Earlier messages of other agents are copied, too."))
    if viewer.session.legal_hold:
        notes.append(_("The legal hold applies to this conversation only, not to the fork."))
    words = {"copied": copied, **_target_words(target)}
    return Confirmation(
        title=_("Fork from message %(position)s") % words,
        button=_("Fork"),
        back=_message_url(viewer, target),
        lines=[
            fill_in(
                _(
                    "A new conversation is created with a copy of %(copied)s of agent %(agent)s, "
                    "up to and including message %(position)s (%(when)s)."
                ),
                words,
            ),
            _("Both conversations then continue independently of each other."),
        ],
        notes=notes,
        action=AuditEvent.Action.FORKED,
        apply=apply,
        seen=str(target.position),
    )


def confirm_rewind(viewer: Viewer, message: UUID) -> Confirmation:
    """Confirm a rewind to a message and apply it."""
    target = get_message_or_404(viewer, message)
    if target.branch != MAIN_BRANCH:
        raise Http404
    length = main_branch_length(viewer, target.agent)
    later = length - target.position - 1
    words = {"later": _count_messages(later), **_target_words(target)}

    def apply(timeline: Timeline) -> tuple[str, str]:
        side_branch = timeline.rewind(target.agent, target.key)
        here = f"{viewer.page}?agent={target.agent.id}"
        if side_branch is None:
            return _("There are no messages after this message."), here
        count = side_branch.length - side_branch.start
        text = ngettext(
            "%(count)d message was moved to %(branch)s.",
            "%(count)d messages were moved to %(branch)s.",
            count,
        )
        return text % {"count": count, "branch": side_branch.name}, here

    notes = [_state_note(viewer, target.agent, target.position + 1)]
    if _has_other_agents(viewer, target.agent):
        notes.append(_("Other agents of this conversation do not change."))
    return Confirmation(
        title=_("Rewind to message %(position)s") % words,
        button=_("Rewind"),
        back=_message_url(viewer, target),
        lines=[
            fill_in(
                _(
                    "Agent %(agent)s returns to message %(position)s (%(when)s) and continues "
                    "from there."
                ),
                words,
            ),
            ngettext(
                "%(later)s after it is moved to a side branch. Nothing is lost: the branch can be "
                "read, compared and restored.",
                "%(later)s after it are moved to a side branch. Nothing is lost: the branch can be "
                "read, compared and restored.",
                later,
            )
            % words,
        ],
        notes=notes,
        action=AuditEvent.Action.REWOUND,
        apply=apply,
        blocked="" if later else _("There are no messages after this message."),
        seen=f"{target.position} {length}",
    )


def confirm_switch(viewer: Viewer, agent: UUID, number: int) -> Confirmation:
    """Confirm that a side branch becomes the main branch, and apply it."""
    record, branch = _side_branch_or_404(viewer, agent, number)

    def apply(timeline: Timeline) -> tuple[str, str]:
        former = timeline.switch_branch(record, number)
        text = _("Branch %(branch)s was restored. The former main branch is now %(other)s.")
        names = {"branch": branch.name, "other": former.name}
        return text % names, f"{viewer.page}?agent={agent}"

    main = main_branch_length(viewer, record)
    words = {
        "agent": record.agent_id,
        "branch": branch.name,
        "messages": _count_messages(branch.length),
        "main": _count_messages(main),
    }
    return Confirmation(
        title=_("Restore branch %(branch)s") % words,
        button=_("Restore"),
        back=f"{viewer.base_url}branches/?agent={agent}",
        lines=[
            _("Agent %(agent)s continues with branch %(branch)s, which has %(messages)s.") % words,
            _(
                "The current main branch, with %(main)s, becomes a side branch. Nothing is lost: "
                "it can be restored in the same way."
            )
            % words,
        ],
        notes=[_state_note(viewer, record, branch.length, number)],
        action=AuditEvent.Action.RESTORED,
        apply=apply,
        seen=f"{main} {branch.length}",
    )


def confirm_delete(viewer: Viewer, agent: UUID, number: int) -> Confirmation:
    """Confirm the deletion of a side branch and apply it."""
    record, branch = _side_branch_or_404(viewer, agent, number)
    back = f"{viewer.base_url}branches/?agent={agent}"

    def apply(timeline: Timeline) -> tuple[str, str]:
        timeline.delete_branch(record, number)
        return _("Branch %(branch)s was deleted.") % {"branch": branch.name}, back

    rows = Snapshot.objects.using(viewer.using).filter(agent=agent, branch=number)
    snapshots = rows.count()
    words = {
        "agent": record.agent_id,
        "branch": branch.name,
        "messages": _count_messages(branch.length),
        "count": snapshots,
    }
    lines = [
        _("Branch %(branch)s of agent %(agent)s will be deleted, with its %(messages)s.") % words
    ]
    if snapshots:
        lines.append(
            ngettext(
                "%(count)d snapshot of the branch will be deleted, too.",
                "%(count)d snapshots of the branch will be deleted, too.",
                snapshots,
            )
            % words
        )
    lines.append(
        _(
            "The branch cannot be restored. Messages that it shares with other branches "
            "remain on those branches."
        )
    )
    held = _("This session is under legal hold: none of its branches can be deleted.")
    return Confirmation(
        title=_("Delete branch %(branch)s") % words,
        button=_("Delete"),
        back=back,
        lines=lines,
        action=AuditEvent.Action.BRANCH_DELETED,
        apply=apply,
        blocked="" if may_remove(viewer.session) else held,
        danger=True,
        seen=f"{branch.name} {branch.length} {snapshots}",
    )


def confirm_restore(viewer: Viewer, snapshot: UUID) -> Confirmation:
    """Confirm the restoration of a snapshot and apply it."""
    moment = get_snapshot_or_404(viewer, snapshot)

    def apply(timeline: Timeline) -> tuple[str, str]:
        timeline.restore_snapshot(moment.agent, moment.key)
        return _("The snapshot was restored."), f"{viewer.page}?agent={moment.agent.id}"

    branch = get_branch_or_404(viewer, moment.agent, moment.branch)
    main = (
        branch.length if moment.branch == MAIN_BRANCH else main_branch_length(viewer, moment.agent)
    )
    later = branch.length - moment.position
    words = {
        "agent": moment.agent.agent_id,
        "when": moment_tag(moment.created_at),
        "messages": _count_messages(moment.position),
        "later": _count_messages(later),
        "main": _count_messages(main),
        "branch": branch.name,
    }
    lines: list[str] = [
        fill_in(
            _("Agent %(agent)s returns to the snapshot of %(when)s: %(messages)s and its state."),
            words,
        )
    ]
    if moment.branch != MAIN_BRANCH:
        lines.append(
            _(
                "It continues with branch %(branch)s, and the current main branch, with "
                "%(main)s, becomes a side branch."
            )
            % words
        )
    if later > 0:
        lines.append(
            ngettext(
                "%(later)s that came later is moved to a side branch.",
                "%(later)s that came later are moved to a side branch.",
                later,
            )
            % words
        )
    lines.append(_("Nothing is lost: a snapshot of the agent's current state is taken first."))
    return Confirmation(
        title=_("Restore a snapshot"),
        button=_("Restore"),
        back=f"{viewer.base_url}snapshots/?agent={moment.agent.id}",
        lines=lines,
        action=AuditEvent.Action.RESTORED,
        apply=apply,
        blocked=_("Messages of this snapshot have been deleted.") if later < 0 else "",
        seen=f"{moment.branch} {moment.position} {branch.length} {main}",
    )


def _target_words(target: TimelineTarget) -> dict[str, Any]:
    return {
        "agent": target.agent.agent_id,
        "position": target.position,
        "when": moment_tag(target.created_at),
    }


def _count_messages(count: int) -> str:
    return ngettext("%(count)d message", "%(count)d messages", count) % {"count": count}


def _state_note(viewer: Viewer, agent: AgentRecord, length: int, branch: int = MAIN_BRANCH) -> str:
    snapshots = Snapshot.objects.using(viewer.using).filter(agent=agent.id, branch=branch)
    if snapshots.filter(length=length).exclude(snapshot_id="").exists():
        return _("The agent’s state is restored from a snapshot of that point.")
    return _(
        "There is no snapshot of that point. The agent keeps its current state, without "
        "references to messages that no longer exist."
    )


def _has_other_agents(viewer: Viewer, agent: AgentRecord) -> bool:
    rows = SessionAgent.objects.using(viewer.using).filter(session=viewer.session)
    return rows.exclude(pk=agent.id).exists()


def _message_url(viewer: Viewer, target: TimelineTarget) -> str:
    return f"{viewer.page}?at={target.key}#m-{target.key}"


def _side_branch_or_404(
    viewer: Viewer, agent: UUID, number: int
) -> tuple[AgentRecord, BranchRecord]:
    record = get_agent_or_404(viewer, agent)
    branch = get_branch_or_404(viewer, record, number)
    if number == MAIN_BRANCH:
        raise Http404
    return record, branch
