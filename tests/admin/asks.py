"""Every page and action of our admins: who is let in, and what is shown and recorded then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth import get_user_model

from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import (
    AuditEvent,
    Operation,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentState

VIEW, CHANGE, DELETE = "view_session", "change_session", "delete_session"
ADD = "add_session"
READ, REDACT, HELD, EXPORT = "read_transcript", "redact", "view_held_copies", "export"
AUDIT, USAGE = "view_auditevent", "view_usagerollup"
OPERATIONS, CHANGE_OPERATIONS = "view_operation", "change_operation"
REVIEW, SHARE = "review_session", "share"
OURS = (
    *(VIEW, ADD, CHANGE, DELETE, READ, REDACT, HELD, EXPORT, AUDIT, USAGE, OPERATIONS, REVIEW),
    *(SHARE, CHANGE_OPERATIONS),
)

SECRETS = {
    "plantedtitle": "title",
    "plantedmetadata": "metadata",
    "plantedtext": "text",
    "plantedreasoning": "reasoning",
    "plantedtool": "tool input",
    "plantedresult": "tool result",
    "plantedstate": "agent state",
    "plantedsummary": "conversation manager state",
    "plantednode": "orchestrator state",
}
GONE = "plantedgone"
"""What a redacted message said; an earlier version left it beside its mask: no page shows it."""
NOBODY = frozenset({"nobody has this"})


@dataclass(frozen=True)
class Ask:
    """A request, and what is to become of it."""

    page: str
    """The name of its URL, without ``agent_sessions_``."""

    needs: frozenset[str]
    """The permissions that it takes."""

    shows: tuple[str, ...] = ()
    """Secrets that whoever is let in and may read must be shown."""

    recorded: tuple[str, ...] = ()
    """What is recorded of whoever is let in and may read."""

    of_readers_only: bool = True
    """Whether only those who may read are recorded."""

    of_owners: tuple[str, ...] | None = None
    """What is recorded of the owner, if that is another thing than all but the reading."""

    post: dict[str, Any] | None = None
    query: dict[str, str] = field(default_factory=dict)
    more: Callable[[Conversation], dict[str, str]] = lambda there: {}
    url: Callable[[Conversation], list[Any]] = lambda there: []
    answers: tuple[int, ...] = (200,)
    refusals: tuple[int, ...] = (403, 404)
    of_everything: bool = False
    """Whether the permissions have to be valid in all sessions."""

    action: str = ""
    prepare: Callable[[Conversation], Any] = lambda there: None


@dataclass
class Conversation:
    """Rows with a secret in each place that can hold one."""

    session: Session
    agent: SessionAgent
    messages: list[SessionMessage]
    graph: SessionMultiAgent
    event: AuditEvent


def needs(*names: str) -> frozenset[str]:
    return frozenset(names)


def overwritten(there: Conversation) -> None:
    """Puts the session under hold, and has an agent replace its state."""
    legal_hold.hold(there.session.pk, reason="case 1")
    store = SessionStore(owner=EVERYBODY)
    [agent] = store.agents.list(store.get("matrix"))
    store.agents.update(agent, AgentState())


def of_session(there: Conversation) -> list[Any]:
    return [there.session.pk]


def of_message(number: int) -> Callable[[Conversation], list[Any]]:
    return lambda there: [there.session.pk, there.messages[number].pk]


def of_event(there: Conversation) -> list[Any]:
    return [there.event.pk]


def selected(action: str, **more: str) -> dict[str, Any]:
    return {"action": action, **more}


def sealed(there: Conversation, text: str) -> str:
    """What the preview gives to the confirmation."""
    return redact(there.session.pk, Find(text), reason="", dry_run=True).digest


def hold(there: Conversation) -> None:
    Session.objects.filter(pk=there.session.pk).update(legal_hold=True)


def of_agent(there: Conversation) -> list[Any]:
    return [there.session.pk, there.agent.pk]


def of_branch(there: Conversation) -> list[Any]:
    return [there.session.pk, there.agent.pk, 1]


def of_snapshot(there: Conversation) -> list[Any]:
    # Where nobody went back, there is none, and any key will do.
    snapshot = Snapshot.objects.first()
    return [there.session.pk, snapshot.pk if snapshot else there.session.pk]


def of_operation(there: Conversation) -> list[Any]:
    """An operation that another user has started."""
    kind, name = Operation.Kind.HOLD, "another"
    criteria = {"site": "admin", "filters": {}}
    started = {"kind": kind, "started_by": "0", "started_by_name": name, "criteria": criteria}
    return [(Operation.objects.first() or Operation.objects.create(**started)).pk]


def with_another_user(there: Conversation) -> None:
    """Makes somebody who may become a participant."""
    get_user_model().objects.get_or_create(username="participant")


def go_back(there: Conversation) -> None:
    """Leaves a branch behind, and a snapshot of it."""
    store = SessionStore(owner=EVERYBODY)
    store.branches.rewind(store.agents.open(store.get("matrix"), there.agent.agent_id), 1)


def add_another(there: Conversation) -> None:
    """A session with an agent, so that the tested rules reach it."""
    store = SessionStore(owner=EVERYBODY, create=True)
    store.agents.open(store.open("another"), there.agent.agent_id, dialect="strands")


def own(there: Conversation) -> None:
    """Gives the session an owner."""
    owner = get_user_model().objects.get_or_create(username="owner")[0]
    Session.objects.filter(owner=None).update(owner=owner)


def of_owner(there: Conversation) -> list[Any]:
    return [Session.objects.values_list("owner", flat=True).get(pk=there.session.pk) or 0]


LIST = "session_changelist"
EVENTS = "auditevent_changelist"
BACK = (200, 302, 403)
"""What an action that is not there leads to: the list, or what it says to strangers."""

ASKS = [
    # The list.
    Ask(LIST, needs(VIEW), shows=("plantedtitle",)),
    Ask(LIST, needs(VIEW), query={"q": "matrix"}, recorded=("searched",)),
    Ask(LIST, needs(VIEW), query={"title__startswith": "planted"}, answers=(400,)),
    Ask(LIST, needs(VIEW), query={"messages__text__contains": "planted"}, answers=(400,)),
    Ask("session_add", NOBODY),
    Ask("session_add", NOBODY, post={"session_id": "new"}),
    # A session, and what belongs to its page.
    Ask(
        "session_change",
        needs(VIEW),
        url=of_session,
        shows=("plantedtitle", "plantedtext"),
        recorded=("read",),
    ),
    Ask("session_change", NOBODY, url=of_session, post={"title": "new"}),
    Ask(
        "session_messages",
        needs(VIEW),
        url=of_session,
        shows=("plantedtext", "plantedtool"),
        recorded=("read",),
    ),
    Ask(
        "session_find",
        needs(VIEW, READ),
        url=of_session,
        post={"query": "plantedtext"},
        recorded=("searched", "read"),
        of_owners=(),
    ),
    Ask("session_find", NOBODY, url=of_session),
    Ask(
        "session_raw",
        needs(VIEW, READ),
        url=of_message(1),
        shows=("plantedtool", "plantedreasoning"),
        recorded=("read",),
    ),
    Ask(
        "session_raw",
        needs(VIEW, READ),
        url=of_message(1),
        query={"download": "1"},
        shows=("plantedtool",),
        recorded=("read",),
    ),
    Ask("session_raw", needs(VIEW, READ), url=of_message(3), recorded=("read",)),
    Ask(
        "session_media",
        needs(VIEW, READ),
        url=of_message(0),
        query={"path": '["content", 1]'},
        recorded=("read",),
    ),
    Ask(
        "session_text",
        needs(VIEW, READ),
        url=of_message(0),
        query={"path": '["content", 0]'},
        shows=("plantedtext",),
        recorded=("read",),
    ),
    Ask(
        "session_state",
        needs(VIEW, READ),
        url=lambda there: [there.session.pk, "state", there.agent.pk],
        shows=("plantedstate",),
        recorded=("read",),
    ),
    Ask(
        "session_state",
        needs(VIEW, READ),
        url=lambda there: [there.session.pk, "conversation_manager_state", there.agent.pk],
        shows=("plantedsummary",),
        recorded=("read",),
    ),
    Ask(
        "session_state",
        needs(VIEW, READ),
        url=lambda there: [there.session.pk, "orchestrator", there.graph.pk],
        shows=("plantednode",),
        recorded=("read",),
    ),
    Ask(
        "session_state",
        needs(VIEW, READ),
        url=lambda there: [there.session.pk, "metadata", there.session.pk],
        shows=("plantedmetadata",),
        recorded=("read",),
    ),
    Ask("session_held", needs(VIEW, READ, HELD), url=of_session, prepare=overwritten),
    Ask(
        "session_held",
        needs(VIEW, READ, HELD),
        url=of_session,
        prepare=overwritten,
        post={"reason": "Complaint 17"},
        shows=("plantedstate",),
        recorded=("held_copies_viewed",),
    ),
    Ask("session_history", needs(VIEW), url=of_session),
    # Redaction: what is looked for comes back in the form, so that finding it shows nothing.
    Ask("session_redact", needs(VIEW, READ, REDACT), url=of_session),
    Ask(
        "session_redact",
        needs(VIEW, READ, REDACT),
        url=of_session,
        post={"what": "text", "text": "plantedtool"},
        recorded=("read",),
    ),
    Ask(
        "session_redact",
        needs(VIEW, READ, REDACT),
        url=of_session,
        post={"what": "text", "text": "plantedtool", "step": "confirm", "reason": "a ticket"},
        more=lambda there: {"seal": sealed(there, "plantedtool")},
        recorded=("redacted",),
        answers=(302,),
    ),
    # Review.
    Ask("session_review", needs(VIEW, READ, REVIEW), url=of_session),
    Ask(
        "session_review",
        needs(VIEW, READ, REVIEW),
        url=of_session,
        post={"text": "A note."},
        recorded=("note_added",),
        answers=(302,),
    ),
    # Export.
    Ask("session_export", needs(VIEW, READ, EXPORT), url=of_session),
    Ask(
        "session_export",
        needs(VIEW, READ, EXPORT),
        url=of_session,
        post={"form": "markdown"},
        shows=("plantedtitle", "plantedtext", "plantedtool", "plantedreasoning", "plantedresult"),
        recorded=("exported",),
    ),
    Ask(
        "session_export",
        needs(VIEW, READ, EXPORT),
        url=of_session,
        post={"form": "jsonl"},
        shows=tuple(SECRETS),
        recorded=("exported",),
    ),
    Ask(
        LIST,
        needs(VIEW, READ, EXPORT),
        post=selected("export_markdown"),
        action="export_markdown",
        shows=("plantedtext",),
        recorded=("exported",),
        refusals=BACK,
    ),
    Ask(
        LIST,
        needs(VIEW, READ, EXPORT),
        post=selected("export_jsonl"),
        action="export_jsonl",
        shows=tuple(SECRETS),
        recorded=("exported",),
        refusals=BACK,
    ),
    # Hold.
    Ask(LIST, needs(VIEW, CHANGE), post=selected("hold_selected"), refusals=BACK),
    Ask(
        LIST,
        needs(VIEW, CHANGE),
        post=selected("hold_selected", reason="case 1"),
        action="hold_selected",
        recorded=("held",),
        of_readers_only=False,
        answers=(302,),
        refusals=BACK,
    ),
    Ask(
        LIST,
        needs(VIEW, CHANGE),
        post=selected("release_selected", reason="case 1"),
        action="release_selected",
        recorded=("released",),
        of_readers_only=False,
        answers=(302,),
        refusals=BACK,
        prepare=hold,
    ),
    # Time.
    Ask("session_branches", needs(VIEW), url=of_session, prepare=go_back),
    Ask("session_snapshots", needs(VIEW), url=of_session, prepare=go_back),
    Ask(
        "session_compare",
        needs(VIEW),
        url=of_session,
        query={"left": "0", "right": "1"},
        shows=("plantedresult",),
        recorded=("read",),
        prepare=go_back,
    ),
    Ask("session_compare_with", needs(VIEW, READ), url=of_session),
    Ask(
        "session_compare_with",
        needs(VIEW, READ),
        url=of_session,
        query={"with": "another"},
        shows=("plantedtitle", "plantedtext", "plantedtool"),
        recorded=("read",),
        prepare=add_another,
    ),
    Ask("session_fork", needs(VIEW, CHANGE, READ, ADD), url=of_message(1)),
    Ask(
        "session_fork",
        needs(VIEW, CHANGE, READ, ADD),
        url=of_message(1),
        post={"seen": "1"},
        recorded=("forked",),
        answers=(302,),
    ),
    Ask("session_rewind", needs(VIEW, CHANGE), url=of_message(1)),
    Ask(
        "session_rewind",
        needs(VIEW, CHANGE),
        url=of_message(1),
        post={"seen": "1 4"},
        recorded=("rewound",),
        of_readers_only=False,
        answers=(302,),
    ),
    Ask("session_branch_restore", needs(VIEW, CHANGE), url=of_branch, prepare=go_back),
    Ask(
        "session_branch_restore",
        needs(VIEW, CHANGE),
        url=of_branch,
        post={"seen": "2 4"},
        recorded=("restored",),
        of_readers_only=False,
        answers=(302,),
        prepare=go_back,
    ),
    Ask("session_branch_delete", needs(VIEW, CHANGE, DELETE), url=of_branch, prepare=go_back),
    Ask(
        "session_branch_delete",
        needs(VIEW, CHANGE, DELETE),
        url=of_branch,
        post={"seen": "branch-1 4 1"},
        recorded=("branch_deleted",),
        of_readers_only=False,
        answers=(302,),
        prepare=go_back,
    ),
    Ask("session_snapshot_take", NOBODY, url=of_agent, refusals=(404, 405)),
    Ask("session_snapshot_take", needs(VIEW, CHANGE), url=of_agent, post={}, answers=(302,)),
    Ask("session_snapshot_restore", needs(VIEW, CHANGE), url=of_snapshot, prepare=go_back),
    Ask(
        "session_snapshot_restore",
        needs(VIEW, CHANGE),
        url=of_snapshot,
        post={"seen": "1 4 4 2"},
        recorded=("restored",),
        of_readers_only=False,
        answers=(302,),
        prepare=go_back,
    ),
    # Sharing.
    Ask("session_sharing", needs(VIEW, READ, SHARE), url=of_session),
    Ask(
        "session_sharing",
        needs(VIEW, READ, SHARE),
        url=of_session,
        post={"step": "add", "user": "participant", "role": "reader"},
        recorded=("participant_added",),
        answers=(302,),
        prepare=with_another_user,
    ),
    # The owner.
    Ask(
        "session_person",
        needs(VIEW),
        url=of_owner,
        shows=("plantedtitle",),
        prepare=own,
    ),
    Ask(
        "session_person",
        needs(VIEW, READ, EXPORT),
        url=of_owner,
        post={"reason": "a request"},
        recorded=("exported",),
        of_everything=True,
        prepare=own,
    ),
    Ask(
        "session_person_erase",
        needs(VIEW, DELETE, REDACT),
        url=of_owner,
        of_everything=True,
        prepare=own,
    ),
    # Within the test's transaction, an erasure is refused.
    Ask(
        "session_person_erase",
        needs(VIEW, DELETE, REDACT),
        url=of_owner,
        post={"reason": "a request", "forks": "redact", "seen": "1 4 0 0 0 0 0 0 0 0"},
        of_everything=True,
        prepare=own,
    ),
    # Deletion.
    Ask("session_delete", needs(VIEW, DELETE), url=of_session),
    Ask(
        "session_delete",
        needs(VIEW, DELETE),
        url=of_session,
        post={"post": "yes"},
        recorded=("deleted",),
        of_readers_only=False,
        answers=(302,),
    ),
    Ask(LIST, needs(VIEW, DELETE), post=selected("delete_selected"), refusals=BACK),
    Ask(
        LIST,
        needs(VIEW, DELETE),
        post=selected("delete_selected", post="yes"),
        action="delete_selected",
        recorded=("deleted",),
        of_readers_only=False,
        answers=(302,),
        refusals=BACK,
    ),
    # All sessions that match. Who may do something else to them gets the page, too.
    Ask("session_all", needs(VIEW, CHANGE), refusals=(200, 403, 404)),
    Ask(
        "session_all",
        needs(VIEW, CHANGE),
        post={"kind": "hold", "reason": "case 1"},
        recorded=("operation",),
        of_readers_only=False,
        answers=(302,),
        refusals=(200, 403, 404),
    ),
    Ask("operation_changelist", needs(VIEW)),
    Ask("operation_change", needs(VIEW, CHANGE, OPERATIONS), url=of_operation, of_everything=True),
    Ask(
        "operation_progress", needs(VIEW, CHANGE, OPERATIONS), url=of_operation, of_everything=True
    ),
    Ask("operation_report", needs(VIEW, CHANGE, OPERATIONS), url=of_operation, of_everything=True),
    Ask(
        "operation_act",
        needs(VIEW, CHANGE, OPERATIONS, CHANGE_OPERATIONS),
        url=of_operation,
        post={"action": "cancel"},
        recorded=("operation",),
        of_readers_only=False,
        answers=(302,),
        of_everything=True,
    ),
    Ask("operation_file", NOBODY, url=of_operation, post={}),
    Ask("operation_history", NOBODY, url=of_operation),
    Ask("operation_delete", NOBODY, url=of_operation),
    Ask("operation_add", NOBODY),
    # The audit trail, which holds no content.
    Ask(EVENTS, needs(AUDIT)),
    Ask("auditevent_change", needs(AUDIT), url=of_event),
    Ask("auditevent_change", NOBODY, url=of_event, post={"reason": "another"}),
    Ask("auditevent_history", needs(AUDIT), url=of_event),
    Ask("auditevent_delete", NOBODY, url=of_event),
    Ask("auditevent_delete", NOBODY, url=of_event, post={"post": "yes"}),
    Ask("auditevent_add", NOBODY),
    Ask("auditevent_csv", needs(AUDIT), recorded=("exported",), of_readers_only=False),
    # Usage: figures.
    Ask("usagerollup_changelist", needs(USAGE), of_everything=True),
    Ask("usagerollup_update", needs(USAGE), post={}, answers=(302,), of_everything=True),
]
