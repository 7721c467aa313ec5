"""No statement of the SDKs' adapters, the API or the admin reads a table whole.

PostgreSQL is asked how it would run each statement, with thousands of sessions in the tables and
statistics of them. A table that is read whole today is one that is slow when it has grown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Usage
from django.conf import settings as project
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.adapters.strands import DjangoStorage
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.erasure import erase
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.governance.retention import prune
from django_agent_sessions.leases import acquire
from django_agent_sessions.models import AuditEvent, Session, SessionMessage, Snapshot, deletion
from django_agent_sessions.store import SessionStore
from django_agent_sessions.usage import roll_up
from django_agent_sessions.values.owners import EVERYBODY
from tests.adapters.openai_agents.team import user
from tests.adapters.strands.agents import build, manager_of
from tests.adapters.strands.scripted import call
from tests.adapters.strands.snapshots import making
from tests.admin.people import staff
from tests.rest.conftest import client_of
from tests.rest.planted import IMAGE, TOKEN, Planted, body_of, plant

from .crowd import BIG, crowd_around, no_table_read_whole

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(
        project.TEST_DATABASE != "postgresql", reason="the plans are those of PostgreSQL"
    ),
]


OURS = {"SEARCH_CANDIDATES": 100, "SHARE_LINKS": True}


@pytest.fixture(scope="module")
def crowd(django_db_setup, django_db_blocker) -> Iterator[Planted]:
    """A session of Ada's with something in every table, among thousands; made once for all."""
    with django_db_blocker.unblock(), transaction.atomic():
        with override_settings(AGENT_SESSIONS=OURS):
            planted = plant(get_user_model().objects.create_user("ada"))
        crowd_around(planted.session)
        yield planted
        transaction.set_rollback(True)


@pytest.fixture
def planted(crowd, db, settings) -> Any:
    settings.AGENT_SESSIONS = OURS
    return crowd


@pytest.fixture
def ada(planted) -> Any:
    return planted.session.owner


@pytest.fixture
def api(ada) -> Any:
    return client_of(ada)


def test_a_table_that_is_read_whole_is_found(planted):
    whole = pytest.raises(AssertionError, match="reads all of agent_sessions_session")
    with whole, no_table_read_whole():
        assert not Session.objects.filter(title="Rain").order_by("title").exists()


