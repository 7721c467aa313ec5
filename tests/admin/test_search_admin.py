from __future__ import annotations

import html
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import override_settings
from django.urls import reverse

from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.queries import search

from .people import NOON, staff
from .test_list import LIST, link, names, page_of
from .transcripts import call, result, said

pytestmark = pytest.mark.django_db


@pytest.fixture
def talks(store, ada):
    """Two sessions with titles, owners, ids and words in them."""
    holiday = store.open("user-1", title="Holiday plans")
    store.append(
        store.agents.open(holiday, dialect="openai"), {"role": "user", "content": "Zebras"}
    )
    tax = store.open("user-12", title="Tax 100% return")
    store.append(store.agents.open(tax, dialect="openai"), {"role": "user", "content": "a_b"})
    Session.objects.filter(pk=tax.id).update(owner=ada, external_id="case-7")
    return {"holiday": holiday, "tax": tax}


@pytest.fixture
def reader(client):
    client.force_login(staff("reader", "view_session", "read_transcript"))
    return client


@pytest.fixture
def clerk(client):
    client.force_login(staff("clerk", "view_session"))
    return client


def found(client, query: str, **parameters) -> set[str]:
    return names(page_of(client, q=query, **parameters))


def test_sessions_are_found_by_exact_ids_owners_titles_and_words(reader, talks):
    assert found(reader, "user-1") == {"user-1"}
    assert found(reader, str(talks["tax"].id)) == {"user-12"}
    assert found(reader, talks["tax"].id.hex) == {"user-12"}
    assert found(reader, "case-7") == {"user-12"}
    assert found(reader, "ada") == {"user-12"}
    assert found(reader, "AD") == {"user-12"}
    assert found(reader, "holiday") == {"user-1"}
    assert found(reader, "return") == {"user-12"}
    assert found(reader, "zebra") == {"user-1"}
    assert found(reader, "nothing") == set()
    assert found(reader, "  user-1 ") == {"user-1"}


def test_who_may_not_read_transcripts_finds_by_id_and_owner_only(clerk, talks):
    assert found(clerk, "user-1") == {"user-1"}
    assert found(clerk, "ada") == {"user-12"}
    for query in ("holiday", "return", "zebra", "Zebras", "a_b"):
        assert found(clerk, query) == set()
    assert not AuditEvent.objects.exists()


def test_the_box_does_not_promise_titles_to_who_may_not_search_them(clerk, talks):
    assert "title and messages" not in page_of(clerk)


def test_the_box_says_what_is_not_searched_and_that_is_not(reader, store):
    agent = store.agents.open(store.open("calls"), dialect="strands")
    store.append_many(
        agent,
        [
            said("assistant", call("1", "look", word="argument")),
            said("user", result("1", "answered")),
            said("assistant", {"reasoningContent": {"reasoningText": {"text": "pondered"}}}),
        ],
    )

    assert "Tool arguments, JSON and reasoning are not searched" in page_of(reader)
    assert found(reader, "answered") == {"calls"}
    assert found(reader, "argument") == found(reader, "pondered") == set()


def test_wildcards_are_only_text(reader, talks):
    assert found(reader, "%") == {"user-12"}
    assert found(reader, "100%") == {"user-12"}
    assert found(reader, "1%0") == set()
    assert found(reader, "a_b") == {"user-12"}
    assert found(reader, "Z_bras") == set()
    assert found(reader, "use_") == set()
    assert found(reader, "ad_") == set()
    assert found(reader, "\\") == set()


def test_a_search_of_content_is_recorded_without_what_was_searched_for(reader, talks):
    found(reader, "zebra")

    search, shown = AuditEvent.objects.order_by("id")
    assert search.action == shown.action == AuditEvent.Action.SEARCHED
    assert search.actor == shown.actor == "reader"
    assert (search.session, shown.session) == (None, talks["holiday"].id)
    for event in (search, shown):
        assert "zebra" not in f"{event.details}{event.reason}".lower()


def test_looking_at_the_list_is_no_search(reader, talks):
    page_of(reader)
    page_of(reader, q="  ")

    assert not AuditEvent.objects.exists()


