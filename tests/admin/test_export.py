from __future__ import annotations

import io
import re
import zipfile
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connections
from django.test import AsyncClient, Client
from django.urls import reverse

from django_agent_sessions.content import exact_json
from django_agent_sessions.models import AuditEvent, Session

pytestmark = pytest.mark.django_db

LIST = "/admin/agent_sessions/session/"
ENOUGH = ("view_session", "read_transcript", "export")


def url_of(session) -> str:
    return reverse("admin:agent_sessions_session_export", args=[session.id])


def body(response) -> bytes:
    return b"".join(response.streaming_content)


def grant(user, *names: str) -> None:
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="agent_sessions", codename__in=names)
    )


@pytest.fixture
def clerk(db):
    user = get_user_model().objects.create_user("clerk", is_staff=True)
    grant(user, *ENOUGH)
    return user


@pytest.fixture
def signed_in(client, clerk):
    client.force_login(clerk)
    return client


@pytest.fixture
def talk(store):
    session = store.open("talk", title="Plans")
    agent = store.agents.open(session)
    store.append_many(agent, [{"role": "user", "content": f"word {n}"} for n in range(3)])
    return session


@pytest.mark.parametrize("form", ["markdown", "jsonl"])
def test_a_session_is_sent_as_a_file_and_recorded(signed_in, clerk, talk, form):
    response = signed_in.post(url_of(talk), {"form": form, "reason": "ticket 7"})

    ending = {"markdown": "md", "jsonl": "jsonl"}[form]
    assert response.status_code == 200
    assert response["Content-Disposition"] == f'attachment; filename="talk.{ending}"'
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in response["Cache-Control"]
    text = body(response).decode()
    assert all(f"word {n}" in text for n in range(3))
    if form == "jsonl":
        assert exact_json.loads(text)["session"]["id"] == str(talk.id)
    event = AuditEvent.objects.get()
    assert (event.action, event.session) == (AuditEvent.Action.EXPORTED, talk.id)
    assert (event.actor, event.actor_id) == ("clerk", str(clerk.pk))
    assert event.reason == "ticket 7"
    assert event.details == {"format": form, "messages": 3}
    assert not LogEntry.objects.exists()


def test_the_record_is_there_before_the_first_byte_leaves(signed_in, talk):
    signed_in.post(url_of(talk), {"form": "markdown"})

    # Nobody has read anything of the body; a client that goes away now was recorded.
    assert AuditEvent.objects.filter(action=AuditEvent.Action.EXPORTED).count() == 1


def test_looking_at_the_form_exports_and_records_nothing(signed_in, talk):
    page = signed_in.get(url_of(talk), {"as": "jsonl"})

    assert page.status_code == 200
    content = page.content.decode()
    assert "word 0" not in content
    assert re.search(r'<input[^>]* value="jsonl"[^>]* checked', content)
    assert not re.search(r'<input[^>]* value="markdown"[^>]* checked', content)
    assert not AuditEvent.objects.exists()


def test_an_unknown_format_is_asked_for_again(signed_in, talk):
    page = signed_in.post(url_of(talk), {"form": "<script>alert(1)</script>"})

    assert page.status_code == 200
    assert not page.streaming
    assert "<script>alert(1)" not in page.content.decode()
    assert not AuditEvent.objects.exists()


def test_a_forged_request_exports_nothing(clerk, talk):
    client = Client(enforce_csrf_checks=True)
    client.force_login(clerk)

    assert client.post(url_of(talk), {"form": "jsonl"}).status_code == 403
    assert client.post(LIST, act("export_jsonl", talk)).status_code == 403
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize("missing", ENOUGH)
def test_whoever_lacks_a_permission_gets_no_file_and_no_hint(client, clerk, talk, missing):
    grant(clerk, *(name for name in ENOUGH if name != missing))
    client.force_login(clerk)

    assert client.get(url_of(talk)).status_code == 404
    assert client.post(url_of(talk), {"form": "jsonl"}).status_code == 404
    for action in ("export_jsonl", "export_markdown"):
        answer = client.post(LIST, act(action, talk))
        assert not answer.streaming
        assert b"word 0" not in answer.content
    page = client.get(LIST)
    assert page.status_code == (403 if missing == "view_session" else 200)
    assert b"export_jsonl" not in page.content
    assert not AuditEvent.objects.exists()


