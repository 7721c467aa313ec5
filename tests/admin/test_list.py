from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from django.contrib import admin
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions.admin.changelist import SessionListCursor
from django_agent_sessions.admin.columns import possible_columns
from django_agent_sessions.models import Session, SessionAgent

from .people import NOON, grant, many, staff

pytestmark = pytest.mark.django_db

LIST = "admin:agent_sessions_session_changelist"


def page_of(client, **parameters) -> str:
    response = client.get(reverse(LIST), parameters)
    assert response.status_code == 200, response.headers
    return str(response.content.decode())


def listed(page: str) -> list[str]:
    """The keys of a page's rows, in order."""
    return re.findall(r'<a href="[^"]*/session/([0-9a-f-]{36})/change/', page)


def link(page: str, rel: str) -> Any:
    """The parameters of the link to the next or previous page."""
    found = re.search(rf'rel="{rel}" href="([^"]*)"', page)
    if found is None:
        return None
    query = parse_qs(urlsplit(html.unescape(found[1])).query, keep_blank_values=True)
    return {name: values[-1] for name, values in query.items()}


def walk(client, rel: str, page: str, between=lambda number: None) -> list[list[str]]:
    """All pages in one direction, the given one first."""
    pages = [listed(page)]
    while (parameters := link(page, rel)) is not None:
        between(len(pages))
        page = page_of(client, **parameters)
        pages.append(listed(page))
    return pages


def flat(pages: list[list[str]]) -> list[str]:
    return [key for page in pages for key in page]


@pytest.fixture
def reader(client):
    user = staff("reader", "view_session", "read_transcript")
    client.force_login(user)
    return client


@pytest.fixture
def clerk(client):
    """May see the list, and no content."""
    user = staff("clerk", "view_session")
    client.force_login(user)
    return client


# --- pages -------------------------------------------------------------------------------------


def test_the_newest_sessions_come_first(reader):
    keys = many(5, apart=timedelta(minutes=1))

    assert listed(page_of(reader)) == [str(key) for key in reversed(keys)]


def test_a_walk_forwards_over_equal_timestamps_sees_each_session_once_beside_new_activity(reader):
    keys = {str(key) for key in many(500)}

    def something_happens(number: int) -> None:
        # A session that was seen already moves to the top, and another is new.
        seen = min(first[: number * 50])
        Session.objects.filter(pk=seen).update(last_activity_at=NOON + timedelta(hours=number))
        Session.objects.create(
            session_id=f"new-{number}", last_activity_at=NOON + timedelta(hours=number)
        )

    page = page_of(reader)
    first = listed(page)
    seen = flat(walk(reader, "next", page, something_happens))

    assert len(seen) == 500
    assert set(seen) == keys


def test_a_walk_backwards_sees_each_session_once_and_then_what_is_new(reader):
    keys = {str(key) for key in many(500)}
    page = page_of(reader)
    while (parameters := link(page, "next")) is not None:
        page = page_of(reader, **parameters)

    def something_happens(number: int) -> None:
        Session.objects.create(
            session_id=f"new-{number}", last_activity_at=NOON + timedelta(hours=number)
        )

    seen = flat(walk(reader, "prev", page, something_happens))
    new = {str(key) for key in Session.objects.exclude(pk__in=keys).values_list("pk", flat=True)}

    assert new
    assert len(seen) == len(set(seen)) == 500 + len(new)
    assert set(seen) == keys | new


def test_forwards_and_backwards_show_the_same_pages(reader):
    many(170, apart=timedelta(microseconds=1))
    page = page_of(reader)
    forwards = walk(reader, "next", page)
    while (parameters := link(page, "next")) is not None:
        page = page_of(reader, **parameters)

    assert [len(keys) for keys in forwards] == [50, 50, 50, 20]
    assert walk(reader, "prev", page) == forwards[::-1]


def test_the_first_page_has_no_newer_and_the_last_no_older(reader):
    many(51)
    first = page_of(reader)
    assert link(first, "prev") is None
    last = page_of(reader, **link(first, "next"))

    assert len(listed(last)) == 1
    assert link(last, "next") is None
    assert link(last, "prev") is not None


