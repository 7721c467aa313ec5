"""Owner, writer, reader, link, team and stranger × every route, page, stream and command."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.management import get_commands
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from django_agent_sessions import audit
from django_agent_sessions.governance import sharing
from django_agent_sessions.models import AuditEvent, Participant, Session, SessionMessage, ShareLink
from django_agent_sessions.models.deletion import TOMBSTONE_NAMESPACE
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.base import DEFAULT_RATES
from django_agent_sessions.rest.viewsets import SessionViewSet
from django_agent_sessions.store import SessionStore
from tests.admin.transcripts import said

from .asks import ABOUT_SOMETHING, BY_LINK, EVERY_ASK, FEEDBACK, NONE, OPEN_TO_ALL, RATE, Ask
from .conftest import client_of
from .planted import (
    GONE,
    IMAGE,
    METHODS,
    PIXEL,
    SAID,
    TOKEN,
    ask,
    body_of,
    recorded,
    rows,
    seen_in,
)
from .test_authorization import grant

pytestmark = pytest.mark.django_db

MAY = {"reader": NONE, "writer": frozenset({RATE})}
"""What participants may do beside reading."""

LIST = "sessions/"
MEDIA = f"/api/shared/{TOKEN}/messages/{{}}/media/?path={IMAGE}"


@pytest.fixture(params=["reader", "writer"])
def role(request) -> str:
    name: str = request.param
    return name


@pytest.fixture
def bobs(planted, bob, role) -> APIClient:
    """Bob takes part in Ada's session."""
    Participant.objects.create(session=planted.session, user=bob, role=role)
    return grant(bob, NONE)


def expected(one: Ask, role: str, scope: str | None) -> tuple[bool, set[str], tuple[str, ...]]:
    """Whether a participant is let in, what is shown, and what is recorded."""
    if one.of_everybody:
        if one.route != LIST or one.method not in ("get", "head"):
            return True, set(), ()
        shared = scope == "shared"
        return True, {*one.shows} if shared else set(), one.recorded if shared else ()
    if not one.needs <= MAY[role]:
        return False, set(), ()
    # People see their own comments.
    shown = set() if one.route == FEEDBACK else {*one.shows}
    return True, shown, one.recorded


# Over a second: the OpenAPI document is made for each answer.
@pytest.mark.parametrize("scope", [None, "shared"])
@pytest.mark.parametrize("one", ABOUT_SOMETHING, ids=lambda one: one.name)
def test_participants_do_what_their_part_allows_and_no_more(planted, bobs, bob, role, one, scope):
    before, trail = rows(), {event.pk for event in recorded()}
    let_in, shown, events = expected(one, role, scope)
    query = {**dict(one.query), **({"scope": scope} if scope else {})}
    answer = ask(bobs, one.method, planted.url(one.route, one.message), query, one.body)
    assert answer.status_code == (one.answer if let_in else 404)
    assert seen_in(body_of(answer)) == shown
    assert (rows() != before) == (let_in and one.writes)
    found = [event for event in recorded() if event.pk not in trail]
    assert [event.action for event in found] == [*events]
    assert all(event.actor_id == str(bob.pk) for event in found)


@pytest.mark.parametrize("one", ABOUT_SOMETHING, ids=lambda one: one.name)
def test_a_part_opens_nothing_of_everybodys_nor_to_whoever_lost_it(planted, bobs, bob, role, one):
    before = rows()
    url = planted.url(one.route, one.message)
    answer = ask(bobs, one.method, url, {**dict(one.query), "scope": "all"}, one.body)
    if one.scoped:
        assert answer.status_code == 404
    sharing.remove_participant(planted.session.pk, bob)
    before = rows()
    for scope in (None, "shared"):
        query = {**dict(one.query), **({"scope": scope} if scope else {})}
        answer = ask(bobs, one.method, url, query, one.body)
        assert answer.status_code == (one.answer if one.of_everybody else 404)
        assert seen_in(body_of(answer)) == set()
    if not one.of_everybody:
        assert rows() == before


