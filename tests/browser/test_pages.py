"""What has to hold for every page, however it is looked at; and the pictures for the documentation.

The pictures of each run are in ``.cache/screenshots``; ``make screenshots`` puts them into the
documentation.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.test import override_settings
from django.urls import reverse

from django_agent_sessions import audit
from django_agent_sessions.models import AuditEvent, SessionMessage

from . import example
from .pictures import smaller

pytestmark = pytest.mark.django_db(transaction=True)

KEPT = "SCREENSHOTS" in os.environ
"""Whether the pictures are for the documentation."""

PICTURES = Path(os.environ.get("SCREENSHOTS", ".cache/screenshots"))
SHOWN = ("list", "transcript", "preview", "usage", "usage-day", "person")
"""The pages that the documentation shows."""

LARGEST = 200_000
"""Bytes of a picture that is kept in the repository."""

LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1536, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1536, "height": 900}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 375, "height": 812}},
}
DJANGOS_OWN = [[".breadcrumbs"]]
"""What Django's admin does not get right itself: the links there differ from the text by their
colour only, and too little; axe minds where the text is longer than a link."""

COLOURS = ["color-contrast", "link-in-text-block"]
"""The rules for which it makes a difference that a page is dark, and none that it is narrow."""

SERIOUS = {"serious", "critical"}


@pytest.fixture
def shop(clerk):
    """Everything that the pages show."""
    example.usage_of_90_days()
    example.others()
    session = example.conversation()
    audit.record(AuditEvent.Action.EXPORTED, session=session.pk, actor=clerk, reason="ticket 7")
    return session


def test_the_list_shows_all_its_columns_on_a_small_desktop(open_page, shop):
    page = open_page(
        reverse("admin:agent_sessions_session_changelist"), viewport={"width": 1300, "height": 800}
    )
    filters = page.locator("#changelist-filter").bounding_box()
    last = page.locator("#result_list thead th").last
    assert last.inner_text().lower() == "rated"
    place = last.bounding_box()
    assert place is not None
    assert filters is not None
    assert place["x"] + place["width"] <= filters["x"]
    held = page.get_by_role("link", name="Headphones stopped working").first
    assert held.get_by_role("img", name="Under legal hold").is_visible()


def address(session, name, **query):
    return reverse(f"admin:agent_sessions_session_{name}", args=[session.pk], query=query)


def preview(page, session):
    """Goes to what a redaction would change."""
    page.goto(address(session, "redact"))
    page.get_by_label("The text").fill(example.SECRET)
    page.get_by_role("button", name="Preview").click()
    page.wait_for_selector(".as-redact-hit")


def every_page(page, session, names=None):
    """Goes from page to page, or to those that are named, and names them."""
    first = SessionMessage.objects.filter(session=session).earliest("id")
    for name, path in {
        "list": reverse("admin:agent_sessions_session_changelist"),
        "search": reverse("admin:agent_sessions_session_changelist", query={"q": "refund"}),
        "transcript": address(session, "change", **{"from": "start"}),
        "message": address(session, "change", at=first.pk, plain=1),
        "usage": reverse("admin:agent_sessions_usagerollup_changelist"),
        "usage-day": reverse(
            "admin:agent_sessions_usagerollup_changelist",
            query={"from": example.dear_day(), "until": example.dear_day()},
        ),
        "audit": reverse("admin:agent_sessions_auditevent_changelist"),
        "event": reverse(
            "admin:agent_sessions_auditevent_change", args=[AuditEvent.objects.latest("id").pk]
        ),
        "export": address(session, "export"),
        "person": reverse("admin:agent_sessions_session_person", args=[session.owner_id]),
        "person-erase": reverse(
            "admin:agent_sessions_session_person_erase", args=[session.owner_id]
        ),
        "redact": address(session, "redact"),
    }.items():
        if names and name not in names:
            continue
        answer = page.goto(path)
        assert answer.status == 200, name
        yield name
    preview(page, session)
    yield "preview"


def unfold(page):
    """Opens whatever is folded in what is ours."""
    page.evaluate(
        "for (const each of document.querySelectorAll('#content details')) each.open = true"
    )


def violations(page, *, colours=True, others=True):
    """What axe finds serious, but for what is Django's own."""
    # Preloading is for style sheets of other hosts, and would put a style into the page.
    options = {
        "resultTypes": ["violations"],
        "preload": False,
        "rules": {} if colours else {rule: {"enabled": False} for rule in COLOURS},
        **({} if others else {"runOnly": COLOURS}),
    }
    answer = Axe().run(page, context={"exclude": DJANGOS_OWN}, options=options)
    return [
        f"{each['id']} ({each['impact']}): {node['target']} {node['html'][:200]}"
        for each in answer.response["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("look", LOOKS)
@override_settings(AGENT_SESSIONS=example.WITH_PRICES)
def test_every_page_can_be_read_by_everybody_and_fits_its_width(open_page, shop, look):
    page = open_page(**LOOKS[look])
    PICTURES.mkdir(parents=True, exist_ok=True)
    found = []
    for name in every_page(page, shop):
        picture = page.screenshot(caret="initial")
        if name in SHOWN:
            picture = smaller(picture)
            if len(picture) > LARGEST:
                found.append(f"{name}: a picture of {len(picture)} bytes")
        if name in SHOWN or not KEPT:
            (PICTURES / f"{name}-{look}.png").write_bytes(picture)
        unfold(page)
        faults = violations(page, colours=look != "narrow", others=look != "dark")
        found += [f"{name}: {each}" for each in faults]
        wide, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        if wide > width:
            found.append(f"{name}: {wide} pixels wide on a screen of {width}")
    assert not found, "\n".join(found)