def test_exactly_one_page_has_neither(reader):
    many(50)
    page = page_of(reader)

    assert len(listed(page)) == 50
    assert link(page, "next") is None
    assert link(page, "prev") is None


def test_pages_keep_filters_and_a_filter_begins_at_the_first_page(reader):
    keys = many(120)
    Session.objects.filter(pk__in=keys[:60]).update(legal_hold=True)

    first = page_of(reader, held="yes")
    onward = link(first, "next")
    assert onward is not None
    assert onward["held"] == "yes"
    second = page_of(reader, **onward)
    assert len(listed(second)) == 10
    assert set(listed(first) + listed(second)) == {str(key) for key in keys[:60]}
    filters = re.findall(r'<a href="(\?[^"]*redacted=yes[^"]*)"', second)
    assert filters
    assert not any("after" in found for found in filters)


@pytest.mark.parametrize(
    "position",
    ["x", "~", "2026-01-01~x", "2026-01-01T00:00:00~" + "0" * 32, "9" * 50, "é~é", "\x00"],
)
@pytest.mark.parametrize("parameter", ["after", "before"])
def test_a_broken_position_leads_to_the_first_page(reader, parameter, position):
    response = reader.get(reverse(LIST), {parameter: position})

    assert response.status_code == 302
    assert response.url == reverse(LIST) + "?e=1"
    assert reader.get(response.url).status_code == 200


def test_a_position_reads_back_to_the_microsecond():
    session = Session(last_activity_at=NOON + timedelta(microseconds=123457))

    assert SessionListCursor.read(str(SessionListCursor.of(session))) == SessionListCursor.of(
        session
    )


def test_no_other_order_can_be_asked_for(reader):
    keys = [str(key) for key in many(3, apart=timedelta(minutes=1))][::-1]

    assert listed(page_of(reader, o="1")) == keys
    assert listed(page_of(reader, o="-5.2")) == keys
    assert 'class="sortable' not in page_of(reader)


# --- statements --------------------------------------------------------------------------------


def statements(client, **parameters) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        page_of(client, **parameters)
    return [query["sql"] for query in captured]


def test_a_page_takes_eight_statements_whatever_the_number_of_sessions(reader, ada):
    # Login and permissions take four, the namespaces two, the page with what sessions without a
    # title are called one, and its agents one.
    many(5)
    Session.objects.update(owner=ada)
    few = statements(reader)
    Session.objects.bulk_create(
        Session(session_id=f"more-{number}", owner=ada, last_activity_at=NOON)
        for number in range(195)
    )
    estimate = 1 if connection.vendor == "postgresql" else 0

    assert len(few) == 8
    assert len(statements(reader)) == 8 + estimate
    first = link(page_of(reader), "next")
    assert len(statements(reader, **first)) == 8 + estimate


def test_nothing_is_counted(reader):
    many(120)
    for parameters in ({}, {"held": "no"}, {"q": "s-1"}, {"all": ""}, {"_facets": "True"}):
        assert not [sql for sql in statements(reader, **parameters) if "COUNT(*)" in sql.upper()]


def test_the_page_is_found_by_the_index_of_the_order(reader):
    many(120)
    page = page_of(reader)
    found = statements(reader, **link(page, "next"))
    sql = next(sql for sql in found if "ORDER BY" in sql)

    # Only the words of a session are looked for among its first messages.
    assert "OFFSET" not in sql.upper().rsplit("ORDER BY", 1)[1]
    assert sql.count("last_activity_at") >= 4


@pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL keeps an estimate")
def test_on_postgresql_the_list_says_about_how_many_there_are(reader):
    many(1200)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE agent_sessions_session")

    assert re.search(r"about 1,?200 in all", page_of(reader))
    assert "in all" not in page_of(reader, held="no")
    assert "in all" not in page_of(reader, q="s-1")


# --- columns -----------------------------------------------------------------------------------


def row_text(page: str) -> str:
    body = page.split("<tbody>")[1].split("</tbody>")[0]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body))).strip()


