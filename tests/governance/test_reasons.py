"""A reason is asked for in one way: by each action, in the admin, the API and commands."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from django_agent_sessions import conf
from django_agent_sessions.checks import check_reasons
from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.exceptions import ReasonError, ReasonRequiredError
from django_agent_sessions.governance import legal_hold, reasons, session_deletion
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent, Branch, Session, SessionMessage, Snapshot
from django_agent_sessions.store import SessionStore
from django_agent_sessions.timeline import Timeline
from tests.admin.transcripts import said

pytestmark = pytest.mark.django_db

Action = AuditEvent.Action
LIST = "/admin/agent_sessions/session/"
WHY = "Ticket 5120"


class Talk:
    """A session with a side branch and a snapshot, and a user who may do everything with it."""

    def __init__(self) -> None:
        self.user = get_user_model().objects.create_superuser("officer")
        store = SessionStore(owner=self.user)
        self.session = store.create("talk")
        agent = store.agents.open(self.session, "planner", dialect=STRANDS)
        store.append_many(agent, [said("user", f"word {number}") for number in range(4)])
        store.branches.rewind(agent, 2)
        self.snapshot = store.snapshots.take(agent)
        self.agent = agent
        self.message = SessionMessage.objects.get(branch=0, message_id=0).pk
        self.client = Client()
        self.client.force_login(self.user)

    def timeline(self, reason: str | None) -> Timeline:
        row = Session.objects.get(pk=self.session.id)
        return Timeline(row, self.user, "default", reason=reason)


@pytest.fixture
def talk() -> Talk:
    return Talk()


def everything() -> list[Any]:
    """All that an action could have changed; reading is no change."""
    return [
        *(list(model.objects.order_by("pk").values()) for model in (Session, SessionMessage)),
        *(list(model.objects.order_by("pk").values()) for model in (Branch, Snapshot)),
        list(AuditEvent.objects.exclude(action=Action.READ).values_list("pk", flat=True)),
    ]


def consumed(response: Any) -> Any:
    """Reads a file to its end, because it is recorded when it is sent."""
    if getattr(response, "streaming", False):
        b"".join(response.streaming_content)
    return response


# --- the doors: each returns whether it accepted the reason ---------------------------------------


def page(name: str, *keys: Callable[[Talk], Any], **fields: str) -> Callable[[Talk, str], bool]:
    """A page that is confirmed; it was accepted unless it is shown again."""

    def act(talk: Talk, reason: str) -> bool:
        keys_of = [talk.session.id, *(key(talk) for key in keys)]
        url = reverse(f"admin:agent_sessions_session_{name}", args=keys_of)
        shown = talk.client.get(url)
        assert 'name="reason"' in shown.content.decode()
        question = shown.context.get("question")
        sent = {**fields, "reason": reason, **({"seen": question.seen} if question else {})}
        answer = consumed(talk.client.post(url, sent))
        return bool(answer.status_code == 302 or answer.streaming)

    return act


def in_list(action: str, **fields: str) -> Callable[[Talk, str], bool]:
    def act(talk: Talk, reason: str) -> bool:
        sent = {"action": action, "_selected_action": [str(talk.session.id)]}
        shown = consumed(talk.client.post(LIST, sent))
        if not shown.streaming:
            assert 'name="reason"' in shown.content.decode()
        answer = consumed(talk.client.post(LIST, {**sent, **fields, "reason": reason}, follow=True))
        return bool(answer.streaming) or "has more than" not in answer.content.decode()

    return act


def redacted_in_admin(talk: Talk, reason: str) -> bool:
    url = reverse("admin:agent_sessions_session_redact", args=[talk.session.id])
    seal = redact(talk.session.id, Find("word 1"), reason="", dry_run=True).digest
    sent = {"what": "text", "where": "session", "text": "word 1", "seal": seal}
    return talk.client.post(url, {**sent, "step": "confirm", "reason": reason}).status_code == 302


def request(
    method: str, route: str, *, in_query: bool = False, **body: Any
) -> Callable[[Talk, str], bool]:
    def act(talk: Talk, reason: str) -> bool:
        url = "/api/" + route.format(
            session=talk.session.id, agent=talk.agent.id, snapshot=talk.snapshot.id
        )
        if in_query:
            answer = getattr(talk.client, method)(url, query_params={"reason": reason})
        else:
            data = {**body, "reason": reason} if reason else body
            answer = talk.client.post(url, json.dumps(data), content_type="application/json")
        consumed(answer)
        if answer.status_code == 400:
            assert set(answer.json()["errors"]) == {"reason"}
        return bool(answer.status_code < 300)

    return act


def command(name: str, *arguments: str) -> Callable[[Talk, str], bool]:
    def act(talk: Talk, reason: str) -> bool:
        options = [*arguments, *(["--reason", reason] if reason else []), "--actor", "officer"]
        try:
            call_command(name, *options, stdout=io.StringIO(), stderr=io.StringIO())
        except CommandError as error:
            complaint = str(error)
        else:
            return True
        assert "reason" in complaint
        return False

    return act


def agent_of(talk: Talk) -> Any:
    return talk.agent.id


def message_of(talk: Talk) -> Any:
    return talk.message


def snapshot_of(talk: Talk) -> Any:
    return talk.snapshot.id


def one(talk: Talk) -> int:
    return 1


DOORS: dict[str, tuple[AuditEvent.Action, Callable[[Talk, str], bool]]] = {
    "admin: redact": (Action.REDACTED, redacted_in_admin),
    "admin: hold": (Action.HELD, in_list("hold_selected")),
    "admin: release": (Action.RELEASED, in_list("release_selected")),
    "admin: export": (Action.EXPORTED, page("export", form="jsonl")),
    "admin: export selected": (Action.EXPORTED, in_list("export_markdown")),
    "admin: export selected as JSON Lines": (Action.EXPORTED, in_list("export_jsonl")),
    "admin: delete": (Action.DELETED, page("delete", post="yes")),
    "admin: delete selected": (Action.DELETED, in_list("delete_selected", post="yes")),
    "admin: fork": (Action.FORKED, page("fork", message_of)),
    "admin: rewind": (Action.REWOUND, page("rewind", message_of)),
    "admin: restore a branch": (Action.RESTORED, page("branch_restore", agent_of, one)),
    "admin: restore a snapshot": (Action.RESTORED, page("snapshot_restore", snapshot_of)),
    "admin: delete a branch": (Action.BRANCH_DELETED, page("branch_delete", agent_of, one)),
    "api: redact": (Action.REDACTED, request("post", "sessions/{session}/redact/", find="word 1")),
    "api: export": (Action.EXPORTED, request("get", "sessions/{session}/export/", in_query=True)),
    "api: delete": (Action.DELETED, request("delete", "sessions/{session}/", in_query=True)),
    "api: fork": (Action.FORKED, request("post", "sessions/{session}/fork/")),
    "api: rewind": (Action.REWOUND, request("post", "agents/{agent}/rewind/", to=0)),
    "api: switch": (Action.RESTORED, request("post", "agents/{agent}/branches/1/switch/")),
    "api: restore a snapshot": (
        Action.RESTORED,
        request("post", "agents/{agent}/snapshots/{snapshot}/restore/"),
    ),
    "api: delete a branch": (
        Action.BRANCH_DELETED,
        request("delete", "agents/{agent}/branches/1/", in_query=True),
    ),
    "command: redact": (
        Action.REDACTED,
        command("agent_sessions_redact", "talk", "--find", "word 1"),
    ),
    "command: export": (
        Action.EXPORTED,
        command("agent_sessions_export", "jsonl", "--session", "talk"),
    ),
    "command: hold": (Action.HELD, command("agent_sessions_hold", "talk")),
    "command: release": (Action.RELEASED, command("agent_sessions_hold", "talk", "--release")),
}
EACH_DOOR = pytest.mark.parametrize("door", DOORS)


def require(settings: Any, *actions: AuditEvent.Action) -> None:
    settings.AGENT_SESSIONS = {"REASON_REQUIRED": [action.value for action in actions]}


def prepared(talk: Talk, action: AuditEvent.Action) -> None:
    """Holds what is to be released."""
    if action is Action.RELEASED:
        legal_hold.hold(talk.session.id, reason="Case 7")


def recorded(action: AuditEvent.Action) -> list[str]:
    return list(AuditEvent.objects.filter(action=action).values_list("reason", flat=True))


@EACH_DOOR
@pytest.mark.parametrize("reason", ["", "x" * 2001], ids=["without", "too long"])
def test_an_invalid_reason_is_refused_and_nothing_changes(talk, settings, door, reason):
    action, act = DOORS[door]
    prepared(talk, action)
    require(settings, *reasons.ACTIONS)
    before = everything()

    act(talk, reason)

    assert everything() == before


@EACH_DOOR
def test_a_reason_is_stored_where_one_is_required(talk, settings, door):
    action, act = DOORS[door]
    prepared(talk, action)
    require(settings, *reasons.ACTIONS)

    assert act(talk, WHY)

    assert recorded(action) == [WHY]


@EACH_DOOR
def test_a_reason_is_stored_where_none_is_required(talk, settings, door):
    action, act = DOORS[door]
    prepared(talk, action)
    require(settings)

    assert act(talk, WHY)

    assert WHY in recorded(action)


@EACH_DOOR
def test_without_a_requirement_it_is_done_without_a_reason(talk, settings, door):
    action, act = DOORS[door]
    prepared(talk, action)
    require(settings)

    accepted = act(talk, "")

    # A command exports many sessions at once, and always requires a reason.
    optional = door != "command: export"
    assert accepted == optional
    assert set(recorded(action)) == ({""} if optional else set())


def test_by_default_redactions_and_holds_require_a_reason():
    assert {action for action in reasons.ACTIONS if reasons.is_required(action)} == {
        Action.REDACTED,
        Action.HELD,
        Action.RELEASED,
    }


SERVICES: dict[AuditEvent.Action, Callable[[Talk, str | None], Any]] = {
    Action.REDACTED: lambda talk, why: redact(talk.session.id, Find("word 1"), reason=why or ""),
    Action.HELD: lambda talk, why: legal_hold.hold(talk.session.id, reason=why or ""),
    Action.RELEASED: lambda talk, why: legal_hold.release(talk.session.id, reason=why or ""),
    Action.DELETED: lambda talk, why: session_deletion.delete(talk.session.id, reason=why),
    Action.FORKED: lambda talk, why: talk.timeline(why).fork(),
    Action.REWOUND: lambda talk, why: talk.timeline(why).rewind(talk.agent, 0),
    Action.RESTORED: lambda talk, why: talk.timeline(why).switch_branch(talk.agent, 1),
    Action.BRANCH_DELETED: lambda talk, why: talk.timeline(why).delete_branch(talk.agent, 1),
}


@pytest.mark.parametrize("action", SERVICES)
def test_a_service_names_the_action_that_requires_a_reason(talk, settings, action):
    prepared(talk, action)
    require(settings, *reasons.ACTIONS)
    before = everything()

    with pytest.raises(ReasonRequiredError, match=action.value):
        SERVICES[action](talk, None)
    with pytest.raises(ReasonError, match="more than 2000"):
        SERVICES[action](talk, "x" * 2001)

    assert everything() == before
    SERVICES[action](talk, WHY)
    assert recorded(action) == [WHY]


def test_a_redaction_masks_the_text_in_reasons_of_earlier_changes(talk):
    talk.timeline("he said word 1").rewind(talk.agent, 1)

    redact(talk.session.id, Find("word 1"), reason=WHY)

    [reason] = recorded(Action.REWOUND)
    assert "word 1" not in reason
    assert reason.startswith("he said")


def test_deletions_by_the_orm_and_by_programs_need_no_reason(talk, settings):
    require(settings, Action.DELETED)

    Session.objects.filter(pk=talk.session.id).delete()

    assert recorded(Action.DELETED) == [""]


def test_an_unknown_action_is_an_error_of_the_settings(settings):
    settings.AGENT_SESSIONS = {"REASON_REQUIRED": ["redacted", "sung"]}

    [problem] = check_reasons(None)

    assert problem.id == "agent_sessions.E012"
    assert "'sung'" in problem.msg
    assert "branch_deleted" in str(problem.hint)


def test_the_settings_page_names_every_action_with_a_reason():
    text = Path(conf.__file__).read_text(encoding="utf-8")
    assert all(f"``{action.value}``" in text for action in reasons.ACTIONS)