def test_a_search_is_held_together_with_filters(reader, talks):
    Session.objects.filter(session_id="user-12").update(legal_hold=True)

    assert found(reader, "user", held="yes") == set()
    assert found(reader, "return", held="yes") == {"user-12"}
    assert found(reader, "return", held="no") == set()


def test_the_words_of_a_search_stay_in_the_address_of_the_list(reader, talks):
    page = page_of(reader, q="zebra", held="no", framework="openai")
    links = [
        html.unescape(url)
        for url in re.findall(r'href="([^"]*/session/[0-9a-f-]{36}/[^"]*)"', page)
    ]

    assert links
    assert not any("zebra" in url for url in links)
    assert all("held" in url and "openai" in url for url in links), "the filters go on"
    for url in links:
        assert "zebra" not in "".join(
            re.findall(r'(?:href|action)="([^"]*)"', reader.get(url).content.decode())
        )


def test_what_was_found_by_its_words_opens_at_the_newest_message_with_them(reader, talks, store):
    agent = store.agents.open(store.open("long"), dialect="openai")
    for number in range(300):
        word = "needle" if number in {20, 30} else "hay"
        store.append(agent, {"role": "user", "content": f"{word} {number}."})
    message = SessionMessage.objects.get(session__session_id="long", message_id=30)

    page = page_of(reader, q="NEEDLE", held="no")
    (url,) = re.findall(r'<a href="([^"]*/session/[0-9a-f-]{36}/change/[^"]*)"', page)
    url = html.unescape(url)
    assert urlsplit(url).fragment == f"m-{message.pk}"
    assert parse_qs(urlsplit(url).query)["at"] == [str(message.pk)]

    opened = reader.get(url).content.decode()
    assert "needle 30." in opened
    assert f'id="m-{message.pk}"' in opened
    # A title, an id or an owner is of the whole session.
    assert "at=" not in page_of(reader, q="holiday")


def test_what_was_found_has_pages_too(reader, talks):
    Session.objects.bulk_create(
        Session(session_id=f"s-{number}", title="Weekly report", last_activity_at=NOON)
        for number in range(120)
    )

    page = page_of(reader, q="report")
    seen = names(page)
    while (parameters := link(page, "next")) is not None:
        assert parameters["q"] == "report"
        page = page_of(reader, **parameters)
        assert not seen & names(page)
        seen |= names(page)
    assert seen == {f"s-{number}" for number in range(120)}


def test_it_is_said_when_more_match_than_are_listed(reader, talks, monkeypatch):
    monkeypatch.setattr(search, "MAX_MATCHES", 5)
    Session.objects.bulk_create(
        Session(session_id=f"s-{number}", title="Weekly report") for number in range(9)
    )

    page = page_of(reader, q="report")
    assert len(names(page)) == 5
    assert "Not all matches are listed" in page
    assert "Not all matches are listed" not in page_of(reader, q="holiday")


def test_it_is_said_when_older_ones_were_not_looked_at(reader, talks):
    with override_settings(AGENT_SESSIONS={"SEARCH_CANDIDATES": 1}):
        assert "Only the newest 1 titles and messages" in page_of(reader, q="zebra")
    assert "Only the newest" not in page_of(reader, q="zebra")


@pytest.mark.parametrize(
    "query", ["\x00", "a\x00b", "\U0010ffff", "'; --", '"', "-", "or", "(", "é" * 600]
)
def test_odd_queries_are_answered(reader, talks, query):
    assert reader.get(reverse(LIST), {"q": query}).status_code == 200


def test_another_admins_search_for_a_session_does_not_look_at_titles(rf, talks, django_user_model):
    from django.contrib import admin

    request = rf.get("/")
    request.user = django_user_model.objects.create_superuser("root")
    sessions = admin.site.get_model_admin(Session)

    def chosen(term: str) -> list[str]:
        rows, _ = sessions.get_search_results(request, Session.objects.all(), term)
        return [row.session_id for row in rows]

    assert chosen("user-1") == ["user-1"]
    assert chosen("holiday") == []
    assert chosen("") == [row.session_id for row in Session.objects.all()]
