"""Every page and action of our admins × permissions: let in or not, shown or hidden, recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import transaction
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.admin.redacting.preview import seal
from django_agent_sessions.models import (
    AuditEvent,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.records import AgentState
from django_agent_sessions.redaction import Find, redact
from django_agent_sessions.store import SessionStore

pytestmark = pytest.mark.django_db

VIEW, CHANGE, DELETE = "view_session", "change_session", "delete_session"
ADD = "add_session"
READ, REDACT, ORIGINAL, EXPORT = "read_transcript", "redact", "view_original", "export"
AUDIT, USAGE = "view_auditevent", "view_usagerollup"
OURS = (VIEW, ADD, CHANGE, DELETE, READ, REDACT, ORIGINAL, EXPORT, AUDIT, USAGE)

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
KEPT = "plantedoriginal"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)
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
    original: bool = False
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
    return seal(redact(there.session.pk, Find(text), reason="", dry_run=True))


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


def go_back(there: Conversation) -> None:
    """Leaves a branch behind, and a snapshot of it."""
    store = SessionStore()
    store.rewind(store.open_agent(store.get("matrix"), there.agent.agent_id), 1)


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
    Ask("session_original", needs(VIEW, READ, ORIGINAL), url=of_message(3)),
    Ask("session_original", needs(VIEW, READ, ORIGINAL), url=of_message(3), post={"reason": " "}),
    Ask(
        "session_original",
        needs(VIEW, READ, ORIGINAL),
        url=of_message(3),
        post={"reason": "a court asks"},
        original=True,
        recorded=("original_viewed",),
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
    # The audit trail, which holds no content.
    Ask(EVENTS, needs(AUDIT)),
    Ask("auditevent_change", needs(AUDIT), url=of_event),
    Ask("auditevent_change", NOBODY, url=of_event, post={"reason": "another"}),
    Ask("auditevent_history", needs(AUDIT), url=of_event),
    Ask("auditevent_delete", NOBODY, url=of_event),
    Ask("auditevent_delete", NOBODY, url=of_event, post={"post": "yes"}),
    Ask("auditevent_add", NOBODY),
    # Usage: figures.
    Ask("usagerollup_changelist", needs(USAGE)),
    Ask("usagerollup_update", needs(USAGE), post={}, answers=(302,)),
]


def admins() -> Iterator[Any]:
    for model, ours in admin.site._registry.items():
        if model._meta.app_label == "agent_sessions":
            yield ours


def names(asks: Any) -> list[str]:
    return [
        "-".join(filter(None, [ask.page, ask.action or ("post" if ask.post is not None else "")]))
        for ask in asks
    ]


def permission_sets() -> Iterator[frozenset[str]]:
    """None; each alone, with the list's, and with reading; all but one; all; and all others."""
    every = set(
        Permission.objects.filter(content_type__app_label="agent_sessions").values_list(
            "codename", flat=True
        )
    )
    assert set(OURS) <= every
    yield frozenset()
    # What Django has for tables that nobody may open or change: if all together open nothing,
    # then each of them does not.
    yield frozenset(every - set(OURS))
    for one in OURS:
        yield frozenset({one})
        if one != VIEW:
            yield frozenset({VIEW, one})
        if one not in (VIEW, READ):
            yield frozenset({VIEW, READ, one})
        yield frozenset(every - {one})
    yield frozenset(every)


@pytest.fixture
def there(db) -> Conversation:
    store = SessionStore()
    record = store.open("matrix", title="plantedtitle", metadata={"key": "plantedmetadata"})
    state = AgentState({"a": "plantedstate"}, {"summary": "plantedsummary"})
    agent = store.open_agent(record, dialect="strands", data=state)
    call = {"toolUseId": "t", "name": "search", "input": {"q": "plantedtool"}}
    result = {"toolUseId": "t", "status": "success", "content": [{"text": "plantedresult"}]}
    thought = {"reasoningContent": {"reasoningText": {"text": "plantedreasoning"}}}
    image = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
    store.append_many(
        agent,
        [
            {"role": "user", "content": [{"text": "plantedtext"}, image]},
            {"role": "assistant", "content": [thought, {"toolUse": call}]},
            {"role": "user", "content": [{"toolResult": result}]},
            {"role": "user", "content": [{"text": KEPT}]},
        ],
    )
    store.create_multi_agent(record, "graph", {"node": "plantednode"}, kind="graph")
    SessionMessage.objects.filter(message_id=3).update(
        redact_message={"role": "user", "content": [{"text": "[REDACTED]"}]},
        text="[REDACTED]",
        redacted_at=timezone.now() - timedelta(minutes=1),
    )
    return Conversation(
        Session.objects.get(),
        SessionAgent.objects.get(),
        list(SessionMessage.objects.order_by("message_id")),
        SessionMultiAgent.objects.get(),
        audit.record(AuditEvent.Action.READ, session=record.id),
    )


@pytest.fixture
def person(db):
    return get_user_model().objects.create_user("person", is_staff=True)


