"""One read for all who wait for the same, and nothing for those who may not see it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore as BrowserSession
from django.core.exceptions import PermissionDenied
from django.db import connection, connections
from django.test import Client, RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from rest_framework.permissions import BasePermission
from rest_framework.test import force_authenticate

from django_agent_sessions.db import bridge
from django_agent_sessions.events import reading
from django_agent_sessions.events.cursor import Cursor
from django_agent_sessions.events.hub import watch_session
from django_agent_sessions.models import Session
from django_agent_sessions.rest import event_rendering, shared_reads
from django_agent_sessions.rest.events import SessionEventsView
from django_agent_sessions.rest.login_check import LoginCheck
from django_agent_sessions.rest.open_streams import EndReason, OpenStream
from django_agent_sessions.rest.shared_reads import Events, read_stream
from tests.admin.people import grant
from tests.grouping import together as grouped

from .conftest import Speaking, payload

pytestmark = pytest.mark.django_db(transaction=True)


def stream_of(
    talk: Speaking,
    user: Any,
    *,
    view: type[SessionEventsView] = SessionEventsView,
    browser: Client | None = None,
    token: Any = None,
    **query: str,
) -> OpenStream:
    """Open a stream as a request of a user does."""
    request: Any = RequestFactory().get("/", query)
    if browser is None:
        force_authenticate(request, user, token)
    else:
        request.user = user
        request.session = BrowserSession(browser.cookies["sessionid"].value)
    opened = view()
    opened.args, opened.kwargs = (), {"session": str(talk.id)}
    opened.request = opened.initialize_request(request)
    if browser is not None:
        opened.request.user, opened.request.auth = user, None
    opened.request.resolver_match = None
    return OpenStream(opened, Session.objects.get(pk=talk.id), LoginCheck(opened.request))


def now(talk: Speaking) -> Cursor:
    cursor = reading.current_cursor(Session.objects.get(pk=talk.id))
    assert cursor is not None
    return cursor


def together(asked: list[tuple[OpenStream, Cursor]]) -> list[Any]:
    """What streams get that ask at the same time."""

    async def work() -> list[Any]:
        reads = (read_stream(*each) for each in asked)
        return await asyncio.gather(*reads, return_exceptions=True)

    return asyncio.run(work())


def statements_of(asked: list[tuple[OpenStream, Cursor]]) -> int:
    async def work() -> int:
        def read() -> int:
            with CaptureQueriesContext(connection) as queries:
                found = shared_reads._read_batch(requests, "default")
            assert all(isinstance(each, Events) and each.text for each in found)
            return len(queries)

        loop = asyncio.get_running_loop()
        requests = [shared_reads._Request(*each, loop.create_future()) for each in asked]
        return await bridge.run_reading(read, using="default")

    return asyncio.run(work())


def test_many_streams_of_a_session_take_the_statements_of_one(talk, ada):
    cursor = now(talk)
    talk.say("Hello")
    one = statements_of([(stream_of(talk, ada), cursor)])
    many = statements_of([(stream_of(talk, ada), cursor) for _ in range(30)])
    assert many == one <= 8


def test_streams_of_many_sessions_take_few_statements(ada):
    talks = [Speaking(ada, f"talk {number}") for number in range(30)]
    asked = [(stream_of(talk, ada), now(talk)) for talk in talks]
    for talk in talks:
        talk.say("Hello")
    assert statements_of(asked) <= 9


def test_streams_at_the_same_place_send_the_same_text(talk, ada):
    cursor = now(talk)
    talk.say("Hello")
    first, second = together([(stream_of(talk, ada), cursor) for _ in range(2)])
    assert first is second
    assert b"Hello" in first.text


def test_streams_at_different_places_send_what_each_has_not_sent(talk, ada):
    early = now(talk)
    talk.say("one")
    late = now(talk)
    talk.say("two")
    first, second = together([(stream_of(talk, ada), early), (stream_of(talk, ada), late)])
    assert first.text.count(b"event: message") == 2
    assert second.text.count(b"event: message") == 1
    assert first.cursor == second.cursor


def test_nobody_gets_what_was_rendered_for_somebody_with_other_rights(talk, ada, bob):
    carl = get_user_model().objects.create_user("carl")
    grant(bob, "view_session", "read_transcript")
    grant(carl, "view_session", "read_transcript")
    dora = get_user_model().objects.create_user("dora")
    cursor = now(talk)
    talk.say("a secret")
    streams = {
        "owner": stream_of(talk, ada),
        "staff": stream_of(talk, bob, scope="all"),
        "staff, own only": stream_of(talk, bob),
        "was staff": stream_of(talk, carl, scope="all"),
        "nobody": stream_of(talk, dora),
        "nobody, all": stream_of(talk, dora, scope="all"),
    }
    carl.user_permissions.clear()
    for order in (list(streams), list(reversed(streams))):
        found = dict(zip(order, together([(streams[k], cursor) for k in order]), strict=True))
        assert b"a secret" in found["owner"].text
        assert b"a secret" in found["staff"].text
        for refused in ("staff, own only", "was staff", "nobody", "nobody, all"):
            assert found[refused] is EndReason.GONE, refused


def test_links_to_binaries_are_those_of_each_scope(talk, ada, bob, settings):
    grant(ada, "view_session", "read_transcript")
    own, everybody = stream_of(talk, ada), stream_of(talk, ada, scope="all")
    own.media_url, everybody.media_url = "/own/{message}/", "/all/{message}/?scope=all"
    cursor = now(talk)
    image = {"format": "png", "source": {"bytes": b"\x89PNG"}}
    talk.store.append(talk.agents["a"], {"role": "user", "content": [{"image": image}]})
    first, second = together([(own, cursor), (everybody, cursor)])
    assert b"/own/" in first.text
    assert b"/all/" not in first.text
    assert b"/all/" in second.text


def test_a_logout_ends_one_stream_and_no_other(talk, ada):
    browsers = [Client(), Client()]
    for browser in browsers:
        browser.force_login(ada)
    left, stays = (stream_of(talk, ada, browser=browser) for browser in browsers)
    cursor = now(talk)
    browsers[0].logout()
    talk.say("Hello")
    ended, goes_on = together([(left, cursor), (stays, cursor)])
    assert ended is EndReason.LOGIN
    assert b"Hello" in goes_on.text


def test_a_session_that_changed_hands_is_told_to_its_new_owner_only(talk, ada, bob):
    before, cursor = stream_of(talk, ada), now(talk)
    Session.objects.filter(pk=talk.id).update(owner=bob)
    ended, his = together([(before, cursor), (stream_of(talk, bob), cursor)])
    assert ended is EndReason.GONE
    assert isinstance(his, Events)


def test_who_asks_while_others_are_read_for_gets_no_secret_that_was_redacted_since(
    talk, ada, monkeypatch
):
    cursor = now(talk)
    talk.say("a secret")
    early, late = stream_of(talk, ada), stream_of(talk, ada)
    render = event_rendering.render_batch

    async def work() -> list[Any]:
        loop, asked = asyncio.get_running_loop(), asyncio.Event()

        def redacted_meanwhile(*given: Any) -> bytes:
            text = render(*given)
            if not asked.is_set():
                talk.redact(0)
                connections.close_all()
                loop.call_soon_threadsafe(asked.set)
            return text

        monkeypatch.setattr(shared_reads, "render_batch", redacted_meanwhile)
        first = asyncio.create_task(read_stream(early, cursor))
        await asked.wait()
        return [await read_stream(late, cursor), await first]

    second, first = asyncio.run(work())
    assert b"a secret" not in second.text
    assert b"***" in second.text
    following = together([(early, first.cursor)])[0]
    assert b"redacted" in following.text


class ByHeader(SessionEventsView):
    """A project's view, which reaches sessions by something else in the request."""

    allowed = True

    def accessible_sessions(self, **few: Any) -> Any:
        found = super().accessible_sessions(**few)
        return found if self.request.query_params.get("door") == "open" else found.none()


