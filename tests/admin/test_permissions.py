"""Every page and action of our admins × permissions: let in or not, shown or hidden, recorded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import transaction
from django.db.models import Q
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.models import (
    AuditEvent,
    Branch,
    Participant,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.models.access import AccessRule
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentState
from tests.sealed import update_content

from .asks import ASKS, EVENTS, GONE, LIST, NOBODY, OURS, READ, SECRETS, VIEW, Ask, Conversation

pytestmark = pytest.mark.django_db

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


def admins() -> Iterator[Any]:
    for model, ours in admin.site._registry.items():
        if model._meta.app_label == "agent_sessions":
            yield ours


def names(asks: Any) -> list[str]:
    return [
        "-".join(filter(None, [ask.page, ask.action or ("post" if ask.post is not None else "")]))
        for ask in asks
    ]


def permission_sets(ask: Ask) -> Iterator[frozenset[str]]:
    """None, all others, just what it needs, that and reading, all, and all but one that counts."""
    every = set(
        Permission.objects.filter(content_type__app_label="agent_sessions").values_list(
            "codename", flat=True
        )
    )
    assert set(OURS) <= every
    yield frozenset()
    # What Django has for tables that nobody may open or change.
    yield frozenset(every - set(OURS))
    if needs := ask.needs - NOBODY:
        yield frozenset(needs)
    yield frozenset({*needs, VIEW, READ})
    yield frozenset(every)
    for one in sorted({*needs, VIEW, READ}):
        yield frozenset(every - {one})


@pytest.fixture
def there(db) -> Conversation:
    store = SessionStore(owner=EVERYBODY, create=True)
    record = store.open("matrix", title="plantedtitle", metadata={"key": "plantedmetadata"})
    state = AgentState({"a": "plantedstate"}, {"summary": "plantedsummary"})
    agent = store.agents.open(record, dialect="strands", data=state)
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
            {"role": "user", "content": [{"text": GONE}]},
        ],
    )
    store.multi_agents.create(record, "graph", {"node": "plantednode"}, kind="graph")
    update_content(
        SessionMessage.objects.filter(message_id=3),
        {"message": {"role": "user", "content": [{"text": "[REDACTED]"}]}},
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


def grant(person: Any, codenames: frozenset[str]) -> None:
    permissions = Permission.objects.filter(
        content_type__app_label="agent_sessions", codename__in=codenames
    )
    rows = person.user_permissions.through
    rows.objects.bulk_create(rows(user=person, permission=one) for one in permissions)


def problems(
    ask: Ask, there: Conversation, person: Any, sets: Any, *, owner: bool = False
) -> dict[str, str]:
    """Tries a request with each set of permissions, and says what is wrong with what came of it."""
    client = Client()
    client.force_login(person)
    wrong = {}
    ask.prepare(there)
    for granted in sets:
        with transaction.atomic():
            grant(person, granted)
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
    before = set(AuditEvent.objects.values_list("pk", flat=True))
    status, content = send(client, ask, there)
    events = recorded_since(before)

    let_in, reads = ask.needs <= granted, READ in granted
    allowed = ask.answers if let_in else ask.refusals
    if status not in allowed:
        return f"answered {status}, not {allowed}"
    echo = " ".join((ask.post or {}).get(name, "") for name in ("query", "text"))
    seen = {secret for secret in (*SECRETS, GONE) if secret in content and secret not in echo}
    if GONE in seen:
        return "original shown"
    if seen and (not reads or VIEW not in granted or status in (403, 404)):
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
    if any(secret in written for secret in (*SECRETS, GONE)) or LogEntry.objects.exists():
        return "content was recorded, or Django's own log written"
    return ""


@pytest.mark.parametrize("ask", ASKS, ids=names(ASKS))
def test_a_page_or_action_does_for_each_permission_what_it_should(ask, there, person):
    assert problems(ask, there, person, permission_sets(ask)) == {}


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


def test_every_page_is_asked_for():
    pages = {
        str(pattern.name).removeprefix("agent_sessions_")
        for ours in admins()
        for pattern in ours.get_urls()
        # The one without a name only leads to the page of a row.
        if pattern.name is not None
    }
    assert pages == {ask.page for ask in ASKS}


def test_every_action_is_asked_for():
    request = RequestFactory().get("/")
    request.user = get_user_model().objects.create_superuser("root")
    actions = {
        (ours.opts.model_name, name) for ours in admins() for name in ours.get_actions(request)
    }

    assert actions == {(ask.page.partition("_")[0], ask.action) for ask in ASKS if ask.action}


def test_every_permission_of_ours_opens_something():
    assert set(OURS) == set().union(*(ask.needs for ask in ASKS)) - NOBODY


# --- access rules --------------------------------------------------------------------------------


class Elsewhere(AccessRule):
    """Permissions are valid in one namespace only."""

    condition: ClassVar[Q] = Q(namespace="elsewhere")
    actions: ClassVar[Any] = frozenset(SessionPermission)

    def sessions(self, user: Any, action: SessionPermission) -> Any:
        granted = super().sessions(user, action)
        if action not in self.actions:
            return granted
        return None if granted is None else self.condition


class Here(Elsewhere):
    """The namespace of the session; the condition needs a join."""

    condition = Q(namespace="", agents__agent_id__isnull=False)


class Content(Elsewhere):
    """All sessions are listed; only those of one namespace are read."""

    actions = frozenset({SessionPermission.READ})


@pytest.fixture
def everything(person) -> Client:
    """A client of a person with all permissions."""
    person.user_permissions.set(Permission.objects.filter(content_type__app_label="agent_sessions"))
    client = Client()
    client.force_login(person)
    return client


def stored() -> list[Any]:
    models = (Session, SessionAgent, SessionMessage, SessionMultiAgent, Branch, Snapshot)
    return [list(model._default_manager.order_by("pk").values()) for model in models]


def shown(ask: Ask, content: str) -> set[str]:
    echo = " ".join((ask.post or {}).get(name, "") for name in ("query", "text"))
    return {secret for secret in (*SECRETS, GONE) if secret in content and secret not in echo}


@pytest.mark.parametrize("ask", ASKS, ids=names(ASKS))
def test_nothing_is_shown_or_done_where_a_rule_does_not_reach(ask, there, everything, settings):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.Elsewhere"}
    ask.prepare(there)
    before = stored()
    trail = set(AuditEvent.objects.values_list("pk", flat=True))

    status, content = send(everything, ask, there)

    assert shown(ask, content) == set()
    assert stored() == before
    # A search, and the refused use of an action, are of no session.
    assert all(event.session is None for event in recorded_since(trail))
    if ask.page in (LIST, EVENTS, "auditevent_csv", "operation_changelist"):
        assert str(there.session.pk) not in content
    elif ask.page == "session_history":
        assert status == 302
    else:
        assert status in ask.refusals or status == 302, status
        assert "matrix" not in content


@pytest.mark.parametrize("ask", ASKS, ids=names(ASKS))
def test_everything_is_shown_and_done_where_a_rule_reaches(ask, there, person, settings):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.Here"}
    if ask.of_everything:
        # The figures of usage, what belongs to a person, and operations of others are of all
        # sessions.
        refused = 403 if ask.page.startswith("usage") else 404
        assert problems(ask, there, person, [frozenset(OURS)]) == {
            ", ".join(sorted(OURS)): f"answered {refused}, not {ask.answers}"
        }
    else:
        assert problems(ask, there, person, [frozenset(OURS)]) == {}


@pytest.mark.parametrize("ask", ASKS, ids=names(ASKS))
def test_a_listed_session_whose_content_a_rule_does_not_reach_keeps_it(
    ask, there, everything, settings
):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.Content"}
    ask.prepare(there)
    _, content = send(everything, ask, there)
    assert shown(ask, content) == set()


def test_a_search_and_filters_know_the_sessions_of_a_rule_only(there, everything, settings, ada):
    url = reverse("admin:agent_sessions_session_changelist")
    Session.objects.update(owner=ada)

    def found(**query: str) -> str:
        return str(everything.get(url, query).content.decode())

    for rule in ("Elsewhere", "Content"):
        for namespace, reaches in (("here", False), ("elsewhere", True)):
            settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.{rule}"}
            Session.objects.update(namespace=namespace)
            assert (str(there.session.pk) in found(q="plantedtext")) is reaches
            if rule == "Elsewhere":
                # Names of users are shown with a session of theirs only.
                assert ("ada" in found(owner=str(ada.pk))) is reaches


def test_a_redaction_includes_forks_only_if_a_rule_reaches_all(there, everything, settings):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.Elsewhere"}
    Session.objects.update(namespace="elsewhere")
    store = SessionStore(owner=EVERYBODY, namespace="elsewhere")
    store.sessions.fork(store.get("matrix"))
    url = reverse("admin:agent_sessions_session_redact", args=[there.session.pk])
    assert "forks" in everything.get(url).context["form"].fields
    Session.objects.exclude(pk=there.session.pk).update(namespace="here")
    assert "forks" not in everything.get(url).context["form"].fields


@pytest.mark.parametrize("role", ["reader", "writer"])
def test_a_role_in_a_session_stands_for_no_permission(there, person, role):
    Participant.objects.create(session=there.session, user=person, role=role)
    for ask in ASKS:
        assert problems(ask, there, person, [frozenset[str]()]) == {}, ask.page