def test_a_row_shows_what_there_is_to_know(reader, store, ada):
    session = store.open("holiday-1", title="Holiday plans")
    for name in ("planner", "writer", "critic", "fourth", "fifth"):
        store.agents.open(session, name)
    SessionAgent.objects.update(dialect="strands")
    SessionAgent.objects.filter(agent_id="fifth").update(dialect="openai")
    Session.objects.filter(pk=session.id).update(
        owner=ada,
        message_count=1234,
        input_tokens=45678,
        output_tokens=901,
        last_activity_at=NOON,
        legal_hold=True,
        redactions=2,
        error_count=5678,
        archived_at=NOON,
        expires_at=timezone.now() - timedelta(days=1),
    )

    page = page_of(reader, columns=",".join(possible_columns()))
    text = row_text(page)
    for shown in (
        "Holiday plans",
        "holiday-1",
        "ada",
        "Strands, OpenAI",
        "planner, writer, critic +2",
        "1,234",
        "5,678",
        "45,678 / 901",
        f"{timezone.localtime(NOON):%Y-%m-%d %H:%M}",
    ):
        assert shown in text
    # The signs stand beside the title, in the link that it is: they need no column.
    [cell] = re.findall(r'<th class="field-conversation">(.*?)</th>', page, re.DOTALL)
    for label in ("Under legal hold", "Redacted ×2", "Archived", "Expired"):
        assert f'role="img" aria-label="{label}"' in cell
    assert "column-flags" not in page


def test_a_rewind_is_no_redaction_and_takes_none_away(reader, store):
    agent = store.agents.open(store.open("back"))
    store.append_many(agent, [{"role": "user", "content": text} for text in ("a", "b", "c")])
    store.branches.rewind(agent, 1)

    assert "as-sign-redacted" not in page_of(reader)
    assert listed(page_of(reader, redacted="yes")) == []
    assert len(listed(page_of(reader, redacted="no"))) == 1

    store.messages.redact(agent, 0, {"role": "user", "content": "[gone]"})
    store.branches.rewind(agent, 0)

    assert "as-sign-redacted" in page_of(reader)
    assert len(listed(page_of(reader, redacted="yes"))) == 1
    assert listed(page_of(reader, redacted="no")) == []


def test_a_session_that_is_nothing_special_has_no_signs(reader, store):
    store.open("plain")
    Session.objects.update(expires_at=timezone.now() + timedelta(days=1))

    assert "as-sign" not in page_of(reader)


def test_the_day_of_its_deletion_is_a_column_if_there_are_lifetimes(reader, store, settings):
    store.open("plain")
    Session.objects.update(last_activity_at=NOON)
    assert "Deleted from" not in page_of(reader)

    lifetimes = {"SESSIONS": {"*": {"IDLE": timedelta(days=30)}}}
    settings.AGENT_SESSIONS = {"RETENTION": lifetimes}
    page = page_of(reader)

    assert "Deleted from" in page
    assert 'title="time since the last activity: 30 days"' in page
    assert f"{NOON + timedelta(days=30):%Y-%m-%d}" in page


def test_a_title_is_only_shown_to_who_may_read_transcripts(clerk, store):
    store.open("holiday-1", title="Holiday plans")
    page = page_of(clerk)

    assert "holiday-1" in page
    assert "Holiday" not in page


def test_only_staff_with_the_permission_sees_the_list(client, store):
    store.open("holiday-1")
    user = staff("stranger")
    client.force_login(user)
    assert client.get(reverse(LIST)).status_code == 403

    grant(user, "view_session")
    assert client.get(reverse(LIST)).status_code == 200


def test_hostile_names_are_only_text(reader, store, ada):
    session = store.open("<script>alert('id')</script>", title="<script>alert('title')</script>")
    store.agents.open(session, "<script>alert('agent')</script>")
    type(ada).objects.filter(pk=ada.pk).update(username="<script>alert('owner')</script>")
    Session.objects.filter(pk=session.id).update(owner=ada, namespace="<script>alert('space')")

    for parameters in ({}, {"namespace": "<script>alert('n')"}, {"owner": ada.pk}):
        page = page_of(reader, **parameters)
        assert "<script>alert(" not in page
    assert "<script>alert(" not in page_of(reader, q="<script>alert('q')</script>")


