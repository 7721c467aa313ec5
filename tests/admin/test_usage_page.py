"""The usage page: the right figures, to the right people, in so many statements."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from unittest.mock import patch
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.admin import charts, usage_tables
from django_agent_sessions.admin.formatting import format_compact, format_duration
from django_agent_sessions.models import (
    AuditEvent,
    MessageFeedback,
    Session,
    SessionMessage,
    UsageRollup,
)
from django_agent_sessions.store import SessionStore
from tests.usage.usage_data import join, say, start

pytestmark = pytest.mark.django_db

PAGE = "/admin/agent_sessions/usagerollup/"
UPDATE = f"{PAGE}update/"


@pytest.fixture
def now():
    """Noon, so that some hours ago is the same day."""
    return timezone.localtime().replace(hour=12, minute=0, second=0)


@pytest.fixture
def talk(now, ada):
    """Ten messages of ada's today, in 3 sessions."""
    for number in range(3):
        session = start(f"session-{number}", now, ada, "shop")
        say(
            join(session, "rabbit"),
            [now] * (2 + 2 * number),
            input_tokens=100,
            output_tokens=7,
            latency_ms=1000,
            has_error=number == 1,
        )
    usage.roll_up(until=now + timedelta(days=1))


def staff(client: Client, *permissions: str) -> Client:
    user = get_user_model().objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(
            content_type__app_label="agent_sessions", codename__in=permissions
        )
    )
    client.force_login(user)
    return client


def text(page) -> str:
    return str(page.content, "utf-8")


def tiles(page) -> list[tuple[str, str]]:
    return re.findall(r"<dt>(.*?)</dt><dd title=\"(.*?)\">", text(page))


def rows_of(page, heading: str) -> list[list[str]]:
    """The cells of the table of this section."""
    section = re.search(rf'aria-labelledby="{heading}".*?</section>', text(page), re.DOTALL)
    assert section is not None
    rows = re.findall(r"<tr>(.*?)</tr>", section.group().split("<tbody>")[1], re.DOTALL)
    return [
        [
            cell
            for found in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
            if (cell := re.sub(r"<[^>]+>", "", found).strip())
        ]
        for row in rows
    ]


# --- what is shown --------------------------------------------------------------------------------


def test_the_page_shows_the_figures_of_the_days_agents_and_owners(admin_client, talk):
    page = admin_client.get(PAGE)

    assert tiles(page) == [
        ("Sessions", "3"),
        ("Messages", "12"),
        ("Errors", "4"),
        ("Tokens in", "1,200"),
        ("Tokens out", "84"),
        ("Median latency", "1 s"),
        ("Latency, 95th percentile", "1 s"),
    ]
    # Nothing was rated, and nothing is known of the days before.
    agent = ["rabbit", "12", "4", "3", "1,200", "84", "1 s", "1 s", "–", "–"]
    assert rows_of(page, "usage-agents") == [agent]
    for heading, name in (("usage-owners", "ada"), ("usage-namespaces", "shop")):
        assert rows_of(page, heading) == [[name, *agent[1:]]]
    assert "Counted until" in text(page)


@pytest.mark.parametrize(("asked", "days"), [("7", 7), ("90", 90), ("", 30), ("8", 30), ("x", 30)])
def test_the_range_is_chosen_in_the_address(admin_client, talk, asked, days):
    page = admin_client.get(PAGE, {"days": asked})

    assert current(page) == [f"{days} days"]
    # Each chart has a row for each day in its table, and one more with the heads.
    for table in re.findall(r"<details>.*?</details>", text(page), re.DOTALL):
        assert table.count("<tr>") == days + 1
    assert text(page).count("<details>") == 5
    # Nothing was rated: there is no chart without a bar.
    assert re.search(r"<h2>Feedback per day</h2>.*?None on these days\.", text(page), re.DOTALL)


def current(page) -> list[str]:
    return re.findall(r'aria-current="page">(.*?)<', text(page).split("agent-usage")[1])