def send(client: Client, ask: Ask, there: Conversation) -> tuple[int, str]:
    url = reverse(f"admin:agent_sessions_{ask.page}", args=ask.url(there))
    if ask.post is None:
        response: Any = client.get(url, ask.query)
    else:
        chosen = {"_selected_action": [str(there.session.pk)]} if "action" in ask.post else {}
        response = client.post(url, {**ask.post, **chosen, **ask.more(there)})
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return response.status_code, content.decode("utf-8", "replace")


def recorded_since(before: set[Any]) -> list[AuditEvent]:
    return [event for event in AuditEvent.objects.order_by("pk") if event.pk not in before]


def problems(
    ask: Ask, there: Conversation, person: Any, sets: Any, *, owner: bool = False
) -> dict[str, str]:
    """Tries a request with each set of permissions, and says what is wrong with what came of it."""
    client = Client()
    client.force_login(person)
    wrong = {}
    for granted in sets:
        person.user_permissions.set(
            Permission.objects.filter(
                content_type__app_label="agent_sessions", codename__in=granted
            )
        )
        with transaction.atomic():
            problem = check(client, ask, granted, there, person, owner)
            transaction.set_rollback(True)
        if problem:
            wrong[", ".join(sorted(granted))] = problem
    return wrong


def check(
    client: Client,
    ask: Ask,
    granted: frozenset[str],
    there: Conversation,
    person: Any,
    owner: bool,
) -> str:
    """Tries a request, and says what is wrong with what came of it."""
    ask.prepare(there)
    before = set(AuditEvent.objects.values_list("pk", flat=True))
    status, content = send(client, ask, there)
    events = recorded_since(before)

    let_in, reads = ask.needs <= granted, READ in granted
    allowed = ask.answers if let_in else ask.refusals
    if status not in allowed:
        return f"answered {status}, not {allowed}"
    echo = " ".join((ask.post or {}).get(name, "") for name in ("query", "text"))
    seen = {secret for secret in (*SECRETS, KEPT) if secret in content and secret not in echo}
    if (KEPT in seen) != (ask.original and let_in):
        return f"original shown: {KEPT in seen}"
    if seen - {KEPT} and (not reads or VIEW not in granted or status in (403, 404)):
        return f"shown to whoever may not see it: {seen}"
    if let_in and reads and not set(ask.shows) <= seen:
        return f"not shown: {set(ask.shows) - seen}"
    expected = list(ask.recorded) if let_in and (reads or not ask.of_readers_only) else []
    if owner and expected:
        all_but_reading = [action for action in expected if action != "read"]
        expected = all_but_reading if ask.of_owners is None else list(ask.of_owners)
    if [event.action for event in events] != expected:
        return f"recorded {[event.action for event in events]}, not {expected}"
    if any(event.actor_id != str(person.pk) for event in events):
        return "recorded of somebody else"
    written = str(list(AuditEvent.objects.values()))
    if any(secret in written for secret in (*SECRETS, KEPT)) or LogEntry.objects.exists():
        return "content was recorded, or Django's own log written"
    return ""


@pytest.mark.parametrize("ask", ASKS, ids=names(ASKS))
def test_a_page_or_action_does_for_each_permission_what_it_should(ask, there, person):
    assert problems(ask, there, person, permission_sets()) == {}


@pytest.mark.parametrize("ask", ASKS, ids=names(ASKS))
def test_an_owner_who_is_staff_needs_the_same_permissions_and_is_not_recorded_reading(
    ask, there, person
):
    Session.objects.update(owner=person)
    sets = (frozenset[str](), frozenset({VIEW}), frozenset(OURS))

    assert problems(ask, there, person, sets, owner=True) == {}


@pytest.mark.parametrize("who", ["nobody", "a user who is no staff", "inactive staff"])
def test_whoever_is_no_staff_is_sent_to_the_login_whatever_is_granted(there, who):
    client = Client()
    if who != "nobody":
        user = get_user_model().objects.create_user(
            "user", is_staff="staff" in who and "no" not in who, is_superuser=True
        )
        client.force_login(user)
        get_user_model().objects.filter(pk=user.pk).update(is_active="inactive" not in who)
    before = set(AuditEvent.objects.values_list("pk", flat=True))

    for ask in ASKS:
        status, content = send(client, ask, there)
        assert status == 302
        assert "planted" not in content
    assert recorded_since(before) == []


def test_every_page_has_an_entry_above():
    pages = {
        str(pattern.name).removeprefix("agent_sessions_")
        for ours in admins()
        for pattern in ours.get_urls()
        # The one without a name only leads to the page of a row.
        if pattern.name is not None
    }
    assert pages == {ask.page for ask in ASKS}


def test_every_action_has_an_entry_above():
    request = RequestFactory().get("/")
    request.user = get_user_model().objects.create_superuser("root")
    actions = {
        (ours.opts.model_name, name) for ours in admins() for name in ours.get_actions(request)
    }

    assert actions == {(ask.page.partition("_")[0], ask.action) for ask in ASKS if ask.action}


def test_every_permission_of_ours_opens_something():
    assert set(OURS) == set().union(*(ask.needs for ask in ASKS)) - NOBODY
