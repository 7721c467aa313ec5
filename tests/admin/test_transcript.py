"""The page of a session, as those see it who may read, and those who may not."""

from __future__ import annotations

import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.views.debug import ExceptionReporter

from django_agent_sessions import audit, windows
from django_agent_sessions.admin.transcript import heads
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.models import (
    AuditEvent,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.records import AgentState
from django_agent_sessions.transcripts import STRANDS
from tests.test_fields import set_raw

from .people import staff
from .transcripts import call, fragment_url, page_url, result, said, shown

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client):
    user = staff("reader", "view_session", "read_transcript")
    client.force_login(user)
    return user


@pytest.fixture
def talker(session, store):
    """An agent of a Strands session."""
    return store.open_agent(session, "planner", dialect=STRANDS)


def test_a_conversation_is_read_in_order_with_its_roles_and_agents(client, reader, talker, store):
    other = store.open_agent(store.open("session-1"), "helper", dialect=STRANDS)
    store.append(talker, said("user", "first words"))
    store.append(other, said("assistant", "second words"))
    store.append(talker, said("assistant", "third words"))

    page = shown(client, page_url("session-1"))

    places = [page.index(f"{number} words") for number in ("first", "second", "third")]
    assert places == sorted(places)
    for label in ("User", "Assistant", "planner", "helper"):
        assert label in page


def test_a_call_and_its_result_are_on_one_line_with_name_status_and_duration(
    client, reader, talker, store
):
    store.append(talker, said("assistant", call("1", "search", query="lamp"), call("2", "fetch")))
    store.append(talker, said("user", result("1", "three lamps"), result("2", "gone", "error")))
    first = SessionMessage.objects.get(message_id=0)
    SessionMessage.objects.filter(message_id=1).update(
        created_at=first.created_at + timedelta(seconds=7)
    )

    page = shown(client, page_url("session-1"))

    search, fetch = re.findall(r'<details class="as-call.*?</details>\s*(?=<|$)', page, re.S)[:2]
    assert "search" in search
    assert "7.0 s" in search
    assert "ok</span>" in search
    assert 'data-as-call="1">' in search  # closed
    assert "three lamps" in page
    assert re.search(r'data-as-call="2" open', page)
    assert "error</span>" in fetch
    assert page.count("three lamps") == 1


def test_a_call_without_result_and_a_result_without_call_say_so(client, reader, talker, store):
    store.append(talker, said("user", result("9", "from nowhere")))
    store.append(talker, said("assistant", call("1", "search")))

    page = shown(client, page_url("session-1"))

    assert "no result" in page
    assert "a result without a call" in page
    assert "from nowhere" in page


def test_the_other_half_of_a_call_may_be_in_another_part(client, reader, talker, store):
    store.append(talker, said("assistant", call("1", "search")))
    store.append_many(talker, [said("user", "filler")] * 60)
    store.append(talker, said("user", result("1", "late")))

    assert "its call is in an earlier part" in shown(client, page_url("session-1"))
    assert "result in a later part" in shown(client, page_url("session-1"), **{"from": "start"})


def test_many_calls_in_a_row_are_folded_under_one_line(client, reader, talker, store):
    calls = [call(str(number), "search" if number else "fetch") for number in range(5)]
    store.append(talker, said("assistant", *calls))

    page = shown(client, page_url("session-1"))

    assert "5 tool calls" in page
    assert "search ×4, fetch" in page


def test_calls_of_several_items_are_folded_too(client, reader, session, store):
    agent = store.open_agent(session)
    for number in range(3):
        store.append(
            agent,
            {"type": "function_call", "call_id": str(number), "name": "f", "arguments": "{}"},
        )
        store.append(
            agent, {"type": "function_call_output", "call_id": str(number), "output": "done"}
        )
    store.append(agent, {"type": "function_call", "call_id": "x", "name": "g", "arguments": "{}"})

    assert "4 tool calls" in shown(client, page_url("session-1"))