def test_any_days_are_chosen_and_all_tables_are_of_them(admin_client, now, ada, bob):
    for number, user in enumerate((ada, bob)):
        at = now - timedelta(days=40 + number)
        say(join(start(f"session-{number}", at, user, user.username), user.username), [at] * 3)
    usage.rebuild(until=now + timedelta(days=1))
    day = f"{now - timedelta(days=41):%Y-%m-%d}"

    page = admin_client.get(PAGE, {"from": day, "until": day})

    assert dict(tiles(page))["Messages"] == "3"
    for heading in ("usage-owners", "usage-agents", "usage-namespaces"):
        assert [row[0] for row in rows_of(page, heading)] == ["bob"]
    assert current(page) == []
    yesterday = f"{now - timedelta(days=1):%Y-%m-%d}"
    page = admin_client.get(PAGE, {"from": yesterday, "until": yesterday, "sort": "cost"})
    assert current(page) == ["Yesterday"]


@pytest.mark.parametrize(
    ("first", "last", "says"),
    [
        ("2026-02-31", "2026-03-01", "Enter days as YYYY-MM-DD"),
        ("01.02.2026", "", "Enter days as YYYY-MM-DD"),
        ("x", "2026-03-01", "Enter days as YYYY-MM-DD"),
        ("2026-03-02", "2026-03-01", "the first one first"),
        ("0001-01-01", "0001-01-02", "Enter days as YYYY-MM-DD"),
        ("2026-03-02", "9999-12-31", "none after today"),
        ("2024-01-01", "2025-03-01", "Choose at most 366 days"),
    ],
)
def test_days_that_cannot_be_shown_are_explained_and_the_last_30_shown(
    admin_client, talk, first, last, says
):
    page = admin_client.get(PAGE, {"from": first, "until": last})

    assert page.status_code == 200
    assert says in text(page)
    assert current(page) == ["30 days"]


def test_each_figure_is_compared_with_the_days_before(admin_client, now, ada, bob, settings):
    settings.AGENT_SESSIONS = {"PRICES": {"dear": {"input": 1}, "cheap": {"input": 1}}}
    yesterday, before = now - timedelta(days=1), now - timedelta(days=2)

    def talked(name: str, user, model: str, times: list, tokens: int) -> None:
        agent = join(start(name, times[0], user, "shop"), name)
        say(agent, times, model=model, input_tokens=tokens)

    talked("steady", ada, "cheap", [yesterday, before], 1_000_000)
    talked("grew", bob, "dear", [before], 1_000_000)
    talked("grew more", bob, "dear", [yesterday] * 2, 2_000_000)
    usage.rebuild(until=now + timedelta(days=1))
    day = f"{yesterday:%Y-%m-%d}"

    page = admin_client.get(PAGE, {"from": day, "until": day})

    assert "▲ 150 % from 2.00" in text(page)
    assert rows_of(page, "usage-growth") == [
        ["grew more", "Agent", "0.00", "4.00", "+4.00", "new"],
        ["dear", "Model", "1.00", "4.00", "+3.00", "▲ 300 %"],
        ["bob", "Owner", "1.00", "4.00", "+3.00", "▲ 300 %"],
        ["shop", "Namespace", "2.00", "5.00", "+3.00", "▲ 150 %"],
    ]
    assert [(row[0], row[-1]) for row in rows_of(page, "usage-owners")] == [
        ("bob", "▲ 300 %"),
        ("ada", "± 0 %"),
    ]
    page = admin_client.get(PAGE, {"from": day, "until": day, "against": "average"})
    grown = ["dear", "Model", "0.1429", "4.00", "+3.86", "▲ 2,700 %"]
    assert grown in rows_of(page, "usage-growth")
    # Nothing is known of the 30 days before.
    assert rows_of(admin_client.get(PAGE), "usage-agents")[0][-3:] == ["4.00", "–", "–"]


def test_tables_are_sorted_by_messages_or_by_costs(admin_client, now, settings):
    settings.AGENT_SESSIONS = {"PRICES": {"dear": {"input": 1}}}
    say(join(start("one", now), "chatty"), [now] * 9)
    say(join(start("two", now), "costly"), [now], model="dear", input_tokens=5)
    usage.roll_up(until=now + timedelta(days=1))

    def agents(**query: str) -> list[str]:
        return [row[0] for row in rows_of(admin_client.get(PAGE, query), "usage-agents")]

    assert agents() == agents(sort="cost") == ["costly", "chatty"]
    assert agents(sort="messages") == ["chatty", "costly"]
    page = text(admin_client.get(PAGE, {"days": "7", "sort": "messages"}))
    assert page.count('aria-sort="descending"') == 3
    assert 'href="?days=7&amp;sort=cost">Cost</a>' in page
    assert '<a href="?days=90&amp;sort=messages"' in page
    # Without prices there are no costs to sort by.
    settings.AGENT_SESSIONS = {}
    assert agents(sort="cost") == ["chatty", "costly"]