def test_every_reference_between_tables_has_an_index():
    """Else a deletion, which the database checks by itself, would read the other table whole."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint c WHERE contype = 'f' "
            "AND conrelid::regclass::text = ANY(%s) AND NOT EXISTS (SELECT 1 FROM pg_index i "
            "WHERE i.indrelid = c.conrelid AND i.indkey[0] = c.conkey[1] AND indpred IS NULL)",
            [list(BIG)],
        )
        assert cursor.fetchall() == []


def test_a_list_of_sessions_without_an_owner_is_read_in_order_from_the_index_of_the_owner(planted):
    """However many sessions of users are more recent."""
    store = SessionStore()
    last = store.sessions.list(limit=20)[-1]
    for after in (None, last):
        with CaptureQueriesContext(connection) as queries:
            assert len(store.sessions.list(limit=20, after=after)) == 20
        [query] = queries.captured_queries
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN " + query["sql"].replace("%", "%%"))
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "Index Scan using agent_sessions_session_mine" in plan
        assert "(owner_id IS NULL)" in plan
        assert "Sort" not in plan


def test_what_an_erasure_would_erase(planted, ada):
    with no_table_read_whole():
        assert erase(ada.pk, reason="", dry_run=True).counts["sessions"] == 1


def test_what_a_person_wrote_in_the_sessions_of_others_is_found_by_their_index(planted, ada):
    with CaptureQueriesContext(connection) as queries:
        erase(ada.pk, reason="", dry_run=True)
    asked = [each["sql"] for each in queries if '"author" >' in each["sql"]]
    assert asked
    for sql in asked:
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN " + sql.replace("%", "%%"))
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "agent_sessions_message_author" in plan


def test_the_list_looks_for_feedback_session_by_session(planted, client):
    """PostgreSQL may read all feedback and hash it where a condition is an EXISTS."""
    client.force_login(staff("reader", "view_session", "read_transcript"))
    with CaptureQueriesContext(connection) as queries:
        client.get(reverse("admin:agent_sessions_session_changelist"))
    asked = [each["sql"] for each in queries if "agent_sessions_messagefeedback" in each["sql"]]
    assert asked
    for sql in asked:
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (VERBOSE) " + sql.replace("%", "%%"))
            assert "hashed SubPlan" not in "\n".join(line for (line,) in cursor.fetchall())


def test_strands_sessions(planted):
    with no_table_read_whole():
        agent = build("Hello.", call("add", a=1, b=2), "Three.")
        agent("Hi")
        agent("1 + 2?")
        build("Fine.")("How are you?")
        manager = manager_of(agent)
        manager.redact_latest_message({"role": "assistant", "content": [{"text": "[gone]"}]}, agent)
        manager.sync_agent(agent)


def test_strands_snapshots_and_objects(planted):
    async def store() -> None:
        storage = DjangoStorage()
        await storage.write("notes/a", b"x" * 10)
        await storage.write("notes/a", b"y")
        assert await storage.read("notes/a") == b"y"
        assert await storage.list("notes/") == ["notes/a"]
        await storage.delete("notes/a")

    with no_table_read_whole():
        agent = making.build("Hello.", "Fine.", session_id="snapshots")
        agent("Hi")
        manager = making.manager_of(agent)
        asyncio.run(manager.save_snapshot(agent, is_latest=False))
        making.build("Again.", session_id="snapshots")("And?")
        asyncio.run(store())


def test_openai_sessions(planted):
    async def talk() -> None:
        session = DjangoSession("openai")
        await session.add_items([user(str(number)) for number in range(100)])
        await session.get_items()
        await session.get_items(limit=20)
        await session.pop_item()
        await session.clear_session()
        branched = AdvancedDjangoSession("branched")
        await branched.add_items([user("a"), user("b"), user("c")])
        usage: Any = SimpleNamespace(context_wrapper=SimpleNamespace(usage=Usage(requests=1)))
        await branched.store_run_usage(usage)
        await branched.create_branch_from_turn(2, "side")
        await branched.add_items([user("d")])
        await branched.list_branches()
        await branched.get_conversation_turns()
        await branched.get_conversation_by_turns()
        await branched.find_turns_by_content("a")
        await branched.get_session_usage()
        await branched.get_turn_usage()
        await branched.get_tool_usage()
        await branched.get_items(limit=2)
        await branched.switch_to_branch("main")
        await branched.delete_branch("side")

    with no_table_read_whole():
        asyncio.run(talk())


def test_the_store(planted, ada):
    store = SessionStore(owner=ada)
    session = store.get("planted")
    agent = store.agents.list(session)[0]
    with no_table_read_whole():
        store.sessions.list(limit=20, after=session)
        SessionStore().sessions.list(limit=20)
        SessionStore().sessions.list(limit=20, after=session)
        SessionStore(owner=EVERYBODY).sessions.list(limit=20, after=session)
        store.sessions.find_external("planted-x")
        store.append_many(agent, [{"role": "user", "content": [{"text": "more"}]}] * 3)
        store.messages.list(agent, limit=2)
        store.messages.latest(agent, 2)
        store.sessions.usage("planted")
        snapshot = store.snapshots.take(agent)
        store.branches.rewind(agent, 3)
        store.snapshots.restore(agent, snapshot.id)
        fork = store.sessions.fork(session)
        store.sessions.descendants(session.id)
        redact(session.id, Find("plantedtext"), reason="a ticket", descendants=True)
        redact(session.id, WholeMessage(planted.messages[1].pk), reason="a ticket")
        legal_hold.hold(session.id, reason="case 1")
        legal_hold.release(session.id, reason="closed")
        with acquire(session.id):
            pass
        store.clear(agent)
        assert store.delete(fork.session_id)
        Session.objects.filter(pk=session.id).delete()


def test_deletions(planted, monkeypatch):
    monkeypatch.setattr(deletion, "MAX_MESSAGES", 3)
    # In parts: as if no transaction were open.
    monkeypatch.setattr(deletion, "can_commit_batches", lambda using: True)
    oldest = Session.objects.order_by("pk")[60]
    with no_table_read_whole():
        assert SessionStore().delete("crowd-100")
        Session.objects.filter(pk__lt=oldest.pk).delete()
        Session.objects.filter(expires_at__lt=timezone.now() - timedelta(days=1)).delete()
        deletion.delete_tombstones(Session.objects.all())


@pytest.mark.parametrize("limits", [{}, {"namespace": ""}, {"older_than": timedelta(days=1)}])
def test_retention(planted, settings, limits):
    rules = {"AGE": timedelta(minutes=1900), "IDLE": timedelta(minutes=1950)}
    settings.AGENT_SESSIONS = {
        **OURS,
        "RETENTION": {
            "SESSIONS": {"*": rules, "other": {"ARCHIVED": timedelta(days=1)}},
            "AUDIT_EVENTS": timedelta(days=1),
            "USAGE": timedelta(days=1),
        },
    }
    with no_table_read_whole():
        planned = prune(dry_run=True, **limits)
        report = prune(**limits)
    assert planned.sessions == report.sessions
    assert report.sessions.total() > 100


def test_usage_is_counted(planted):
    with no_table_read_whole():
        roll_up(until=timezone.now() + timedelta(hours=1))
        roll_up(until=timezone.now() + timedelta(hours=2))


LISTS: list[dict[str, Any]] = [
    {},
    {"limit": 100, "archived": "false"},
    {"archived": "true"},
    {"errors": "true"},
    {"agent": "concierge"},
    {"session_id": "planted"},
    {"external_id": "planted-x"},
    {"created_after": "2026-01-01T00:00:00Z", "created_before": "2027-01-01T00:00:00Z"},
    {"active_after": "2026-01-01T00:00:00Z", "active_before": "2027-01-01T00:00:00Z"},
    {"after": "{session}"},
    {"q": "planted"},
    {"q": "plantedtext"},
    {"q": "nothing like it"},
]
SESSION = "/api/sessions/{session}/"
AGENT = "/api/agents/{agent}/"
READS: list[tuple[str, dict[str, Any]]] = [
    (SESSION, {}),
    (f"{SESSION}usage/", {}),
    (f"{SESSION}feedback/", {}),
    (f"{SESSION}agents/", {}),
    (f"{SESSION}agents/concierge/", {}),
    (f"{SESSION}multi-agents/", {}),
    (f"{SESSION}multi-agents/graph/", {}),
    (f"{SESSION}messages/", {}),
    (f"{SESSION}messages/", {"order": "desc", "raw": "true"}),
    (f"{SESSION}messages/", {"agent": "concierge"}),
    (f"{SESSION}messages/", {"around": "{message}"}),
    (f"{SESSION}messages/", {"q": "plantedtext"}),
    (f"{SESSION}export/", {"as": "jsonl"}),
    (f"{SESSION}export/", {"as": "markdown"}),
    (f"{AGENT}branches/", {}),
    (f"{AGENT}branches/1/", {}),
    (f"{AGENT}branches/1/messages/", {}),
    (f"{AGENT}branches/compare/", {"left": "0", "right": "1"}),
    (f"{AGENT}snapshots/", {}),
    ("/api/messages/{message}/", {}),
    ("/api/messages/{message}/media/", {"path": IMAGE}),
]


@pytest.mark.parametrize("scope", ["own", "all"])
def test_the_api_reads(planted, api, scope):
    reading = ("view_session", "read_transcript", "view_sessionagent", "export")
    reader = client_of(staff("carol", *reading))
    client = api if scope == "own" else reader
    keys = {
        "session": planted.session.pk,
        "agent": planted.agent.pk,
        "message": planted.messages[0].pk,
    }
    with no_table_read_whole() as explained:
        for url, query in [*(("/api/sessions/", one) for one in LISTS), *READS]:
            given = {name: str(value).format(**keys) for name, value in query.items()}
            asked: Any = {**given, "scope": scope}
            answer: Any = client.get(url.format(**keys), asked)
            assert answer.status_code == 200, (url, given, body_of(answer))
            body_of(answer)
        # The second page, by the cursor of the first.
        if scope == "all":
            page: Any = client.get("/api/sessions/?scope=all&limit=10")
            assert client.get(page.json()["next"]).status_code == 200
    assert len(explained) > 20


def test_what_is_shared_is_found_by_the_reader_and_by_the_session(planted, api):
    reader = client_of(planted.participant.user)
    keys = {
        "session": planted.session.pk,
        "agent": planted.agent.pk,
        "message": planted.messages[0].pk,
    }
    url = f"/api/sessions/{planted.session.pk}/"
    with no_table_read_whole() as explained:
        for query in LISTS:
            given = {name: str(value).format(**keys) for name, value in query.items()}
            asked: Any = {**given, "scope": "shared"}
            answer: Any = reader.get("/api/sessions/", asked)
            assert answer.status_code == 200, (given, body_of(answer))
        for path, query in READS:
            if "export" not in path:
                asked = {name: str(value).format(**keys) for name, value in query.items()}
                answer = reader.get(path.format(**keys), asked)
                assert answer.status_code == 200, (path, body_of(answer))
                body_of(answer)
        assert reader.get(f"/api/shared/{TOKEN}/").status_code == 200
        for name, body in (
            ("participants", {"user": "1", "role": "reader"}),
            ("links", {"seconds": 9}),
        ):
            assert api.get(f"{url}{name}/").status_code == 200
            assert api.post(f"{url}{name}/", body, format="json").status_code in (201, 400)
        assert api.delete(f"{url}links/{planted.link.pk}/").status_code == 204
        assert api.delete(f"{url}participants/{planted.participant.pk}/").status_code == 204
    assert len(explained) > 20


def test_the_api_writes(planted, api):
    agent, message = planted.agent.pk, planted.messages[1].pk
    url = f"/api/sessions/{planted.session.pk}/"
    with no_table_read_whole():
        assert api.post("/api/sessions/", {"title": "New"}, format="json").status_code == 201
        assert api.patch(url, {"archived": True}, format="json").status_code == 200
        fork = api.post(f"{url}fork/", {}, format="json")
        assert fork.status_code == 201
        body = {"reason": "a ticket", "find": "plantedreasoning"}
        assert api.post(f"{url}redact/", body, format="json").status_code == 200
        body = {"reason": "a ticket"}
        one = f"/api/messages/{message}/redact/"
        assert api.post(one, body, format="json").status_code == 200
        rating = f"/api/messages/{planted.messages[2].pk}/feedback/"
        assert api.put(rating, {"value": 1}, format="json").status_code == 200
        assert api.delete(rating).status_code == 204
        body = {"to": str(message)}
        rewound = api.post(f"/api/agents/{agent}/rewind/", body, format="json")
        assert rewound.status_code == 200, body_of(rewound)
        assert api.delete(f"/api/sessions/{fork.json()['id']}/").status_code == 204
        assert api.delete(url).status_code == 204


FILTERS: list[dict[str, Any]] = [
    {},
    *({"activity": one} for one in ("1d", "7d", "30d", "older")),
    *(
        {name: one}
        for name in ("owned", "errors", "held", "redacted", "expired", "archived")
        for one in ("yes", "no")
    ),
    {"framework": "strands"},
    {"framework": "openai"},
    *({"agent": one} for one in ("concierge", "rare", "no agent")),
    {"columns": "status,errors,last_message"},
    *({"feedback": one} for one in ("bad", "good", "any", "none")),
    {"namespace": ""},
    {"owner": "{owner}"},
    {"q": "planted"},
    {"q": "crowd-77"},
    {"q": "{session}"},
    {"q": "plantedtext"},
    {"q": "nothing like it"},
]


def test_the_admins_lists(planted, admin_client, ada):
    keys = {"owner": ada.pk, "session": planted.session.pk}
    sessions = reverse("admin:agent_sessions_session_changelist")
    audit = reverse("admin:agent_sessions_auditevent_changelist")
    events = [
        {},
        *({"action__exact": one} for one in ("read", "deleted")),
        {"session": str(planted.session.pk)},
        {"actor_id": str(ada.pk)},
        {"when": "7d"},
        {"q": "ada"},
        {"q": str(planted.session.pk)},
    ]
    with no_table_read_whole() as explained:
        for query in FILTERS:
            given = {name: value.format(**keys) for name, value in query.items()}
            page = admin_client.get(sessions, given)
            assert page.status_code == 200, given
        for query in events:
            assert admin_client.get(audit, query).status_code == 200, query
        for days in (90, 7):
            usage = reverse("admin:agent_sessions_usagerollup_changelist")
            assert admin_client.get(usage, {"days": days}).status_code == 200
    assert len(explained) > 20


def test_the_admins_pages_of_a_session(planted, admin_client):
    key, message = planted.session.pk, planted.messages[0].pk

    def get(name: str, *args: Any, **query: Any) -> None:
        url = reverse(f"admin:agent_sessions_session_{name}", args=[key, *args])
        page = admin_client.get(url, query)
        assert page.status_code == 200, (name, query)
        body_of(page)

    with no_table_read_whole() as explained:
        get("change")
        get("change", at=message)
        get("change", agent=planted.agent.pk, branch=1)
        get("messages", after=message)
        get("raw", message)
        get("redact")
        get("branches")
        get("compare", agent=planted.agent.pk, left=0, right=1)
        get("snapshots")
        get("fork", message)
        get("rewind", message)
        find = reverse("admin:agent_sessions_session_find", args=[key])
        assert admin_client.post(find, {"query": "plantedtext"}).status_code == 200
        event = AuditEvent.objects.filter(session=key)[0]
        assert (
            admin_client.get(
                reverse("admin:agent_sessions_auditevent_change", args=[event.pk])
            ).status_code
            == 200
        )
    assert len(explained) > 20


def test_the_admins_deletions(planted, admin_client):
    chosen = list(Session.objects.order_by("pk").values_list("pk", flat=True)[:50])
    delete = reverse("admin:agent_sessions_session_delete", args=[planted.session.pk])
    action = {"action": "delete_selected", "_selected_action": [*map(str, chosen)], "post": "yes"}
    with no_table_read_whole():
        assert admin_client.get(delete).status_code == 200
        assert admin_client.post(delete, {"post": "yes"}).status_code == 302
        sessions = reverse("admin:agent_sessions_session_changelist")
        assert admin_client.post(sessions, action).status_code == 302
    assert not SessionMessage.objects.filter(session_id__in=chosen).exists()
    assert not Snapshot.objects.filter(session=planted.session.pk).exists()