def test_a_window_shows_fifty_messages_and_leads_both_ways(client, reader, talker, store):
    store.append_many(talker, [said("user", f"<{number}>") for number in range(200)])
    keys = list(SessionMessage.objects.order_by("message_id").values_list("pk", flat=True))

    def numbers(**query):
        page = shown(client, page_url("session-1"), **query)
        return [int(found) for found in re.findall(r"&lt;(\d+)&gt;", page)]

    assert numbers() == list(range(150, 200))
    assert numbers(**{"from": "start"}) == list(range(50))
    assert numbers(at=keys[100]) == list(range(75, 125))
    assert numbers(before=keys[75]) == list(range(25, 75))
    assert numbers(after=keys[124]) == list(range(125, 175))
    assert numbers(all=1) == list(range(200))
    agent = SessionAgent.objects.get()
    assert numbers(agent=agent.pk, at=keys[100]) == list(range(75, 125))
    assert numbers(agent=agent.pk, before=keys[75]) == list(range(25, 75))
    assert numbers(agent=agent.pk, after=keys[124]) == list(range(125, 175))
    assert numbers(agent=agent.pk) == list(range(150, 200))


def test_further_messages_come_without_the_rest_of_the_page(client, reader, talker, store):
    store.append_many(talker, [said("user", f"<{number}>") for number in range(60)])
    key = SessionMessage.objects.get(message_id=10).pk

    answer = client.get(fragment_url("session-1"), {"before": key})

    text = answer.content.decode()
    assert [int(found) for found in re.findall(r"&lt;(\d+)&gt;", text)] == list(range(10))
    assert "<html" not in text
    assert "data-as-earlier" not in text
    assert "no-store" in answer["Cache-Control"]


def test_one_agent_can_be_read_alone(client, reader, talker, store):
    other = store.open_agent(store.open("session-1"), "helper", dialect=STRANDS)
    store.append(talker, said("user", "for the planner"))
    store.append(other, said("user", "for the helper"))

    page = shown(client, page_url("session-1"), agent=other.id)

    assert "for the helper" in page
    assert "for the planner" not in page
    assert client.get(page_url("session-1"), {"agent": str(uuid4())}).status_code == 404
    assert client.get(page_url("session-1"), {"agent": "nonsense"}).status_code == 404
    assert client.get(page_url("session-1"), {"at": "nonsense"}).status_code == 404