def test_a_session_that_is_not_there_cannot_be_exported(signed_in, talk, store):
    url = url_of(talk)
    store.delete("talk")

    assert signed_in.get(url).status_code == 404
    assert signed_in.post(url, {"form": "jsonl"}).status_code == 404


def act(action: str, *sessions) -> dict:
    return {"action": action, "_selected_action": [str(session.id) for session in sessions]}


def test_many_sessions_are_sent_as_one_file_of_lines(signed_in, store):
    sessions = [store.open(f"s-{n}") for n in range(3)]
    store.open("not chosen")

    text = body(signed_in.post(LIST, act("export_jsonl", *sessions))).decode()

    lines = [exact_json.loads(line) for line in text.splitlines()]
    assert [line["session"]["session_id"] for line in lines] == ["s-0", "s-1", "s-2"]
    events = AuditEvent.objects.filter(action=AuditEvent.Action.EXPORTED)
    assert {event.session for event in events} == {session.id for session in sessions}
    assert events.count() == 3


def test_many_sessions_are_sent_as_an_archive_of_documents(signed_in, store, talk):
    other = store.open("../talk")
    store.append(store.agents.open(other), {"role": "user", "content": "x" * 1_000_000})

    response = signed_in.post(LIST, act("export_markdown", talk, other))

    assert response["Content-Disposition"] == 'attachment; filename="conversations.zip"'
    with zipfile.ZipFile(io.BytesIO(body(response))) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names == [f"talk_{talk.id}.md", f"talk_{other.id}.md"]
        assert b"> word 2\n" in archive.read(names[0])
        assert b"x" * 1_000_000 in archive.read(names[1])
    assert AuditEvent.objects.filter(action=AuditEvent.Action.EXPORTED).count() == 2


def test_one_chosen_session_is_sent_as_a_document(signed_in, talk):
    response = signed_in.post(LIST, act("export_markdown", talk))

    assert response["Content-Disposition"] == 'attachment; filename="talk.md"'
    assert b"> word 2\n" in body(response)
    assert AuditEvent.objects.get().details == {"format": "markdown", "messages": 3}


def test_what_was_not_sent_because_the_client_went_away_is_not_recorded(signed_in, store):
    sessions = [store.open(f"s-{n}") for n in range(3)]
    response = signed_in.post(LIST, act("export_jsonl", *sessions))

    next(iter(response.streaming_content))

    assert AuditEvent.objects.get().session == sessions[0].id


@pytest.mark.parametrize(
    ("session_id", "name"),
    [
        ("../../etc/passwd", "etc-passwd.md"),
        ('a"; filename="b.exe', "a-filename-b-exe.md"),
        ("x\u202efdp.exe", "x-fdp-exe.md"),
        ("a" * 255, "a" * 80 + ".md"),
        ("🐇", None),
    ],
)
def test_no_id_makes_a_dangerous_file_name(signed_in, store, session_id, name):
    session = store.open(session_id)

    header = signed_in.post(url_of(session), {"form": "markdown"})["Content-Disposition"]

    assert header == f'attachment; filename="{name or str(session.id) + ".md"}"'


def test_exporting_ones_own_conversation_is_recorded_too(signed_in, clerk, talk):
    Session.objects.filter(pk=talk.id).update(owner=clerk)

    body(signed_in.post(url_of(talk), {"form": "jsonl"}))

    assert AuditEvent.objects.get().action == AuditEvent.Action.EXPORTED


@pytest.mark.django_db(transaction=True)
async def test_an_export_streams_under_asgi(store):
    session = await store.aopen("talk")
    agent = await store.agents.aopen(session)
    await store.aappend_many(agent, [{"role": "user", "content": "x" * 100_000}] * 3)
    admin = await get_user_model().objects.acreate_superuser("root")
    client = AsyncClient()
    await client.aforce_login(admin)

    response: Any = await client.post(url_of(session), {"form": "jsonl"})

    assert response.is_async
    pieces = [piece async for piece in response.streaming_content]
    # The thread that serves sync code outlives the test.
    await sync_to_async(connections.close_all)()
    assert len(pieces) > 2
    assert b"".join(pieces).count(b"x" * 100_000) == 3