def test_the_page_needs_no_inline_script_or_style(reader):
    many(120)
    page = page_of(reader, held="no", q="s")

    assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", page)
    assert "<style" not in page
    assert not re.search(r"\s(style|on[a-z]+)=", page)


def test_sessions_are_in_the_admin():
    assert admin.site.is_registered(Session)


def test_nothing_can_be_added_or_changed(admin_client, store):
    session = store.open("session-1")
    change = reverse("admin:agent_sessions_session_change", args=[session.id])

    assert admin_client.get(reverse("admin:agent_sessions_session_add")).status_code == 403
    assert admin_client.post(change, {"title": "changed"}).status_code == 403
    assert not Session.objects.filter(title="changed").exists()


# --- filters -----------------------------------------------------------------------------------


@pytest.fixture
def assorted(ada, bob):
    """Sessions that differ, by name."""
    now = timezone.now()
    day = timedelta(days=1)
    sessions = {
        "plain": Session(last_activity_at=now),
        "ada's": Session(last_activity_at=now, owner=ada),
        "bob's": Session(last_activity_at=now - 3 * day, owner=bob),
        "redacted": Session(last_activity_at=now - 10 * day, redactions=1),
        "held": Session(last_activity_at=now - 20 * day, legal_hold=True),
        "expired": Session(last_activity_at=now - 40 * day, expires_at=now - day),
        "expiring": Session(last_activity_at=now - 40 * day, expires_at=now + day),
        "archived": Session(last_activity_at=now - 400 * day, archived_at=now),
        "other": Session(last_activity_at=now, namespace="tenant"),
        "openai": Session(last_activity_at=now),
        "failed": Session(last_activity_at=now - 3 * day, error_count=2, has_errors=True),
    }
    for name, session in sessions.items():
        session.session_id = name
        session.save()
        dialect = "openai" if name == "openai" else "strands"
        SessionAgent.objects.create(session=session, agent_id="a", dialect=dialect)
    return sessions


def names(page: str) -> set[str]:
    keys = listed(page)
    return set(Session.objects.filter(pk__in=keys).values_list("session_id", flat=True))


MONTH_AGO = (timezone.now() - timedelta(days=30)).date().isoformat()
ALL = {
    *("plain", "ada's", "bob's", "redacted", "held"),
    *("expired", "expiring", "archived", "other", "openai", "failed"),
}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, ALL),
        ({"framework": "openai"}, {"openai"}),
        ({"framework": "strands"}, ALL - {"openai"}),
        ({"framework": "none"}, set()),
        ({"namespace": "tenant"}, {"other"}),
        ({"namespace": ""}, ALL - {"other"}),
        ({"owned": "yes"}, {"ada's", "bob's"}),
        ({"owned": "no"}, ALL - {"ada's", "bob's"}),
        ({"activity": "1d"}, {"plain", "ada's", "other", "openai"}),
        ({"activity": "7d"}, {"plain", "ada's", "bob's", "other", "openai", "failed"}),
        ({"activity": "30d"}, ALL - {"expired", "expiring", "archived"}),
        ({"activity_until": MONTH_AGO}, {"expired", "expiring", "archived"}),
        ({"errors": "yes"}, {"failed"}),
        ({"errors": "no"}, ALL - {"failed"}),
        ({"redacted": "yes"}, {"redacted"}),
        ({"redacted": "no"}, ALL - {"redacted"}),
        ({"held": "yes"}, {"held"}),
        ({"held": "no"}, ALL - {"held"}),
        ({"expired": "yes"}, {"expired"}),
        ({"expired": "no"}, ALL - {"expired"}),
        ({"archived": "yes"}, {"archived"}),
        ({"archived": "no"}, ALL - {"archived"}),
        ({"activity_until": MONTH_AGO, "archived": "no"}, {"expired", "expiring"}),
    ],
    # A set has another order in each process, and all of pytest-xdist's have to agree.
    ids=lambda given: str(sorted(given) if isinstance(given, set) else given),
)
def test_filters_keep_what_they_say(reader, assorted, parameters, expected):
    assert names(page_of(reader, **parameters)) == expected