def test_a_permission_adds_nothing_to_a_part_without_asking_for_everybodys(planted, bob):
    Participant.objects.create(session=planted.session, user=bob, role="reader")
    client = grant(bob, frozenset(SessionPermission))
    for one in ABOUT_SOMETHING:
        if one.needs and not one.of_everybody:
            answer = ask(client, one.method, planted.url(one.route, one.message), None, one.body)
            assert answer.status_code == 404, one.name


def test_shared_sessions_are_in_a_list_of_their_own_and_are_not_ones_own(planted, bobs, ada, bob):
    key = str(planted.session.pk)
    for query in ({}, {"q": "plantedtext"}, {"external_id": "planted-x"}):
        listed = bobs.get("/api/sessions/", {**query, "scope": "shared"}).json()["results"]
        assert [row["id"] for row in listed] == [key]
        assert bobs.get("/api/sessions/", query).json()["results"] == []
    assert client_of(ada).get("/api/sessions/", {"scope": "shared"}).json()["results"] == []
    # A session without an owner is shared as well; one that became the participant's is not.
    for owner, number in ((None, 1), (bob, 0)):
        Session.objects.filter(pk=key).update(owner=owner)
        listed = bobs.get("/api/sessions/", {"scope": "shared"}).json()["results"]
        assert len(listed) == number
    assert len(bobs.get("/api/sessions/").json()["results"]) == 1
    Session.objects.filter(pk=key).update(owner=ada)
    page = bobs.get(f"/api/sessions/{key}/messages/").json()
    url = next(part["url"] for part in page["results"][0]["parts"] if part["url"])
    assert bobs.get(url).status_code == 200


def test_an_empty_list_of_shared_sessions_is_no_reading(planted, bobs, bob, ada):
    client = client_of(ada)
    for query in ({}, {"archived": "true"}, {"q": "plantedtext"}):
        assert client.get("/api/sessions/", {**query, "scope": "shared"}).json()["results"] == []
    events = AuditEvent.objects.filter(actor_id=str(ada.pk), action__in=("read", "searched"))
    assert [event.action for event in events] == ["searched"]
    bobs.get("/api/sessions/", {"scope": "shared"})
    assert AuditEvent.objects.filter(actor_id=str(bob.pk), action="read").count() == 1


def test_participants_rate_for_themselves_and_leave_by_themselves(planted, bobs, bob, role):
    rating = planted.url("messages/<agent_sessions_uuid:message>/feedback/", 1)
    listed = planted.url(FEEDBACK)
    status = bobs.put(rating, {"value": 1}, format="json").status_code
    assert status == (200 if role == "writer" else 404)
    assert len(bobs.get(listed).json()["results"]) == (role == "writer")
    others, own = planted.participant, Participant.objects.get(user=bob)
    url = f"/api/sessions/{planted.session.pk}/participants/"
    assert bobs.delete(f"{url}{others.pk}/").status_code == 404
    assert bobs.delete(f"{url}{own.pk}/").status_code == 204
    assert bobs.get(listed).status_code == 404
    assert AuditEvent.objects.filter(action="participant_removed", actor_id=str(bob.pk)).exists()


def test_a_project_decides_what_participants_may(planted, bob):
    class Wider(SessionViewSet):
        reader_may = frozenset({SessionPermission.READ, SessionPermission.EXPORT})

    from rest_framework.test import APIRequestFactory, force_authenticate

    Participant.objects.create(session=planted.session, user=bob, role="reader")
    request = APIRequestFactory().get("/")
    force_authenticate(request, bob)
    for view, status in ((SessionViewSet, 404), (Wider, 200)):
        answer = view.as_view({"get": "export"})(request, session=str(planted.session.pk))
        assert answer.status_code == status


# --- participants and links over the API -----------------------------------------------------


