"""What is large is cut, and neither read from the database nor shown as a whole."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.db.backends.utils import CursorWrapper

from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import SessionMultiAgent
from django_agent_sessions.queries import message_pages
from django_agent_sessions.values.records import AgentState
from tests.admin.transcripts import call, page_url, said, shown

pytestmark = pytest.mark.django_db


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


@pytest.mark.large
def test_a_message_of_36_mb_never_leaves_the_database(client, reader, talker, store, sizes_read):
    # MariaDB takes no statement of 36 MB.
    lines, size = (900_000, "35.2") if connection.vendor != "mysql" else (300_000, "11.7")
    words = "a log line that nobody reads to its end\n" * lines
    store.append(talker, said("user", "before it"))
    store.append(talker, said("user", f"only its beginning {words}"))
    sizes_read.clear()
    page = shown(client, page_url("session-1"))

    assert sum(sizes_read) < 300_000
    assert max(sizes_read) >= message_pages.TEXT_BEGINNING_LENGTH
    assert "only its beginning" in page
    assert f"This message is {size}\xa0MB" in page
    assert "before it" in page
    assert len(page) < 200_000


def test_all_payloads_of_a_page_have_a_bound_together(client, reader, talker, store):
    for number in range(8):
        store.append(talker, said("user", f"message {number} " + "word " * 180_000))

    page = shown(client, page_url("session-1"))

    assert page.count("the page shows only its beginning") == 4
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


def test_what_is_too_large_for_a_page_is_only_a_download(
    client, reader, session, store, sizes_read
):
    data = AgentState({"big": "word " * 1_000_000})
    agent = store.agents.open(session, "planner", dialect=STRANDS, data=data)
    store.multi_agents.create(session, "graph", {"notes": "word " * 1_000_000}, kind="graph")
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


def test_a_very_deep_or_long_tree_is_cut(client, reader, talker, store):
    deep: object = "bottom"
    for _ in range(100):
        deep = [deep]
    store.append(talker, said("assistant", call("1", "deep", value=deep)))
    store.append(talker, said("assistant", call("2", "long", value=list(range(5000)))))

    page = shown(client, page_url("session-1"))

    assert "bottom" not in page
    assert "nested deeper" in page
    assert re.search(r"… \d+ more", page)