def test_fifty_and_ten_thousand_messages_take_the_same_statements(client, reader, store):
    def open_pages(name: str, count: int) -> list[int]:
        agent = store.open_agent(store.open(name), dialect=STRANDS)
        for start in range(0, count, 200):
            batch = [said("user", f"{number}") for number in range(start, min(start + 200, count))]
            store.append_many(agent, batch)
        keys = SessionMessage.objects.filter(agent=agent.id).order_by("message_id")
        middle = keys[count // 2].pk
        found = []
        for query in ({}, {"at": middle}, {"at": middle, "agent": agent.id}, {"from": "start"}):
            with CaptureQueriesContext(connection) as captured:
                shown(client, page_url(name), **query)
            found.append(len(captured))
        with CaptureQueriesContext(connection) as captured:
            shown(client, fragment_url(name), before=middle)
        return [*found, len(captured)]

    shown(client, page_url(open_one(store)))
    few = open_pages("few", 50)

    assert open_pages("many", 10_000) == few
    assert max(few) <= 20


def open_one(store) -> str:
    """A first request also reads the user's permissions and the like into caches."""
    store.open("another")
    return "another"


@pytest.fixture
def sizes_read(monkeypatch):
    """The lengths of all texts that come out of the database."""
    sizes: list[int] = []
    original = CursorWrapper.__getattr__

    def measured(rows):
        for row in rows:
            sizes.extend(len(value) for value in row if isinstance(value, str | bytes))
            yield row

    def attribute(cursor, name):
        found = original(cursor, name)
        if name in ("fetchmany", "fetchall"):
            # Of the same type, by which Django tells the end.
            return lambda *args: type(rows := found(*args))(measured(rows))
        if name == "fetchone":
            return lambda: next(measured(row for row in [found()] if row is not None), None)
        return found

    monkeypatch.setattr(CursorWrapper, "__getattr__", attribute)
    monkeypatch.setattr(CursorWrapper, "__iter__", lambda cursor: measured(cursor.cursor))
    return sizes


def test_a_message_of_36_mb_never_leaves_the_database(client, reader, talker, store, sizes_read):
    # MariaDB takes no statement of 36 MB.
    lines, size = (900_000, "35.2") if connection.vendor != "mysql" else (300_000, "11.7")
    words = "a log line that nobody reads to its end\n" * lines
    store.append(talker, said("user", "before it"))
    store.append(talker, said("user", f"how it begins {words}"))
    sizes_read.clear()
    page = shown(client, page_url("session-1"))

    assert sum(sizes_read) < 300_000
    assert max(sizes_read) >= windows.HEAD
    assert "how it begins" in page
    assert f"This message is {size}\xa0MB" in page
    assert "before it" in page
    assert len(page) < 200_000


def test_all_payloads_of_a_page_have_a_bound_together(client, reader, talker, store):
    for number in range(8):
        store.append(talker, said("user", f"message {number} " + "word " * 180_000))

    page = shown(client, page_url("session-1"))

    assert page.count("the page shows how it begins") == 4
    for number in range(8):
        assert f"message {number} " in page


def test_a_long_text_is_cut_and_can_be_shown_whole(client, reader, talker, store):
    store.append(talker, said("user", "x" * 30_000 + " the end"))

    page = shown(client, page_url("session-1"))
    [link] = re.findall(r'href="([^"]*/text/\?path=[^"]*)"', page)

    assert "the end" not in page
    assert "30008" in page.replace(",", "")
    whole = client.get(link)
    assert whole.content.decode().endswith(" the end")
    assert whole["Content-Type"].startswith("text/plain")
    assert whole["X-Content-Type-Options"] == "nosniff"


def test_corrupt_and_unknown_payloads_are_shown_as_such(client, reader, talker, session, store):
    store.append(talker, said("user", "to be broken"))
    strange = store.open_agent(session, "strange", dialect="telepathy")
    store.append(strange, {"thought": "a thought"})
    store.append(strange, None)
    store.append(strange, "only \ud800 text \x00")
    set_raw(0, '{"role": "user", "cont')

    page = shown(client, page_url("session-1"))

    assert page.count("Corrupt: the database holds something that is no message.") == 2
    store.append(strange, {"thought": "another thought"})
    assert "another thought" in shown(client, page_url("session-1"))


def test_who_may_not_see_sessions_finds_nothing(client, talker, store):
    store.append(talker, said("user", "secret"))
    client.force_login(staff("nobody", "read_transcript"))

    for url in (page_url("session-1"), fragment_url("session-1")):
        assert client.get(url).status_code == 404


def test_who_may_not_read_sees_figures_and_no_content(client, store, ada):
    session = store.open("session-1", title="planted title", metadata={"note": "planted metadata"})
    state = AgentState({"a": "planted state"}, {"b": "planted summary"}, {"c": "planted internal"})
    agent = store.open_agent(session, "planner", dialect=STRANDS, data=state)
    store.append(agent, said("user", "planted text"))
    store.append(agent, said("assistant", call("planted-id", "tool", query="planted argument")))
    store.append(agent, said("user", result("planted-id", "planted result")))
    store.create_multi_agent(session, "graph", {"d": "planted graph"}, kind="graph")
    event = audit.record(AuditEvent.Action.REDACTED, session=session.id, reason="planted reason")
    SessionMessage.objects.filter(message_id=0).update(
        redacted_at=timezone.now(), redaction=event.pk
    )
    client.force_login(staff("clerk", "view_session", "redact", "view_original", "export"))

    with CaptureQueriesContext(connection) as captured:
        page = shown(client, page_url("session-1"))
    part = shown(client, fragment_url("session-1"))

    assert "planted" not in page
    assert "planted" not in part
    assert page.count("[hidden]") >= 3
    assert "planner" in page
    assert "session-1" in page
    assert not [query for query in captured if '"title"' in query["sql"].split("FROM")[0]]
    key = SessionMessage.objects.all()[0].pk
    base = page_url("session-1").removesuffix("change/")
    agent_row, url = SessionAgent.objects.get(), f"{base}messages/{key}/"
    for hidden in (
        f"{url}raw/",
        f"{url}media/",
        f"{url}text/",
        f"{url}original/",
        f"{base}states/state/{agent_row.pk}/",
        f"{base}states/metadata/{session.id}/",
    ):
        assert client.get(hidden).status_code == 404
    assert client.post(f"{base}find/", {"query": "planted"}).status_code == 404
    assert not AuditEvent.objects.exclude(pk=event.pk).exists()


def test_reading_is_recorded_unless_it_is_ones_own(client, reader, talker, store):
    store.append_many(talker, [said("user", f"{number}") for number in range(60)])
    keys = [str(key) for key in SessionMessage.objects.order_by("id").values_list("pk", flat=True)]

    shown(client, page_url("session-1"))
    shown(client, fragment_url("session-1"), before=keys[10])

    part, page = AuditEvent.objects.all()
    assert {page.action, part.action} == {AuditEvent.Action.READ}
    assert (page.actor, page.session) == ("reader", talker.session)
    assert page.details == {
        "page": "messages", "first": keys[10], "last": keys[59], "messages": 50
    }  # fmt: skip
    assert part.details["messages"] == 10

    Session.objects.update(owner=reader)
    shown(client, page_url("session-1"))
    assert AuditEvent.objects.count() == 2


def test_reading_what_stands_beside_no_messages_is_recorded_too(client, reader, store):
    store.open("session-1", title="a title", metadata={"note": "a note"})

    page = shown(client, page_url("session-1"))

    assert "a title" in page
    assert "a note" in page
    assert "No messages." in page
    assert AuditEvent.objects.get().details == {"page": "messages", "messages": 0}


def test_a_large_state_of_an_orchestrator_and_a_corrupt_one_are_shown(
    client, reader, talker, session, store
):
    store.create_multi_agent(session, "graph", {"notes": "word " * 20_000}, kind="graph")
    SessionAgent.objects.update(state=CorruptPayload('{"half": '))
    row = SessionMultiAgent.objects.get()
    base = page_url("session-1").removesuffix("change/")

    page = shown(client, page_url("session-1"))

    assert "graph" in page
    assert "word word" not in page
    assert "corrupt: not what was written" in page
    assert "word word" in shown(client, f"{base}states/orchestrator/{row.pk}/")


def test_what_is_too_large_for_a_page_is_only_a_download(
    client, reader, session, store, sizes_read
):
    data = AgentState({"big": "word " * 1_000_000})
    agent = store.open_agent(session, "planner", dialect=STRANDS, data=data)
    store.create_multi_agent(session, "graph", {"notes": "word " * 1_000_000}, kind="graph")
    base = f"{page_url('session-1').removesuffix('change/')}states/"

    for url in (
        f"{base}state/{agent.id}/",
        f"{base}orchestrator/{SessionMultiAgent.objects.get().pk}/",
    ):
        sizes_read.clear()
        assert "download it" in shown(client, url, fragment=1)
        assert sum(sizes_read) < 100_000
        text = shown(client, url)
        assert 200_000 < len(text) < 250_000
        assert "Download it to see the rest" in text
        assert sum(sizes_read) < 300_000
        assert len(shown(client, url, download=1)) > 5_000_000


def test_a_search_of_ones_own_is_not_recorded_and_one_for_nothing_finds_nothing(
    client, reader, talker, store
):
    store.append(talker, said("user", "a needle"))
    url = page_url("session-1").removesuffix("change/") + "find/"
    Session.objects.update(owner=reader)

    assert "1 message found" in client.post(url, {"query": "needle"}).content.decode()
    assert "0 messages found" in client.post(url, {"query": "  "}).content.decode()
    assert not AuditEvent.objects.exists()


def test_what_is_special_about_a_session_is_told(client, reader, talker):
    assert "as-flag-" not in shown(client, page_url("session-1"))

    past = timezone.now() - timedelta(days=1)
    Session.objects.update(
        legal_hold=True, redactions=3, archived_at=past, expires_at=past, namespace="shop"
    )

    page = shown(client, page_url("session-1"))
    for label in ("Legal hold", "Redacted ×3", "Archived", "Expired", "shop"):
        assert label in page


def test_how_often_it_was_redacted_counts_no_rewinds(client, reader, talker, store):
    store.append_many(talker, [said("user", text) for text in ("a", "b", "c")])
    store.rewind(talker, 1)

    assert "as-flag-redacted" not in shown(client, page_url("session-1"))

    store.redact_message(talker, 0, said("user", "[gone]"))
    store.rewind(talker, 0)

    assert "Redacted ×1" in shown(client, page_url("session-1"))


def test_what_is_no_session_is_not_found(client, reader, talker):
    url = page_url("session-1")

    for key in (str(uuid4()), "nonsense"):
        other = url.replace(str(talker.session), key)
        assert client.get(other).status_code == 404


def test_a_way_to_export_is_shown_to_those_who_may(client, reader, talker):
    assert "/export/" not in shown(client, page_url("session-1"))

    client.force_login(staff("exporter", "view_session", "read_transcript", "export"))

    [link] = re.findall(r'href="([^"]*/export/)"', shown(client, page_url("session-1")))
    assert client.get(link).status_code == 200


def test_many_conversations_of_agents_are_told_apart_by_name(client, reader, session, store):
    for number in range(8):
        agent = store.open_agent(session, f"agent-{number}", dialect=STRANDS)
        store.append(agent, said("assistant", "words", call("1", "f")))

    page = shown(client, page_url("session-1"))

    for number in range(8):
        assert page.count(f"agent-{number}") >= 3


def test_of_a_great_many_agents_each_is_read_in_its_own_format(client, reader, session, store):
    SessionAgent.objects.bulk_create(
        SessionAgent(session_id=session.id, agent_id=f"agent-{number}", dialect=STRANDS)
        for number in range(heads.AGENTS)
    )
    agent = store.open_agent(session, "the-last", dialect=STRANDS)
    store.append(agent, said("assistant", "**bold** words", call("1", "search", query="lamp")))

    for query in ({}, {"agent": agent.id}):
        page = shown(client, page_url("session-1"), **query)
        part = shown(client, fragment_url("session-1"), **query)
        for text in (page, part):
            assert "<strong>bold</strong> words" in text
            assert '<span class="as-tool-name">search</span>' in text
            assert "the-last" in text
        assert '<th scope="row">the-last</th>' in page
        assert "There are more agents than this page lists." in page

    other = store.open_agent(store.open("another"), dialect=STRANDS)
    assert client.get(page_url("session-1"), {"agent": str(other.id)}).status_code == 404


def test_a_hundred_agents_are_all_listed(client, reader, session):
    SessionAgent.objects.bulk_create(
        SessionAgent(session_id=session.id, agent_id=f"agent-{number}", dialect=STRANDS)
        for number in range(heads.AGENTS)
    )

    page = shown(client, page_url("session-1"))

    assert "agent-99" in page
    assert "There are more agents" not in page


def test_a_page_that_could_not_be_recorded_is_not_shown(client, reader, talker, store, monkeypatch):
    store.append(talker, said("user", "secret"))

    def refuse(*args, **kwargs):
        raise RuntimeError("no record")

    monkeypatch.setattr(AuditEvent, "save", refuse)
    with pytest.raises(RuntimeError, match="no record"):
        client.get(page_url("session-1"))


def test_states_are_trees_and_large_ones_wait_to_be_opened(client, reader, session, store):
    state = AgentState({"list": ["a value", 1, None, True, b"xyz"]}, {"big": "word " * 20_000})
    agent = store.open_agent(session, "planner", dialect=STRANDS, data=state)

    page = shown(client, page_url("session-1"))
    url = f"{page_url('session-1').removesuffix('change/')}states/conversation_manager_state/"
    part = client.get(f"{url}{agent.id}/", {"fragment": 1}).content.decode()

    assert "a value" in page
    assert "word word" not in page
    assert "word word" in part
    download = client.get(f"{url}{agent.id}/", {"download": 1})
    assert download["Content-Disposition"].startswith("attachment")
    assert download.content.startswith(b'{"big":"word ')
    assert client.get(f"{url}{uuid4()}/").status_code == 404
    assert (
        client.get(f"{url}{agent.id}/".replace("conversation_manager_state", "window")).status_code
        == 404
    )
    assert AuditEvent.objects.filter(target=agent.id).count() == 2


def test_the_conversations_before_and_after_are_linked(client, reader, store):
    now = timezone.now()
    for number in range(3):
        session = store.open(f"s-{number}")
        Session.objects.filter(pk=session.id).update(last_activity_at=now)
    oldest, _middle, newest = Session.objects.order_by("pk")

    page = shown(client, page_url("s-1"))

    assert re.search(rf'rel="prev"[^>]*{newest.pk}', page)
    assert re.search(rf'rel="next"[^>]*{oldest.pk}', page)
    assert 'rel="prev"' not in shown(client, page_url("s-2"))
    assert 'rel="next"' not in shown(client, page_url("s-0"))


def test_words_are_found_by_a_post_so_that_they_are_in_no_url(client, reader, talker, store):
    store.append_many(talker, [said("user", f"filler {number}") for number in range(60)])
    store.append(talker, said("user", "a needle in it"))
    hit = SessionMessage.objects.get(message_id=60)
    url = page_url("session-1").removesuffix("change/") + "find/"

    page = client.post(url, {"query": "NEEDLE"}).content.decode()

    assert "1 message found" in page
    assert f"?at={hit.pk}#m-{hit.pk}" in page
    assert "a needle in it" in page
    assert client.get(url, {"query": "needle"}).status_code == 404
    event = AuditEvent.objects.get(action=AuditEvent.Action.SEARCHED)
    assert "needle" not in str(event.details).lower() + event.reason.lower()


def test_a_search_within_is_recorded_with_what_it_showed(client, reader, talker, store):
    store.append_many(talker, [said("user", f"filler {number}") for number in range(5)])
    keys = [str(key) for key in SessionMessage.objects.order_by("id").values_list("pk", flat=True)]
    url = page_url("session-1").removesuffix("change/") + "find/"

    client.post(url, {"query": "filler"})
    client.post(url, {"query": "nowhere"})

    some, none = AuditEvent.objects.filter(action=AuditEvent.Action.SEARCHED).order_by("id")
    assert some.details == {"found": 5, "first": keys[0], "last": keys[-1]}
    assert none.details == {"found": 0}


def test_what_was_looked_for_is_in_no_report_of_an_error(
    client, reader, talker, store, monkeypatch
):
    store.append(talker, said("user", "a needle"))

    def fail(*args, **kwargs):
        raise RuntimeError("broken")

    monkeypatch.setattr(AuditEvent, "save", fail)
    client.raise_request_exception = False
    url = page_url("session-1").removesuffix("change/") + "find/"
    answer = client.post(url, {"query": "-".join(["a", "planted", "word"])})

    assert answer.status_code == 500
    request, error = answer.wsgi_request, answer.exc_info
    for report in (ExceptionReporter(request, *error).get_traceback_html(),
                   ExceptionReporter(request, *error).get_traceback_text()):  # fmt: skip
        assert "broken" in report
        assert "a-planted-word" not in report


def test_the_picture_counts_turns_calls_errors_tokens_and_latency(client, reader, talker, store):
    usage = {"usage": {"inputTokens": 120, "outputTokens": 30}, "metrics": {"latencyMs": 900}}
    talk = 'a text about "toolUse":{ is no call'
    store.append(talker, {**said("assistant", call("1", "a"), call("2", "b")), "metadata": usage})
    store.append(talker, said("user", result("1", talk), result("2", "no", "error")))

    page = shown(client, page_url("session-1"))

    [row] = re.findall(r'<tr><th scope="row">planner</th>(.*?)</tr>', page)
    assert re.findall(r"<td>(.*?)</td>", row) == ["2", "2", "1", "120", "30", "900", "900"]
    assert page.count("<svg viewBox=") == 4
    assert "style=" not in page[page.index("as-root") :]


def test_every_message_and_part_can_be_pointed_at(client, reader, talker, store):
    store.append(talker, said("user", "one", call("1", "f")))
    key = SessionMessage.objects.get().pk

    page = shown(client, page_url("session-1"))

    assert f'id="m-{key}" data-message="{key}" data-path="[]"' in page
    for number in (0, 1):
        assert f'data-message="{key}" data-path="[&quot;content&quot;,{number}]"' in page
    assert "redact/" not in page
    client.force_login(staff("editor", "view_session", "read_transcript", "redact"))
    page = shown(client, page_url("session-1"))
    assert f"redact/?message={key}&amp;path=%5B%22content%22%2C0%5D" in page