@pytest.mark.parametrize(
    ("zone", "day", "begins"),
    [
        ("Asia/Kolkata", 11, "2026-06-11 00:30 IST"),
        ("America/Chicago", 10, "2026-06-10 00:00 CDT"),
        ("UTC", 10, "2026-06-10 00:00 UTC"),
    ],
)
def test_days_are_those_of_the_readers_time_zone(client, ada, settings, zone, day, begins):
    # A project's middleware would activate the reader's zone.
    settings.TIME_ZONE = zone
    late = datetime(2026, 6, 10, 23, 30, tzinfo=UTC)
    say(join(start("session", late, ada, "shop"), "rabbit"), [late] * 3)
    usage.roll_up(until=late + timedelta(days=9))
    client = staff(client, "view_usagerollup", "view_session")

    def messages(day: int) -> str:
        date = f"2026-06-{day}"
        page = client.get(PAGE, {"from": date, "until": date})
        assert "Days and months of owners are in UTC." in text(page)
        return dict(tiles(page))["Messages"]

    page = client.get(PAGE, {"from": f"2026-06-{day}", "until": f"2026-06-{day}"})
    words = re.sub("</?time[^>]*>", "", text(page))
    assert f"Days are in your time zone: the first one begins at {begins}." in words
    assert rows_of(page, "usage-agents")[0][:2] == ["rabbit", "3"]
    link = f"namespace=shop&amp;activity_from=2026-06-{day}&amp;activity_until=2026-06-{day}"
    assert link in text(page)
    assert [messages(shown) for shown in (day - 1, day, day + 1)] == ["0", "3", "0"]


# --- sessions -------------------------------------------------------------------------------------


@pytest.fixture
def costly(now, ada):
    """Sessions of ada's today, the last one with the highest cost, and one a week ago."""
    for number, at in enumerate([now - timedelta(days=7), now, now]):
        session = start(f"session-{number}", at, ada, "shop")
        say(join(session), [at])
        SessionStore(owner=ada).sessions.update(session.pk, title=f"Title {number}")
        figures = {"cost": number * 10**9, "last_activity_at": at}
        Session.objects.filter(pk=session.pk).update(message_count=9 - number, **figures)
    usage.roll_up(until=now + timedelta(days=1))


def test_ratings_are_shown_by_agent_model_owner_and_namespace(admin_client, now, ada):
    session = start("rated", now - timedelta(days=2), ada, "shop")
    say(join(session), [now - timedelta(days=1)] * 4, model="m")
    messages = SessionMessage.objects.order_by("pk")
    for message, value in zip(messages, (1, 1, -1, 0), strict=True):
        MessageFeedback.objects.create(session=session, message=message, value=value)
    usage.roll_up(until=now + timedelta(days=1))

    page = admin_client.get(PAGE)

    for heading in ("agents", "models", "owners", "namespaces"):
        assert "2 / 1" in rows_of(page, f"usage-{heading}")[0]


def test_the_sessions_with_the_highest_figures_are_linked(admin_client, costly, settings):
    settings.AGENT_SESSIONS = {"PRICES": {"dear": {"input": 1}}}
    today = f"{usage.today()}"

    page = admin_client.get(PAGE, {"from": today, "until": today})

    rows = rows_of(page, "usage-sessions")
    assert [(row[0], row[-1]) for row in rows] == [("Title 2", "2.00"), ("Title 1", "1.00")]
    assert rows[0][1].startswith(f"{today} ")
    key = Session.objects.get(session_id="session-2").pk
    assert f'href="/admin/agent_sessions/session/{key}/change/"' in text(page)
    owner = Session.objects.values_list("owner", flat=True)[0]
    query = f"activity_from={today}&amp;activity_until={today}"
    for condition in ("agent=agent", f"owner={owner}", "namespace=shop"):
        assert f'href="/admin/agent_sessions/session/?{condition}&amp;{query}"' in text(page)
    settings.AGENT_SESSIONS = {}
    page = admin_client.get(PAGE, {"from": today, "until": today})
    assert [row[0] for row in rows_of(page, "usage-sessions")] == ["Title 1", "Title 2"]
    assert "Choose at most 7 days to see the sessions" in text(admin_client.get(PAGE))


