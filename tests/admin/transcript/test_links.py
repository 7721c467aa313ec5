"""Where the page of a session leads to, and that only addresses of the web are links."""

from __future__ import annotations

import re
from html import unescape

import pytest

from django_agent_sessions.admin.transcript.builder import citations, safe_link
from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import Session, SessionMessage
from tests.admin.people import staff
from tests.admin.transcripts import fragment_url, page_url, said, shown

pytestmark = pytest.mark.django_db

FILTERS = {"plain": "1", "_changelist_filters": "held=yes"}
KEPT = "plain=1&_changelist_filters=held%3Dyes"


def found(client, query: str, **kept) -> str:
    """The page after a search within the conversation."""
    url = f"{page_url('session-1').removesuffix('change/')}find/"
    answer = client.post(url, {"query": query}, query_params=kept)
    assert answer.status_code == 200
    text: str = answer.content.decode()
    return text


def links(page: str) -> list[str]:
    """Where the page's own links lead."""
    content = page[page.index("as-root") :]
    return [unescape(link) for link in re.findall(r'href="([^"]*)"', content)]


def test_every_link_works_after_a_search_too(client, reader, talker, session, store):
    other = store.agents.open(session, "helper", dialect=STRANDS)
    store.append_many(talker, [said("user", f"needle {number}") for number in range(60)])
    store.append(other, said("assistant", "an answer"))

    for page in (found(client, "needle"), found(client, "needle", agent=str(other.id))):
        kinds = {re.sub(r"at=[^#&]*|#.*|messages/[^/]*", "", link): link for link in links(page)}
        assert len(kinds) >= 8
        for link in kinds.values():
            if not link.startswith("#"):
                assert link.startswith("/")
                assert client.get(link).status_code == 200


def test_links_to_messages_keep_what_was_chosen(client, reader, talker, session, store):
    other = store.agents.open(session, "helper", dialect=STRANDS)
    store.append_many(talker, [said("user", f"needle {number}") for number in range(60)])
    url, key = page_url("session-1"), SessionMessage.objects.get(message_id=30).pk
    kept = f"{url}?{KEPT}&at={key}#m-{key}"

    assert kept in links(shown(client, url, **FILTERS))
    parts = unescape(shown(client, fragment_url("session-1"), **FILTERS))
    assert f'class="as-permalink" href="{kept}"' in parts
    assert kept in links(found(client, "needle", **FILTERS))
    # What is found may be another agent's.
    [hit] = re.findall(r"<ol>(.*?)</ol>", found(client, "needle 30", agent=str(other.id)), re.S)
    assert f"{url}?at={key}#m-{key}" in hit


def test_the_neighbours_are_not_called_the_lists(client, reader, store):
    for name in ("session-1", "session-2"):
        store.open(name)

    page = shown(client, page_url("session-1"), **FILTERS)

    assert f'rel="prev" data-as-previous href="{page_url("session-2")}?plain=1"' in page


def test_a_session_leads_to_what_was_and_may_be_done_with_it(client, talker, store):
    everything = ("change_session", "delete_session", "view_auditevent")
    client.force_login(staff("officer", "view_session", *everything))
    url = page_url("session-1")
    base = url.removesuffix("change/")

    page = shown(client, url)

    assert f"{base}delete/" in links(page)
    [audit] = [link for link in links(page) if "auditevent" in link]
    assert str(talker.session) in audit
    assert client.get(audit).status_code == 200
    assert client.get(f"{base}delete/").status_code == 200
    for hold, label in ((True, "Put under legal hold"), (False, "Release from legal hold")):
        [form] = re.findall(r'<form method="post" action="[^"]*/session/">.*?</form>', page, re.S)
        assert label in form
        target = re.findall(r'action="([^"]*)"', form)[0]
        fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form))
        asked = client.post(target, fields)
        assert 'name="reason"' in asked.content.decode()
        client.post(target, {**fields, "reason": "a case"})
        assert Session.objects.get(pk=talker.session).legal_hold is hold
        page = shown(client, url)
        assert (f"{base}delete/" in links(page)) is not hold


def test_a_session_leads_nowhere_without_permission(client, reader, talker):
    page = shown(client, page_url("session-1"))

    assert "auditevent" not in page
    assert "/delete/" not in page
    assert "hold_selected" not in page


def test_it_is_said_what_finding_looks_at(client, reader, talker):
    hint, more = "not tool arguments, JSON or reasoning", "searches everything"

    page = shown(client, page_url("session-1"))
    assert hint in page
    assert more not in page
    client.force_login(staff("editor", "view_session", "read_transcript", "redact"))
    assert more in shown(client, page_url("session-1"))
    client.force_login(staff("clerk", "view_session"))
    assert hint not in shown(client, page_url("session-1"))


def test_what_databases_cannot_carry_is_found_where_it_stood(client, reader, talker, store):
    store.append(talker, said("user", "ab\x00cd"))

    for query in ("b\x00c", "b\ufffdc"):
        assert "1 message found" in found(client, query)
        assert "ab\ufffdcd" in found(client, query)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://user:pw@shop.example:8/a", ("https://user:pw@shop.example:8/a", "shop.example")),
        ("s3://bucket/key", ("", "s3://bucket")),
        ("javascript:alert(1)", ("", "javascript://")),
        ("http://[broken", ("", "http://[broken")),
        ("no address", ("", "no address")),
    ],
)
def test_only_addresses_of_the_web_are_links(url, expected):
    assert safe_link(url) == expected


def test_sources_are_named_by_what_they_tell():
    sources = [{"title": "a", "url": "https://x.example"}, {"url": "https://y.example"}, {}, "odd"]

    assert citations(sources) == [
        ("a", "https://x.example"),
        ("y.example", "https://y.example"),
        ("source", ""),
    ]
    assert citations("odd") == []