def test_an_owner_adds_changes_and_removes_participants(planted, api, ada, bob):
    url = f"/api/sessions/{planted.session.pk}/participants/"
    added = api.post(url, {"user": str(bob.pk), "role": "reader"}, format="json")
    assert (added.status_code, added.json()["added_by"]) == (200, str(ada.pk))
    again = api.post(url, {"user": str(bob.pk), "role": "writer"}, format="json").json()
    assert (again["id"], again["role"]) == (added.json()["id"], "writer")
    assert [row["user"] for row in api.get(url).json()["results"]][1:] == [str(bob.pk)]
    events = AuditEvent.objects.filter(action="participant_added").order_by("id")
    assert [event.details["role"] for event in events] == ["reader", "writer"]
    for user in (str(ada.pk), "0", "nobody", ""):
        wrong = api.post(url, {"user": user, "role": "reader"}, format="json")
        assert wrong.status_code == 400, user
    assert api.post(url, {"user": str(bob.pk), "role": "owner"}, format="json").status_code == 400
    assert api.delete(f"{url}{again['id']}/").status_code == 204
    assert api.delete(f"{url}{again['id']}/").status_code == 404


@pytest.mark.parametrize("given", ["actor", "acting", "program", "nothing"])
def test_who_shares_is_the_actor_of_the_event(planted, ada, bob, given):
    actor = "a program" if given == "program" else ada
    with audit.acting(ada if given == "acting" else None):
        more = {"actor": actor} if given in ("actor", "program") else {}
        added = sharing.add_participant(planted.session.pk, bob, "reader", **more)
        link, _token = sharing.create_link(planted.session.pk, timedelta(minutes=1), **more)

    event = AuditEvent.objects.filter(action="participant_added").latest("id")
    expected = {"program": "a program", "nothing": ""}.get(given, str(ada.pk))
    assert {added.added_by, link.created_by, event.actor_id or event.actor} == {expected}


def test_a_link_is_made_once_shown_once_and_revoked(planted, api, settings):
    url = f"/api/sessions/{planted.session.pk}/links/"
    made = api.post(url, {"seconds": 60}, format="json").json()
    token = made["url"].rstrip("/").rpartition("/")[2]
    assert len(token) > 40
    assert token not in str(list(ShareLink.objects.values()) + list(AuditEvent.objects.values()))
    assert "url" not in api.get(url).json()["results"][-1]
    assert APIClient().get(made["url"]).status_code == 200
    most = settings.AGENT_SESSIONS.get("SHARE_LINK_SECONDS", 30 * 24 * 3600)
    for seconds in (0, -1, most + 1, "60", None):
        assert api.post(url, {"seconds": seconds}, format="json").status_code == 400
    assert api.post(url, {}, format="json").status_code == 400
    assert api.delete(f"{url}{made['id']}/").status_code == 204
    assert APIClient().get(made["url"]).status_code == 404
    assert api.delete(f"{url}{made['id']}/").status_code == 404
    settings.AGENT_SESSIONS = {}
    assert api.post(url, {"seconds": 60}, format="json").status_code == 409
    assert APIClient().get(f"/api/shared/{TOKEN}/").status_code == 404


# --- what a link shows -----------------------------------------------------------------------


@pytest.fixture
def url(planted) -> str:
    return f"/api/shared/{TOKEN}/"


def test_a_link_shows_the_conversation_and_nothing_else_to_anybody(planted, url, ada, bob):
    for client in (APIClient(), client_of(bob), client_of(ada)):
        trail = {event.pk for event in recorded()}
        answer = client.get(url)
        assert answer.status_code == 200
        assert seen_in(body_of(answer)) == {"plantedtitle", *SAID}
        assert GONE not in body_of(answer)
        [event] = [event for event in recorded() if event.pk not in trail]
        assert (event.action, event.session, event.actor_id) == ("read", planted.session.pk, "")
        assert event.details["via"] == "link"
        assert event.details["link"] == str(planted.link.pk)
        for name, value in {
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Robots-Tag": "noindex",
        }.items():
            assert value in answer.headers[name]
    [part] = [part for part in answer.json()["results"][0]["parts"] if part["url"]]
    assert APIClient().get(part["url"]).content[1:4] == b"PNG"