def test_of_very_many_sessions_the_most_recent_ones_are_compared(admin_client, costly, monkeypatch):
    moment = timezone.localtime().replace(hour=12, minute=0, second=1)
    Session.objects.filter(session_id="session-1").update(last_activity_at=moment)
    monkeypatch.setattr(usage_tables, "NEWEST_SESSIONS", 1)

    page = admin_client.get(PAGE, {"days": "7"})

    assert [row[0] for row in rows_of(page, "usage-sessions")] == ["Title 1"]
    assert "of the 1 most recent ones" in text(page)


def test_titles_are_for_readers_and_sessions_for_those_who_see_them(client, costly):
    client = staff(client, "view_usagerollup")
    page = text(client.get(PAGE, {"days": "7"}))
    assert "Title" not in page
    assert 'aria-labelledby="usage-sessions"' not in page
    assert "/admin/agent_sessions/session/" not in page.split("agent-usage")[1]
    clerk = get_user_model().objects.get(username="clerk")
    clerk.user_permissions.add(
        Permission.objects.get(content_type__app_label="agent_sessions", codename="view_session")
    )

    page = client.get(PAGE, {"days": "7"})

    assert [row[0] for row in rows_of(page, "usage-sessions")] == ["session-1", "session-2"]
    assert "Title" not in text(page)
    clerk.user_permissions.add(Permission.objects.get(codename="read_transcript"))
    page = client.get(PAGE, {"days": "7"})
    assert [row[0] for row in rows_of(page, "usage-sessions")] == ["Title 1", "Title 2"]


def test_sessions_of_nobody_and_of_users_that_are_gone_have_their_rows(admin_client, now, ada, bob):
    for number, owner in enumerate([None, ada, bob], start=1):
        say(join(start(f"session-{number}", now, owner)), [now] * number)
    usage.roll_up(until=now + timedelta(days=1))
    key = bob.pk
    Session.objects.filter(owner=bob).update(owner=None)
    bob.delete()
    # A key that no user of this project can have.
    UsageRollup.objects.filter(key=str(ada.pk)).update(key="7b1e-not-a-number")

    assert [row[0] for row in rows_of(admin_client.get(PAGE), "usage-owners")] == [
        f"deleted user {key}",
        "deleted user 7b1e-not-a-number",
        "no owner",
    ]


def test_before_the_first_count_the_page_tells_the_command(admin_client):
    page = text(admin_client.get(PAGE))

    assert "Nothing has been counted yet" in page
    assert "manage.py agent_sessions_roll_up_usage" in page
    assert "<figure" not in page


def test_a_site_where_nothing_was_said_yet_has_a_page_of_zeros(admin_client):
    usage.roll_up()

    page = text(admin_client.get(PAGE))

    assert page.count("No messages on these days.") == 2
    assert "There are no figures of the days before to compare with." in page
    assert page.count("<figure") == 6


def test_names_that_are_markup_are_only_text(admin_client, now):
    nasty = '"><script>alert(1)</script>'
    user = get_user_model().objects.create_user(f"owner{nasty}")
    say(join(start("session", now, user), f"agent{nasty}"), [now])
    usage.roll_up(until=now + timedelta(days=1))

    page = text(admin_client.get(PAGE))

    assert "<script>alert" not in page
    escaped = "&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"
    assert f"agent{escaped}" in page
    assert f"owner{escaped}" in page


@pytest.mark.parametrize("language", ["en", "de", "ar"])
def test_numbers_in_pictures_are_written_for_svg_in_every_language(
    admin_client, talk, settings, language
):
    settings.LANGUAGE_CODE = language
    settings.USE_THOUSAND_SEPARATOR = True

    page = text(admin_client.get(PAGE, {"days": "90"}))

    numbers = re.findall(r'<rect [^>]*?(?:width|x)="([^"]*)"', page)
    assert len(numbers) > 4 * 90
    assert all(re.fullmatch(r"[0-9]+(\.[0-9]+)?", number) for number in numbers)
    assert (
        re.findall(r'viewBox="([^"]*)" preserveAspectRatio="none" aria-describedby', page)
        == ["0 0 900 100"] * 5
    )


