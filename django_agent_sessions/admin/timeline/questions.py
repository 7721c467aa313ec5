"""What is asked before anything changes: in plain words, what will happen and what will not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.http import Http404
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_agent_sessions.admin.moments import local
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.models import MAIN_BRANCH, SessionAgent, Snapshot
from django_agent_sessions.records import AgentRecord, BranchRecord

from .targets import Moment, Spot, branch_of, main_length


@dataclass(frozen=True, slots=True)
class Question:
    """A page that asks, and the figures that the answer is about."""

    title: str
    button: str
    back: str
    """Where "No" leads to."""

    lines: list[str]
    """What will happen."""

    notes: list[str] = field(default_factory=list)
    """What else there is to know."""

    blocked: str = ""
    """Why it cannot be done; empty if it can."""

    danger: bool = False
    """Whether something is lost."""

    seen: str = ""
    """What the lines count: an answer to other figures is asked for anew."""


def fork_question(viewer: Viewer, spot: Spot) -> Question:
    """Asks whether to fork from a message."""
    copied = _messages(spot.position + 1)
    notes = [
        _("The fork belongs to the same owner. This conversation stays exactly as it is."),
        _("What was redacted here is redacted in the fork, and no original is copied."),
    ]
    if _others(viewer, spot.agent):
        notes.insert(0, _("Of other agents, what was said before that message is copied, too."))
    if viewer.session.legal_hold:
        notes.append(_("The legal hold stays with this conversation; the fork has none."))
    named = {"copied": copied, **_spot(spot)}
    return Question(
        title=_("Fork from message %(position)s") % named,
        button=_("Fork"),
        back=_at(viewer, spot),
        lines=[
            _(
                "A new conversation begins with a copy of %(copied)s of agent %(agent)s: all up "
                "to message %(position)s (%(when)s)."
            )
            % named,
            _("Both conversations then go on independently of each other."),
        ],
        notes=notes,
        seen=str(spot.position),
    )


def rewind_question(viewer: Viewer, spot: Spot) -> Question:
    """Asks whether to go back to a message."""
    if spot.branch != MAIN_BRANCH:
        raise Http404
    length = main_length(viewer, spot.agent)
    later = length - spot.position - 1
    named = {"later": _messages(later), **_spot(spot)}
    notes = [_state(viewer, spot.agent, spot.position + 1)]
    if _others(viewer, spot.agent):
        notes.append(_("Other agents of this conversation are not touched."))
    return Question(
        title=_("Rewind to message %(position)s") % named,
        button=_("Rewind"),
        back=_at(viewer, spot),
        lines=[
            _(
                "Agent %(agent)s goes back to message %(position)s (%(when)s), and goes on "
                "from there."
            )
            % named,
            ngettext(
                "%(later)s after it is set aside as a branch. Nothing is lost: the branch can be "
                "read, compared and restored.",
                "%(later)s after it are set aside as a branch. Nothing is lost: the branch can be "
                "read, compared and restored.",
                later,
            )
            % named,
        ],
        notes=notes,
        blocked="" if later else _("Nothing was said after this message."),
        seen=f"{spot.position} {length}",
    )


def switch_question(viewer: Viewer, agent: AgentRecord, branch: BranchRecord) -> Question:
    """Asks whether a side branch becomes the main one."""
    if branch.number == MAIN_BRANCH:
        raise Http404
    main = main_length(viewer, agent)
    named = {
        "agent": agent.agent_id,
        "branch": branch.name,
        "messages": _messages(branch.length),
        "main": _messages(main),
    }
    return Question(
        title=_("Restore branch %(branch)s") % named,
        button=_("Restore"),
        back=_branches(viewer, agent),
        lines=[
            _("Agent %(agent)s goes on with branch %(branch)s, which has %(messages)s.") % named,
            _(
                "What is the main branch now, with %(main)s, becomes a side branch. Nothing is "
                "lost: it can be restored in the same way."
            )
            % named,
        ],
        notes=[_state(viewer, agent, branch.length, branch.number)],
        seen=f"{main} {branch.length}",
    )


def delete_question(viewer: Viewer, agent: AgentRecord, branch: BranchRecord) -> Question:
    """Asks whether a side branch is deleted for good."""
    if branch.number == MAIN_BRANCH:
        raise Http404
    rows = Snapshot.objects.using(viewer.using).filter(agent=agent.id, branch=branch.number)
    snapshots = rows.count()
    named = {
        "agent": agent.agent_id,
        "branch": branch.name,
        "messages": _messages(branch.length),
        "count": snapshots,
    }
    lines = [
        _("Branch %(branch)s of agent %(agent)s will be deleted, with its %(messages)s.") % named
    ]
    if snapshots:
        lines.append(
            ngettext(
                "%(count)d snapshot of it will be deleted, too.",
                "%(count)d snapshots of it will be deleted, too.",
                snapshots,
            )
            % named
        )
    lines.append(_("It cannot be brought back. What it has in common with others stays there."))
    held = _("This session is under legal hold: none of its branches can be deleted.")
    return Question(
        title=_("Delete branch %(branch)s") % named,
        button=_("Delete"),
        back=_branches(viewer, agent),
        lines=lines,
        blocked=held if viewer.session.legal_hold else "",
        danger=True,
        seen=f"{branch.name} {branch.length} {snapshots}",
    )


def restore_question(viewer: Viewer, moment: Moment) -> Question:
    """Asks whether an agent goes back to a snapshot."""
    branch = branch_of(viewer, moment.agent, moment.branch)
    main = branch.length if moment.branch == MAIN_BRANCH else main_length(viewer, moment.agent)
    later = branch.length - moment.length
    named = {
        "agent": moment.agent.agent_id,
        "when": _when(moment.created_at),
        "messages": _messages(moment.length),
        "later": _messages(later),
        "main": _messages(main),
        "branch": branch.name,
    }
    lines = [
        _("Agent %(agent)s goes back to what it was on %(when)s: %(messages)s, and its state.")
        % named
    ]
    if moment.branch != MAIN_BRANCH:
        lines.append(
            _(
                "It goes on with branch %(branch)s, and what is the main branch now, with "
                "%(main)s, becomes a side branch."
            )
            % named
        )
    if later > 0:
        lines.append(
            ngettext(
                "%(later)s that came later is set aside as a branch.",
                "%(later)s that came later are set aside as a branch.",
                later,
            )
            % named
        )
    lines.append(_("Nothing is lost: how the agent is now is kept as a snapshot before."))
    return Question(
        title=_("Restore a snapshot"),
        button=_("Restore"),
        back=f"{viewer.base}snapshots/?agent={moment.agent.id}",
        lines=lines,
        blocked=_("Messages of this snapshot were deleted since.") if later < 0 else "",
        seen=f"{moment.branch} {moment.length} {branch.length} {main}",
    )


def _spot(spot: Spot) -> dict[str, Any]:
    return {
        "agent": spot.agent.agent_id,
        "position": spot.position,
        "when": _when(spot.created_at),
    }


def _messages(count: int) -> str:
    return ngettext("%(count)d message", "%(count)d messages", count) % {"count": count}


def _when(moment: Any) -> str:
    return formats.date_format(local(moment), "DATETIME_FORMAT")


def _state(viewer: Viewer, agent: AgentRecord, length: int, branch: int = MAIN_BRANCH) -> str:
    there = Snapshot.objects.using(viewer.using).filter(agent=agent.id, branch=branch)
    if there.filter(length=length).exclude(snapshot_id="").exists():
        return _("Its state goes back to that of a snapshot of then.")
    return _(
        "There is no snapshot of then, so that it keeps its present state, without what speaks "
        "of messages that are not there any more."
    )


def _others(viewer: Viewer, agent: AgentRecord) -> bool:
    rows = SessionAgent.objects.using(viewer.using).filter(session=viewer.session)
    return rows.exclude(pk=agent.id).exists()


def _at(viewer: Viewer, spot: Spot) -> str:
    return f"{viewer.page}?at={spot.key}#m-{spot.key}"


def _branches(viewer: Viewer, agent: AgentRecord) -> str:
    return f"{viewer.base}branches/?agent={agent.id}"