@pytest.fixture
def rated(assorted, store):
    """Sessions with feedback: by name, the values of it."""
    values = {"plain": (1,), "redacted": (-1,), "held": (1, -1), "openai": (0,)}
    for name, given in values.items():
        agent = SessionAgent.objects.get(session__session_id=name)
        record = store.agents.open(store.get(name), agent.agent_id)
        store.append_many(record, [{"role": "assistant", "content": "Hi."}] * len(given))
        rows = agent.messages.order_by("message_id")
        for message, value in zip(rows, given, strict=True):
            store.feedback.save(message.pk, value, comment="plantedcomment")
            store.feedback.save(message.pk, value, source="judge")
    return values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("good", {"plain", "held"}),
        ("bad", {"redacted", "held"}),
        ("any", {"plain", "redacted", "held", "openai"}),
        ("none", ALL - {"plain", "redacted", "held", "openai"}),
        ("other", ALL),
    ],
    ids=lambda given: str(sorted(given) if isinstance(given, set) else given),
)
def test_sessions_are_filtered_by_feedback(clerk, rated, value, expected):
    page = page_of(clerk, feedback=value)
    assert names(page) == expected
    assert "plantedcomment" not in page


def test_a_column_has_a_sign_for_each_kind_of_feedback(clerk, rated):
    page = page_of(clerk)
    cells = re.findall(r'<td class="field-feedback">(.*?)</td>', page, re.DOTALL)
    found = {
        name: re.findall(r'role="img" aria-label="(.*?)"', cell)
        for name, cell in zip((row.session_id for row in ordered(page)), cells, strict=True)
    }
    assert {name: labels for name, labels in found.items() if labels} == {
        "plain": ["Good feedback"],
        "redacted": ["Bad feedback"],
        "held": ["Good feedback", "Bad feedback"],
        "openai": ["Comments without a rating"],
    }


def ordered(page: str) -> list[Session]:
    rows = Session.objects.in_bulk(listed(page))
    return [rows[UUID(key)] for key in listed(page)]


def test_the_name_of_an_owner_leads_to_the_page_of_the_same_and_on_to_the_sessions(
    reader, assorted, ada
):
    url = reverse("admin:agent_sessions_session_person", args=[ada.pk])
    assert f'<a href="{url}">ada</a>' in page_of(reader, activity="7d")

    page = reader.get(url).content.decode()
    listed_at = f"{reverse(LIST)}?owner={ada.pk}"
    assert f'href="{listed_at}"' in page
    assert names(reader.get(listed_at).content.decode()) == {"ada's"}


@pytest.mark.parametrize("owner", ["x", "9" * 40, "-1", "\x00", ""])
def test_an_owner_that_cannot_be_is_no_error(reader, assorted, owner):
    response = reader.get(reverse(LIST), {"owner": owner})

    assert response.status_code in {200, 302}
    assert not listed(response.content.decode())


def test_only_the_first_twenty_namespaces_are_offered_and_any_can_be_asked_for(reader):
    Session.objects.bulk_create(
        Session(session_id="s", namespace=f"tenant-{number:02}") for number in range(30)
    )

    page = page_of(reader)
    assert len(set(re.findall(r"\?namespace=tenant-\d\d", page))) == 20
    other = page_of(reader, namespace="tenant-29")
    assert len(listed(other)) == 1
    assert re.search(r'class="selected">\s*<a[^>]*>\s*tenant-29', other)


@pytest.mark.parametrize(
    "lookup",
    [
        *("owner__password__startswith", "owner__username", "owner__email__contains"),
        *("title", "title__startswith", "title__contains", "metadata__secret", "metadata"),
        *(
            "messages__text__contains",
            "agents__state__contains",
            "id__in",
            "session_id__startswith",
        ),
    ],
)
def test_no_other_column_can_be_filtered_by(reader, store, lookup):
    store.open("session-1", title="Holiday plans")
    for value in ("Holiday plans", "x"):
        response = reader.get(reverse(LIST), {lookup: value})
        assert response.status_code == 400