class Elements(HTMLParser):
    """All elements of a page, and the ids."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_the_page_keeps_a_strict_content_security_policy_and_names_its_pictures(admin_client, talk):
    page = text(admin_client.get(PAGE))
    parser = Elements()
    # What Django puts around it is its own.
    parser.feed(page[page.index('<div class="agent-usage">') : page.index('<br class="clear">')])
    ids = [attributes["id"] for _, attributes in parser.found if "id" in attributes]

    assert len(ids) == len(set(ids))
    for tag, attributes in parser.found:
        assert tag not in {"script", "style"}
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        if tag == "svg" and attributes.get("aria-hidden") != "true":
            # Not a picture, because it has links.
            assert attributes["role"] == "group"
            assert {attributes["aria-labelledby"], attributes["aria-describedby"]} <= set(ids)


# --- who sees it ----------------------------------------------------------------------------------


def test_whoever_may_see_usage_needs_nothing_else_and_leaves_no_audit_event(client, talk):
    page = staff(client, "view_usagerollup").get(PAGE)

    assert page.status_code == 200
    assert rows_of(page, "usage-owners")[0][0] == "ada"
    assert not AuditEvent.objects.exists()


def test_nobody_else_sees_or_updates_it(client, talk):
    assert client.get(PAGE).status_code == 302
    assert client.post(UPDATE).status_code == 302
    staff(client, "change_usagerollup", "view_session", "read_transcript", "export")

    assert client.get(PAGE).status_code == 403
    assert client.post(UPDATE).status_code == 403
    assert "usagerollup" not in text(client.get("/admin/"))


def test_single_rows_have_no_page(admin_client, talk):
    row = UsageRollup.objects.first()
    assert row is not None
    for path in ("add/", f"{row.pk}/change/", f"{row.pk}/delete/", f"{row.pk}/history/"):
        assert admin_client.get(PAGE + path).status_code == 404


# --- updating -------------------------------------------------------------------------------------


def test_update_now_counts_and_comes_back_to_the_same_page(client, ada):
    at = timezone.now() - timedelta(hours=1)
    say(join(start("session", at, ada)), [at] * 3)
    day = f"{usage.today()}"
    given = {"from": day, "until": day, "against": "average"}

    answer = staff(client, "view_usagerollup").post(UPDATE, given, follow=True)

    assert answer.redirect_chain == [(f"{PAGE}?{urlencode(given)}", 302)]
    assert "3 messages and 1 sessions were counted." in text(answer)
    assert UsageRollup.objects.get(dimension="day").messages == 3


def test_update_now_stops_in_time_and_says_that_there_is_more(admin_client, ada):
    at = timezone.now() - timedelta(hours=1)
    say(join(start("session", at, ada)), [at] * 3)

    with (
        patch("django_agent_sessions.admin.usage_page._SECONDS", 0.0),
        patch("django_agent_sessions.admin.usage_page._BATCH", 2),
    ):
        answer = admin_client.post(UPDATE, follow=True)

    assert "2 messages and 1 sessions were counted." in text(answer)
    assert "press “Update now” again, or run manage.py agent_sessions_roll_up_usage" in text(answer)


def test_an_update_is_a_post_with_a_token(admin_client, admin_user):
    assert admin_client.get(UPDATE).status_code == 405
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(admin_user)
    assert careful.post(UPDATE).status_code == 403


# --- how much it takes ----------------------------------------------------------------------------


def test_the_page_takes_the_same_statements_for_little_and_for_much(client, now):
    staff(client, "view_usagerollup", "view_session", "read_transcript")

    def statements(days: str = "90") -> list[str]:
        usage.roll_up(until=now + timedelta(days=2))
        with CaptureQueriesContext(connection) as captured:
            assert client.get(PAGE, {"days": days}).status_code == 200
        return [query["sql"] for query in captured]

    def add(number: int) -> None:
        at = now - timedelta(days=number)
        user = get_user_model().objects.create_user(f"user-{number}")
        say(
            join(start(f"session-{number}", at, user), f"agent-{number}"),
            [at] * 3,
            latency_ms=9,
            model="m",
        )

    add(0)
    little = statements()
    for number in range(1, 60):
        add(number)
    much = statements()

    assert len(little) == len(much)
    # Django's own four are the login's session, the user and two of permissions.
    ours = [sql for sql in much if "agent_sessions_" in sql or "username" in sql]
    # One of the days, and for each of four dimensions one of sums and one of latencies.
    assert sum("agent_sessions_usagerollup" in sql for sql in ours) == 9
    assert sum("agent_sessions_usagecursor" in sql for sql in ours) == 1
    assert sum("agent_sessions_messagefeedback" in sql for sql in ours) == 4
    # Messages are read only for the agents and models of those that were rated.
    read = [sql for sql in much if "agent_sessions_sessionmessage" in sql]
    assert ["agent_sessions_messagefeedback" in sql for sql in read] == [True]
    assert len(much) == 19
    assert len(statements("7")) == 21
    with timezone.override("UTC"):
        assert len(statements()) == 19
    assert reverse("admin:agent_sessions_usagerollup_changelist") == PAGE


# --- charts ---------------------------------------------------------------------------------------


AXIS = charts.Axis("Day", ["one", "two", "three"], ["?1", "?2", "?3"])


def test_bars_stand_upon_each_other_and_fill_the_scale():
    chart = charts.bar_chart(
        "t",
        "Tokens",
        AXIS,
        [charts.Series("in", "a", [3, 0, 1]), charts.Series("out", "b", [5, 0, 0])],
        format_compact,
    )

    assert chart.ticks == ["8", "4", "0"]
    bar = r'class="usage-([ab])" x="(\S+)" y="(\S+)" width="8" height="(\S+)"'
    assert re.findall(bar, chart.picture) == [
        ("a", "1", "62.5", "37.5"),
        ("b", "1", "0", "62.5"),
        ("a", "21", "87.5", "12.5"),
    ]
    assert chart.rows == [
        ("?1", ["one", "3", "5"]),
        ("?2", ["two", "0", "0"]),
        ("?3", ["three", "1", "0"]),
    ]
    assert '<a href="?1" tabindex="-1"><rect' in chart.picture
    assert "<title>one\nin: 3\nout: 5</title>" in chart.picture
    assert "in: maximum 3 on one. out: maximum 5 on one.</desc>" in chart.picture


def test_lines_have_gaps_where_there_is_nothing():
    series = [charts.Series("p50", "a", [500, None, 1000])]

    chart = charts.line_chart("l", "Latency", AXIS, series, format_duration)

    assert 'd="M5 50.00M25 0.00"' in chart.picture
    assert chart.rows[1] == ("?2", ["two", "–"])
    assert chart.ticks == ["1 s", "500 ms", "0 ms"]


def test_many_points_are_a_line_and_a_lonely_one_stays_visible():
    days = [str(number) for number in range(90)]
    values = [None, 1.0, None, *[1.0] * 87]
    series = [charts.Series("p50", "a", values)]

    chart = charts.line_chart(
        "l", "Latency", charts.Axis("Day", days, days), series, format_duration
    )

    assert 'd="M15 50.00h0"' in chart.picture


@pytest.mark.parametrize(
    ("value", "end"), [(0, 2), (1, 2), (2, 2), (3, 4), (9, 10), (11, 20), (101, 200), (999, 1000)]
)
def test_a_scale_ends_at_a_round_number(value, end):
    assert charts.axis_maximum(value) == end


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (950, "950"),
        (1_000, "1k"),
        (1_249, "1.2k"),
        (12_447, "12.4k"),
        (345_678, "346k"),
        (5_600_000_000, "5.6B"),
    ],
)
def test_large_numbers_are_short(value, written):
    assert format_compact(value) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "–"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_240, "1.2 s"),
        (61_000, "61 s"),
        (6e5, "10 min"),
    ],
)
def test_a_duration_is_written_in_its_unit(value, written):
    assert format_duration(value) == written


def test_a_bar_in_a_table_is_a_share_of_the_longest():
    assert charts.bar_width(1, 4) == "25.00"
    assert charts.bar_width(0, 0) == "0"
