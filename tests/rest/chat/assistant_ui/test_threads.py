"""Threads are the user's own sessions."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.base import SessionAPI
from django_agent_sessions.rest.chat.assistant_ui.views import AssistantUIView, TitleView
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing
from django_agent_sessions.values.ids import new_id
from tests.encryption.conftest import encrypt  # noqa: F401 - a fixture
from tests.rest.chat.assistant_ui.conftest import Cloud, rows, session_of, ui

pytestmark = pytest.mark.django_db

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")


def ids(answer) -> list[str]:
    return [thread["id"] for thread in answer["threads"]]


def make(user, count: int, *, same_moment: bool = False, archived: bool = False) -> list[str]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = []
    for number in range(count):
        key, moment = new_id(), start + timedelta(0 if same_moment else number)
        SessionStore(owner=user).create(str(key), id=key, title=f"T{number}")
        archived_at = timezone.now() if archived else None
        Session.objects.filter(pk=key).update(last_activity_at=moment, archived_at=archived_at)
        made.append(str(key))
    return made


def test_a_thread_has_every_key_that_the_client_reads_and_times_as_javascript_writes_them(cloud):
    key = cloud.thread(title="Lisbon", external_id="e-1", metadata={"colour": "blue"})

    thread = cloud.get(f"threads/{key}")["thread"]

    times = {name: thread.pop(name) for name in ("last_message_at", "created_at", "updated_at")}
    assert all(MOMENT.match(text) for text in times.values())
    assert thread == {
        "id": key,
        "title": "Lisbon",
        "metadata": {"colour": "blue"},
        "external_id": "e-1",
        "project_id": "default",
        "workspace_id": "default",
        "is_archived": False,
    }


def test_a_thread_is_a_session_of_the_user_with_a_name_of_its_own(cloud, ada):
    row = session_of(cloud.thread())

    assert (row.owner, row.session_id, row.namespace, row.title) == (ada, str(row.pk), "", "")
    assert cloud.get(f"threads/{row.pk}")["thread"]["title"] is None


def test_the_same_external_id_is_the_same_thread_of_its_owner_and_nobody_elses(
    cloud, strangers_cloud
):
    first = cloud.thread(external_id="mine", title="One")

    assert cloud.thread(external_id="mine") == first
    assert session_of(first).title == "One"
    assert cloud.thread(external_id="mine", title="Two", is_archived=True) == first
    assert session_of(first).title == "Two"
    assert session_of(first).archived_at is not None
    assert strangers_cloud.thread(external_id="mine") != first
    assert Session.objects.count() == 2


def test_the_list_goes_on_after_a_thread_until_all_were_given_once(cloud, ada, bob):
    made = make(ada, 45)
    make(bob, 3)

    found: list[Any] = []
    after: dict[str, str] = {}
    while page := ids(cloud.get("threads", limit="20", **after)):
        found += page
        after = {"after": page[-1]}

    assert found == made[::-1]


def test_threads_of_the_same_moment_are_neither_lost_nor_given_twice(cloud, ada):
    made = make(ada, 25, same_moment=True)

    first = ids(cloud.get("threads"))
    second = ids(cloud.get("threads", after=first[-1]))

    assert (len(first), len(second)) == (20, 5)
    assert set(first) | set(second) == set(made)


def test_archived_threads_are_listed_apart_and_paged_apart(cloud, ada):
    (kept,) = make(ada, 1)
    away = make(ada, 21, archived=True)[::-1]

    assert ids(cloud.get("threads")) == [kept]
    assert ids(cloud.get("threads", is_archived="false")) == [kept]
    assert ids(cloud.get("threads", is_archived="true", limit="20")) == away[:20]
    assert ids(cloud.get("threads", is_archived="true", after=away[19])) == away[20:]


def test_a_thread_is_renamed_noted_put_away_and_taken_out(cloud, thread):
    for body, column, value in (
        ({"title": "Porto"}, "title", "Porto"),
        ({"title": None}, "title", ""),
        ({"metadata": {"a": [1]}}, "metadata", {"a": [1]}),
        ({"metadata": None}, "metadata", {}),
    ):
        assert cloud.ask("put", f"threads/{thread}", body).status_code == 204
        assert getattr(session_of(thread), column) == value
    cloud.ask("put", f"threads/{thread}", {"is_archived": True})
    assert cloud.get(f"threads/{thread}")["thread"]["is_archived"] is True
    cloud.ask("put", f"threads/{thread}", {"is_archived": False})
    assert cloud.get(f"threads/{thread}")["thread"]["is_archived"] is False


def test_what_a_client_may_not_decide_stays_as_it_is(cloud, ada, bob):
    thread = cloud.thread(external_id="e")
    before = session_of(thread)

    body = {
        "external_id": "other",
        "owner": bob.pk,
        "id": str(new_id()),
        "last_message_at": "1999-01-01T00:00:00.000Z",
        "legal_hold": True,
    }
    assert cloud.ask("put", f"threads/{thread}", body).status_code == 204

    after = session_of(thread)
    assert (after.external_id, after.owner, after.legal_hold) == ("e", ada, False)
    assert after.last_activity_at == before.last_activity_at


def test_a_deleted_thread_is_gone_and_its_deletion_recorded(cloud, thread):
    assert cloud.ask("delete", f"threads/{thread}").status_code == 204

    assert cloud.ask("get", f"threads/{thread}").status_code == 404
    assert cloud.ask("delete", f"threads/{thread}").status_code == 404
    event = AuditEvent.objects.get(session=thread, action="deleted")
    assert (event.actor, event.details) == ("ada", {"via": "api", "messages": 0})


def test_a_thread_is_deleted_with_a_reason_where_one_is_required(cloud, thread, settings):
    settings.AGENT_SESSIONS = {"REASON_REQUIRED": ["deleted"]}

    refused = cloud.ask("delete", f"threads/{thread}")
    assert (refused.status_code, refused.json()["code"]) == (400, "reason_required")
    assert session_of(thread).title == ""

    assert cloud.ask("delete", f"threads/{thread}", reason="Ticket 5120").status_code == 204
    assert AuditEvent.objects.get(session=thread, action="deleted").reason == "Ticket 5120"


def test_a_session_of_another_namespace_is_opened_renamed_and_deleted_too(cloud, ada):
    made = SessionStore(owner=ada, namespace="bot").create("holiday", title="H")

    assert ids(cloud.get("threads")) == [str(made.id)]
    assert cloud.ask("put", f"threads/{made.id}", {"title": "I"}).status_code == 204
    assert cloud.ask("delete", f"threads/{made.id}").status_code == 204
    assert not Session.objects.exists()


def test_a_thread_under_legal_hold_is_not_deleted(cloud, thread):
    Session.objects.filter(pk=thread).update(legal_hold=True)

    answer = cloud.ask("delete", f"threads/{thread}")

    assert (answer.status_code, answer["Content-Type"]) == (409, "application/problem+json")
    assert answer.json()["code"] == "legal_hold"
    assert session_of(thread).legal_hold


@pytest.mark.parametrize("count", [1, 60])
def test_a_list_takes_the_same_statements_however_many_threads_there_are(
    cloud, ada, count, django_assert_num_queries
):
    last = make(ada, count)[-1]

    # Who asks; the threads.
    with django_assert_num_queries(2):
        cloud.get("threads")
    with django_assert_num_queries(3):
        cloud.get("threads", after=last)


def test_a_title_is_made_of_the_first_words_and_not_stored(cloud, thread):
    asked = "Where shall we go in the last week of October, if it rains in the north and in May?"
    body = {
        "thread_id": thread,
        "assistant_id": "system/thread_title",
        "messages": [
            {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
            "odd",
            {"role": "user", "content": "  "},
            {"role": "user", "content": [{"type": "tool-call"}, {"type": "text", "text": asked}]},
        ],
    }

    answer = cloud.client.post(
        "/v1/runs/stream", body, content_type="application/json", headers={"Accept": "text/plain"}
    )

    title = "Where shall we go in the last week of October, if it rains in the north and in…"
    assert (answer.status_code, answer.content.decode()) == (200, title)
    assert answer["Content-Type"].startswith("text/plain")
    assert session_of(thread).title == ""
    cloud.ask("put", f"threads/{thread}", {"title": "Mine"})
    assert cloud.ask("post", "runs/stream", body).content == b"Mine"
    assert session_of(thread).title == "Mine"


@pytest.mark.parametrize("messages", [None, [], "x", [1], [{"role": "user", "content": [{}]}]])
def test_where_nobody_said_a_word_there_is_no_title(cloud, thread, messages):
    body = {"thread_id": thread, "assistant_id": "system/thread_title", "messages": messages}

    assert cloud.ask("post", "runs/stream", body).content in (b"", b'""') or messages is None
    assert session_of(thread).title == ""


def named(cloud: Cloud, thread: str, *texts: str) -> str:
    """The title that the client is given, who sends what it has in memory."""
    said = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in texts]
    body = {"thread_id": thread, "assistant_id": "system/thread_title", "messages": said}
    answer = cloud.ask("post", "runs/stream", body)
    assert answer.status_code == 200, answer.content
    return str(answer.content.decode())


@pytest.mark.parametrize(
    ("scope", "title"), [(Find("Jane Doe"), "[REDACTED] is ill"), (None, "And now?")]
)
def test_a_title_brings_no_redacted_words_back(cloud, thread, scope, title):
    first = cloud.say(thread, ui("user", "Jane Doe is ill"))
    cloud.say(thread, ui("user", "And now?"), first)
    redact(UUID(thread), scope or WholeMessage(rows(thread)[0].pk), reason="asked")

    assert named(cloud, thread, "Jane Doe is ill", "And now?") == title
    assert cloud.get(f"threads/{thread}")["thread"]["title"] == title
    assert [one["title"] for one in cloud.get("threads")["threads"]] == [title]
    assert columns_containing("Jane Doe") == []


@pytest.mark.parametrize("title", ["", "Jane Doe", "Somebody's illness"])
def test_a_redaction_reaches_a_title_that_was_made_before(cloud, thread, monkeypatch, title):
    monkeypatch.setattr(TitleView, "title", lambda view, messages: title)
    cloud.say(thread, ui("user", "Jane Doe is ill"))
    assert named(cloud, thread, "Jane Doe is ill") == (title or "Jane Doe is ill")
    assert session_of(thread).title == title

    redact(UUID(thread), WholeMessage(rows(thread)[0].pk), reason="asked")

    row = session_of(thread)
    assert (row.title, row.title_derived) == ("", False)
    assert cloud.get(f"threads/{thread}")["thread"]["title"] is None
    assert columns_containing("Jane Doe") == []


def test_a_redaction_leaves_a_title_that_the_user_gave_after_one_was_made(
    cloud, thread, monkeypatch
):
    monkeypatch.setattr(TitleView, "title", lambda view, messages: "An illness")
    cloud.say(thread, ui("user", "Jane Doe is ill"))
    named(cloud, thread, "Jane Doe is ill")
    cloud.ask("put", f"threads/{thread}", {"title": "Tuesday"})

    redact(UUID(thread), WholeMessage(rows(thread)[0].pk), reason="asked")

    assert session_of(thread).title == "Tuesday"


def test_where_all_was_redacted_there_is_no_title(cloud, thread):
    cloud.say(thread, ui("user", "Jane Doe is ill"))
    redact(UUID(thread), WholeMessage(rows(thread)[0].pk), reason="asked")

    assert named(cloud, thread, "Jane Doe is ill") in ("", '""')
    assert session_of(thread).title == ""


def test_a_title_is_of_what_was_stored_and_not_of_what_a_client_says(cloud, thread):
    cloud.say(thread, ui("user", "Where to?"))

    assert named(cloud, thread, "Something else") == "Where to?"


def test_a_redaction_while_a_title_is_made_leaves_none(cloud, thread, monkeypatch):
    cloud.say(thread, ui("user", "Jane Doe is ill"))

    def slow(view: Any, messages: Any) -> str:
        redact(UUID(thread), Find("Jane Doe"), reason="asked")
        return "Jane Doe"

    monkeypatch.setattr(TitleView, "title", slow)

    assert named(cloud, thread, "Jane Doe is ill") in ("", '""')
    assert session_of(thread).title == ""
    assert cloud.get(f"threads/{thread}")["thread"]["title"] == "[REDACTED] is ill"


@pytest.mark.parametrize("codec", ["plain", "encrypted"])
def test_a_title_is_made_without_results_of_tools_and_pictures(
    cloud, ada, monkeypatch, request, codec
):
    if codec == "encrypted":
        request.getfixturevalue("encrypt")()
    given: list[Any] = []

    def title(view: Any, messages: Any) -> str:
        given.append(messages)
        return ""

    monkeypatch.setattr(TitleView, "title", title)
    store = SessionStore(owner=ada)
    session = store.open("s")
    result = {"toolUseId": "t", "status": "success", "content": [{"text": "4711"}]}
    picture = {"image": {"format": "png", "source": {"bytes": b"p"}}}
    contents: list[tuple[str, list[dict[str, Any]]]] = [
        ("user", [picture]),
        ("user", [{"toolResult": result}]),
        ("user", [{"text": "Where is it?" + " Please." * 30}, {"toolResult": result}]),
        ("assistant", [{"toolUse": {"toolUseId": "t", "name": "f", "input": {"a": "4711"}}}]),
        ("assistant", [{"text": "There."}]),
    ]
    agent = store.agents.open(session, dialect="strands")
    store.append_many(agent, [{"role": role, "content": said} for role, said in contents])

    assert named(cloud, str(session.id)).startswith("Where is it? Please.")
    assert [
        [(message["role"], message["content"][0]["text"][:13]) for message in messages]
        for messages in given
    ] == [[("user", "Where is it? "), ("assistant", "There.")]]
    assert "4711" not in str(given)


def test_what_is_masked_on_write_is_masked_in_a_title_before_it_is_cut(cloud, thread, settings):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ("card",)}
    words = "Please, please, would you be so kind and pay with 4111 1111 1111 1111"

    assert "4111" not in named(cloud, thread, words)
    assert "4111" not in session_of(thread).title


@pytest.fixture
def not_allowed(monkeypatch):
    def forbid(*forbidden: SessionPermission) -> None:
        may = frozenset(SessionAPI.owner_may) - frozenset(forbidden)
        monkeypatch.setattr(AssistantUIView, "owner_may", may)

    return forbid


def test_owners_read_their_threads_only_where_a_project_lets_them(cloud, thread, not_allowed):
    cloud.say(thread, ui("user", "hid"))
    not_allowed(SessionPermission.READ)

    for path in (f"threads/{thread}", f"threads/{thread}/messages"):
        answer = cloud.ask("get", path)
        assert (answer.status_code, b"hid" in answer.content) == (404, False)
    body = {"thread_id": thread, "assistant_id": "system/thread_title", "messages": []}
    assert cloud.ask("post", "runs/stream", body).status_code == 404


def test_owners_change_their_threads_only_where_a_project_lets_them(cloud, not_allowed):
    thread = cloud.thread(external_id="mine", title="one")
    key = cloud.say(thread, ui("user", "x"))
    not_allowed(SessionPermission.CHANGE)

    for change in ({"title": "two"}, {"is_archived": True}, {"metadata": {"a": 1}}):
        sent = cloud.ask("post", "threads", {"external_id": "mine", **change})
        assert sent.status_code == 404
        assert cloud.ask("put", f"threads/{thread}", change).status_code == 404
    assert cloud.send(thread, ui("user", "y")).status_code == 404
    assert cloud.change(thread, key, ui("user", "y")).status_code == 404

    assert cloud.thread(external_id="mine") == thread
    row = session_of(thread)
    assert (row.title, row.archived_at, row.metadata) == ("one", None, {})
    assert [one.text for one in rows(thread)] == ["x"]


def test_owners_delete_their_threads_only_where_a_project_lets_them(cloud, thread, not_allowed):
    not_allowed(SessionPermission.DELETE)

    assert cloud.ask("delete", f"threads/{thread}").status_code == 404
    assert session_of(thread).title == ""


def test_another_run_is_refused(cloud, thread):
    body = {"thread_id": thread, "assistant_id": "mine", "messages": []}

    assert cloud.ask("post", "runs/stream", body).status_code == 400


def test_without_a_token_nothing_is_answered(thread):
    nobody = Cloud(None)

    for method, path in (
        ("get", "threads"),
        ("post", "threads"),
        ("get", f"threads/{thread}"),
        ("get", f"threads/{thread}/messages"),
        ("post", f"threads/{thread}/messages"),
        ("post", "runs/stream"),
    ):
        answer = nobody.ask(method, path, {} if method == "post" else None)
        assert answer.status_code == 401, path
        assert answer.json()["message"]