def test_a_link_serves_no_file_of_a_message_that_was_rewound_away(planted, url, ada):
    store = SessionStore(owner=ada)
    agent = store.agents.list(store.get("planted"))[0]
    image = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
    store.append(agent, {"role": "user", "content": [{"text": "another"}, image]})
    messages = APIClient().get(url).json()["results"]
    kept, left = (part["url"] for row in messages for part in row["parts"] if part["url"])
    assert APIClient().get(left).status_code == 200
    store.branches.rewind(agent, 0)

    assert len(APIClient().get(url).json()["results"]) == 1
    trail = recorded()
    gone = APIClient().get(left)
    missing = APIClient().get(MEDIA.format(SessionMessage().pk))
    assert (gone.status_code, gone.content) == (404, missing.content)
    assert recorded() == trail
    assert APIClient().get(kept).status_code == 200


def test_a_page_of_a_link_has_no_script_and_escapes_what_was_said(planted, url):
    hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    Session.objects.update(title=hostile)
    answer = APIClient().get(url, headers={"accept": "text/html,*/*;q=0.8"})
    page = body_of(answer)
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    assert "plantedtext" in page
    assert "<script" not in page
    assert "<img src=x" not in page
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    missing = APIClient().get("/api/shared/x/", headers={"accept": "text/html"})
    assert (missing.status_code, missing["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "default-src 'none'" in missing["Content-Security-Policy"]


INVALID = {
    "expired": lambda link: ShareLink.objects.update(expires_at=timezone.now()),
    "revoked": lambda link: sharing.revoke_link(link.session_id, link.pk),
    "its session is being deleted": lambda link: Session.objects.update(
        namespace=TOMBSTONE_NAMESPACE
    ),
    "its session was deleted": lambda link: Session.objects.all().delete(),
    "another token": lambda link: ShareLink.objects.update(token_hash="x" * 64),
}


@pytest.mark.parametrize("what", INVALID)
def test_a_link_that_is_not_valid_is_as_one_that_never_was(planted, url, what):
    never = [
        APIClient().get("/api/shared/never/"),
        APIClient().get(f"/api/shared/never/messages/{planted.messages[0].pk}/media/?path={IMAGE}"),
    ]
    INVALID[what](planted.link)
    trail = recorded()
    now = [APIClient().get(url), APIClient().get(MEDIA.format(planted.messages[0].pk))]
    for one, other in zip(now, never, strict=True):
        assert (one.status_code, one.content) == (404, other.content)
        assert dict(one.headers) == dict(other.headers)
    assert recorded() == trail


def test_a_link_reads_only_and_only_its_own_session(planted, url, bob, ada):
    before = rows()
    other = Session.objects.create(session_id="other", owner=ada)
    for method in METHODS:
        if method not in ("get", "head", "options"):
            for path in (url, MEDIA.format(planted.messages[0].pk)):
                assert ask(APIClient(), method, path.partition("?")[0]).status_code == 405
    other.delete()
    assert rows() == before
    sharing.create_link(planted.session.pk, timedelta(seconds=9))
    for scope in ("all", "shared", "x"):
        assert APIClient().get(url, {"scope": scope}).json()["results"][0]["session"] == str(
            planted.session.pk
        )
    for name in ("raw", "q", "agent"):
        assert APIClient().get(url, {name: "true"}).status_code == 400
    # A token is a key to nothing else.
    for one in EVERY_ASK:
        if one.route not in (*OPEN_TO_ALL, *BY_LINK):
            client = APIClient(HTTP_AUTHORIZATION=f"Bearer {TOKEN}")
            answer = ask(client, one.method, planted.url(one.route), dict(one.query), one.body)
            assert answer.status_code in (401, 403)
    assert APIClient().get(MEDIA.format(SessionMessage().pk)).status_code == 404


def test_a_link_is_limited_by_the_readers_address(planted, url, monkeypatch):
    from django.core.cache import cache

    from django_agent_sessions.rest import base

    cache.clear()
    rates = {**DEFAULT_RATES, "agent-sessions-shared": "2/min"}
    monkeypatch.setattr(base, "DEFAULT_RATES", rates)
    codes = [APIClient().get(url).status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    assert APIClient(REMOTE_ADDR="10.0.0.2").get(url).status_code == 200
    cache.clear()


def test_a_link_is_limited_for_all_addresses_together(planted, url, monkeypatch):
    from django.core.cache import cache

    from django_agent_sessions.rest import base

    cache.clear()
    monkeypatch.setattr(base, "DEFAULT_RATES", {**DEFAULT_RATES, "agent-sessions-link": "2/min"})
    clients = [APIClient(REMOTE_ADDR=f"10.0.0.{number}") for number in range(3)]
    before = AuditEvent.objects.count()
    assert [client.get(url).status_code for client in clients] == [200, 200, 429]
    assert AuditEvent.objects.count() == before + 2
    # A guess at a token is not counted.
    guess = f"{url.removesuffix('/')}x/"
    assert [client.get(guess).status_code for client in clients] == [404, 404, 404]
    cache.clear()


def test_guesses_at_a_link_leave_no_entries_in_the_cache(planted, url, monkeypatch):
    from django.core.cache import cache

    kept: list[str] = []
    monkeypatch.setattr(cache, "set", lambda key, *values: kept.append(key))
    for number in range(5):
        APIClient().get(f"{url.removesuffix('/')}{number}/")
    assert set(kept) == {"throttle_agent-sessions-shared_127.0.0.1"}


def test_the_pages_of_a_link_follow_each_other(planted, url):
    first = APIClient().get(url, {"limit": 2}).json()
    second = APIClient().get(first["next"]).json()
    assert [row["position"] for row in first["results"] + second["results"]] == [0, 1, 2, 3]


# --- streams, pages and commands -------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_stream_of_a_participant_ends_with_the_part(trip, bob, monkeypatch):
    from django_agent_sessions.rest.events import SessionEventsView

    monkeypatch.setattr(SessionEventsView, "check_seconds", 0.1)
    browser = Client()
    browser.force_login(bob)
    url = f"/api/sessions/{trip.session.id}/events/"
    assert browser.get(url).status_code == 404
    sharing.add_participant(trip.session.id, bob, "reader")
    answer: Any = browser.get(url, {"from": "start"})
    pieces = iter(answer.streaming_content)
    read = b""
    while b"Thanks." not in read:
        read += next(pieces)
    sharing.remove_participant(trip.session.id, bob)
    trip.say(said("user", "not for Bob"))
    rest = b"".join(pieces)
    answer.close()
    assert b"not for Bob" not in rest
    assert b'"gone"' in rest
    assert AuditEvent.objects.filter(action="read", actor_id=str(bob.pk)).count() == 1


COMMANDS = {name for name, app in get_commands().items() if app == "django_agent_sessions"}
"""Whoever may run a command on the server reaches everything: commands ask no rule."""


def test_no_command_takes_a_viewer():
    from django.core.management import load_command_class

    assert COMMANDS
    for name in COMMANDS:
        parser = load_command_class("django_agent_sessions", name).create_parser("manage.py", name)
        options = {option for action in parser._actions for option in action.option_strings}
        assert not options & {"--viewer", "--as-user", "--participant"}, name


def test_nobody_takes_part_without_a_key(planted):
    anonymous = AnonymousUser()
    unsaved = get_user_model()(username="unsaved")
    for user in (anonymous, unsaved):
        with pytest.raises(Exception, match="anonymous or unsaved"):
            sharing.add_participant(planted.session.pk, user, "reader")


@pytest.mark.django_db(transaction=True)
def test_a_chat_is_read_by_a_reader_and_written_by_a_writer(trip, ada, bob, settings):
    settings.ROOT_URLCONF = "tests.rest.chat.ai_sdk.urls"
    browser = Client()
    browser.force_login(bob)
    key = str(trip.session.id)
    url, body = f"/strands/{key}", {"id": key, "message": ui_message("And Porto?")}

    def send() -> Any:
        return browser.post("/strands", body, content_type="application/json")

    sharing.add_participant(trip.session.id, bob, "reader")
    assert b"Lisbon" in browser.get(f"{url}/messages").content
    assert browser.get(f"{url}/stream").status_code == 204
    before = rows()
    assert send().status_code == 403
    assert browser.post(f"{url}/stop").status_code == 403
    assert rows() == before
    sharing.add_participant(trip.session.id, bob, "writer")
    answer = send()
    assert answer.status_code == 200
    assert b"data:" in b"".join(answer.streaming_content)
    texts = SessionMessage.objects.filter(session=trip.session.id).values_list("text", flat=True)
    assert "And Porto?" in list(texts)
    assert Session.objects.count() == 1
    assert browser.post(f"{url}/stop").status_code == 204
    sharing.remove_participant(trip.session.id, bob)
    assert b"Lisbon" not in browser.get(f"{url}/messages").content


def ui_message(text: str) -> dict[str, Any]:
    return {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}


def test_a_shared_thread_of_assistant_ui_is_continued_by_a_writer(trip, bob, settings):
    settings.ROOT_URLCONF = "django_agent_sessions.rest.chat.assistant_ui.urls"
    client = client_of(bob)
    url = f"/v1/threads/{trip.session.id}"
    content = {"role": "user", "parts": [{"type": "text", "text": "And Porto?"}]}
    message = {"parent_id": None, "format": "ai-sdk/v6", "content": content}
    for role, status in ((None, 404), ("reader", 404), ("writer", 200)):
        if role:
            sharing.add_participant(trip.session.id, bob, role)
        reads = 404 if role is None else 200
        assert client.get(url).status_code == client.get(f"{url}/messages").status_code == reads
        sent = client.post(f"{url}/messages", message, format="json")
        assert sent.status_code == status
        assert client.put(url, {"title": "Bob's"}, format="json").status_code == 404
        assert client.delete(url).status_code == 404
    assert client.get("/v1/threads").json() == {"threads": []}
    key = sent.json()["message_id"]
    changed = client.put(f"{url}/messages/{key}", {"content": content}, format="json")
    assert changed.status_code == 404


def test_a_fork_and_an_export_have_no_participants_and_no_links(planted, api):
    url = f"/api/sessions/{planted.session.pk}/"
    fork = api.post(f"{url}fork/", {}, format="json").json()
    assert not Participant.objects.filter(session=fork["id"]).exists()
    assert not ShareLink.objects.filter(session=fork["id"]).exists()
    text = body_of(api.get(f"{url}export/", {"as": "jsonl"}))
    for secret in (TOKEN, planted.link.token_hash, str(planted.participant.user_id)):
        assert secret not in text


@pytest.mark.parametrize("large", [False, True])
def test_what_is_shared_goes_with_the_session_and_with_the_user(planted, monkeypatch, large):
    from django_agent_sessions.models import deletion

    Participant.objects.create(session=Session.objects.create(), user=planted.participant.user)
    if large:
        # The first batch of its messages makes it a tombstone.
        monkeypatch.setattr(deletion, "MAX_MESSAGES", 1)
        monkeypatch.setattr(deletion, "can_commit_batches", lambda using: True)
    planted.session.delete()
    assert not ShareLink.objects.exists()
    assert Participant.objects.count() == 1
    planted.participant.user.delete()
    assert not Participant.objects.exists()


def test_code_of_a_project_gets_the_owner_of_a_session_that_a_user_reaches(planted, ada, bob):
    from django_agent_sessions.exceptions import SessionNotFoundError
    from django_agent_sessions.values.owners import NOBODY

    row, reader = planted.session, planted.participant.user
    root = get_user_model().objects.create_superuser("root")
    assert sharing.owner_for(ada, row) == ada.pk
    assert sharing.owner_for(reader, row, write=False) == ada.pk
    assert sharing.owner_for(root, row, write=False) == ada.pk
    asked: list[tuple[Any, dict[str, bool]]] = [(reader, {}), (reader, {"write": True})]
    asked += [(root, {}), (bob, {"write": False}), (AnonymousUser(), {"write": False})]
    for user, write in asked:
        with pytest.raises(SessionNotFoundError) as told:
            sharing.owner_for(user, row, **write)
        assert ("write=False" in str(told.value)) == write.get("write", True)
    sharing.add_participant(row.pk, bob, "writer")
    assert sharing.owner_for(bob, row) == ada.pk
    Session.objects.update(owner=None)
    assert sharing.owner_for(bob, Session.objects.get()) is NOBODY
