"""The pictures for the documentation, and how a page is judged.

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
from django_agent_sessions.models import AuditEvent

from . import example
from .pictures import smaller

pytestmark = pytest.mark.django_db(transaction=True)

PICTURES = Path(os.environ.get("SCREENSHOTS", ".cache/screenshots"))
LARGEST = 200_000
"""Bytes of a picture that is kept in the repository."""

LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1536, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1536, "height": 900}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 375, "height": 812}},
}
DECODE = """() => Promise.all(
  [...document.images].filter((each) => each.getBoundingClientRect().top < innerHeight)
    .map((each) => each.decode()))"""
"""Waits for the images that a picture of the page shows."""

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


@pytest.mark.parametrize(
    ("width", "settings", "name"), [(1300, {}, "rated"), (1440, example.WITH_PRICES, "cost")]
)
def test_the_list_shows_all_its_columns_beside_the_filters(open_page, shop, width, settings, name):
    with override_settings(AGENT_SESSIONS=settings):
        page = open_page(
            reverse("admin:agent_sessions_session_changelist"),
            viewport={"width": width, "height": 800},
        )
    filters = page.locator("#changelist-filter").bounding_box()
    last = page.locator("#result_list thead th").last
    assert last.inner_text().lower() == name
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


def shown_pages(page, session):
    """Goes from page to page, and names them."""
    usage = reverse("admin:agent_sessions_usagerollup_changelist")
    day = example.dear_day()
    for name, path in {
        "list": reverse("admin:agent_sessions_session_changelist"),
        "transcript": address(session, "change", **{"from": "start"}),
        "usage": usage,
        "usage-day": f"{usage}?from={day}&until={day}",
        "person": reverse("admin:agent_sessions_session_person", args=[session.owner_id]),
    }.items():
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


def violations(page, *, colours=True, others=True, within=None):
    """What axe finds serious, but for what is Django's own, or within elements of ours."""
    # Preloading is for style sheets of other hosts, and would put a style into the page.
    options = {
        "resultTypes": ["violations"],
        "preload": False,
        "rules": {} if colours else {rule: {"enabled": False} for rule in COLOURS},
        **({} if others else {"runOnly": COLOURS}),
    }
    context: dict = {"exclude": DJANGOS_OWN}
    if within:
        context["include"] = [[each] for each in within if page.locator(each).count()]
        if not context["include"]:
            return []
    # It stays in the page.
    axe = Axe("0") if page.evaluate("'axe' in window") else Axe()
    answer = axe.run(page, context=context, options=options)
    return [
        f"{each['id']} ({each['impact']}): {node['target']} {node['html'][:200]}"
        for each in answer.response["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("look", LOOKS)
@override_settings(AGENT_SESSIONS=example.WITH_PRICES)
def test_the_documentation_has_a_picture_of_each_page_that_it_shows(open_page, shop, look):
    page = open_page(**LOOKS[look])
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in shown_pages(page, shop):
        page.evaluate(DECODE)
        picture = smaller(page.screenshot(caret="initial"))
        (PICTURES / f"{name}-{look}.png").write_bytes(picture)
        assert len(picture) <= LARGEST, name