def test_a_view_with_a_rule_of_its_own_decides_for_each_of_its_streams(talk, ada):
    cursor = now(talk)
    talk.say("Hello")
    opened = stream_of(talk, ada, view=ByHeader, door="open")
    closed = stream_of(talk, ada, view=ByHeader, door="closed")
    first, second, third = together([(opened, cursor), (closed, cursor), (opened, cursor)])
    assert b"Hello" in first.text
    assert second is EndReason.GONE
    assert b"Hello" in third.text


def _is_kept(loop: weakref.ref[Any]) -> bool:
    gc.collect()
    return loop() is not None


class Failing(BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        if "fails" in request.query_params:
            raise RuntimeError
        if "denied" in request.query_params:
            raise PermissionDenied
        return True


class Fragile(SessionEventsView):
    permission_classes = (Failing,)


def test_an_error_of_one_stream_is_not_one_of_the_others(talk, ada):
    cursor = now(talk)
    talk.say("Hello")
    queries: list[dict[str, Any]] = [{"fails": "1"}, {"denied": "1"}, {}]
    asked = [(stream_of(talk, ada, view=Fragile, **query), cursor) for query in queries]
    failed, denied, fine = together(asked)
    assert isinstance(failed, RuntimeError)
    assert denied is EndReason.GONE
    assert b"Hello" in fine.text


class Claimed:
    """A user that a token describes, with the rights that it names."""

    is_authenticated = is_active = True

    def __init__(self, pk: Any, *permissions: str) -> None:
        self.pk = pk
        self.permissions = permissions

    def has_perms(self, wanted: list[str]) -> bool:
        return all(each.partition(".")[2] in self.permissions for each in wanted)


def test_two_tokens_of_a_user_with_different_rights_share_no_access(talk, bob):
    cursor = now(talk)
    talk.say("Hello")
    reader = Claimed(bob.pk, "view_session", "read_transcript")
    streams = [
        stream_of(talk, user, token="signed", scope="all") for user in (reader, Claimed(bob.pk))
    ]
    for one, other in (streams, streams[::-1]):
        found = together([(one, cursor), (other, cursor)])
        reads, gone = found if one is streams[0] else found[::-1]
        assert b"Hello" in reads.text
        assert gone is EndReason.GONE


def test_a_stream_that_is_closed_meanwhile_takes_nothing_from_the_others(talk, ada):
    cursor = now(talk)
    talk.say("Hello")
    streams = [stream_of(talk, ada) for _ in range(3)]

    loops: list[weakref.ref[Any]] = []

    async def work() -> list[Any]:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        tasks = [asyncio.create_task(read_stream(each, cursor)) for each in streams]
        await asyncio.sleep(0)
        tasks[0].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert shared_reads._readers[asyncio.get_running_loop()] == {}
        assert len(asyncio.all_tasks()) == 1
        return found

    closed, *others = asyncio.run(work())
    assert isinstance(closed, asyncio.CancelledError)
    assert all(b"Hello" in each.text for each in others)
    del closed
    deadline = time.monotonic() + 10
    # The thread that read may still be about to forget the loop that it woke.
    while _is_kept(loops[0]):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_under_a_set_up_of_connections_each_stream_is_read_in_its_own_context(talk, ada):
    cursor = now(talk)
    talk.say("Hello")
    streams = [(stream_of(talk, ada), cursor) for _ in range(2)]
    with override_settings(AGENT_SESSIONS={"CONNECTION_SETUP": f"{__name__}.nothing"}):
        first, second = together(streams)
    assert first is not second
    assert first == second


def nothing(connection: Any) -> Any:
    return nullcontext()


def test_what_this_process_writes_is_noticed_without_a_poll(talk):
    async def work() -> None:
        with watch_session(talk.id) as watch:
            # The first look.
            assert await watch.happened(10)
            await bridge.run_async(lambda: talk.say("Hello"), using="default")
            assert await watch.happened(10)

    with override_settings(AGENT_SESSIONS={"EVENTS_POLL_SECONDS": 1000}):
        asyncio.run(work())


@pytest.mark.parametrize("most", [1, 2, 8])
def test_a_write_does_not_wait_for_a_read_if_there_may_be_two_connections(most: int):
    reading_now, written = threading.Event(), threading.Event()

    def read() -> bool:
        reading_now.set()
        return written.wait(10 if most > 1 else 0.2)

    async def work() -> bool:
        reads = asyncio.create_task(bridge.run_reading(read, using="default"))
        await asyncio.to_thread(reading_now.wait)
        await bridge.run_async(written.set, using="default")
        return await reads

    with override_settings(AGENT_SESSIONS={"MAX_CONNECTIONS": most}):
        assert asyncio.run(work()) is (most > 1)
        assert bridge._own_pool.size + bridge._reading_pool.size <= max(most, 2)


def test_messages_of_a_group_reach_the_stream_of_each_once_and_in_order(ada):
    talks = [Speaking(ada, f"talk {number}") for number in range(3)]
    streams = [stream_of(talk, ada) for talk in talks]
    cursors = [now(talk) for talk in talks]

    async def work() -> list[list[bytes]]:
        told: list[list[bytes]] = [[] for _ in talks]
        with ExitStack() as watching:
            watches = [watching.enter_context(watch_session(talk.id)) for talk in talks]
            for watch in watches:
                # The first look.
                assert await watch.happened(10)
            for text in ("one", "two"):
                await grouped(
                    *(
                        talk.store.aappend(talk.agents["a"], payload(f"{text} of {talk.id}"))
                        for talk in talks
                    )
                )
                for index, watch in enumerate(watches):
                    assert await watch.happened(10)
                    found = await read_stream(streams[index], cursors[index])
                    assert isinstance(found, Events)
                    told[index].append(found.text)
                    cursors[index] = found.cursor
        return told

    with override_settings(AGENT_SESSIONS={"MAX_CONNECTIONS": 1}):
        told = asyncio.run(work())
    for talk, texts in zip(talks, told, strict=True):
        assert [text.count(b"event: message") for text in texts] == [1, 1]
        assert [
            f"{word} of {talk.id}".encode() in text
            for word, text in zip(("one", "two"), texts, strict=True)
        ] == [True, True]
