"""What made a day expensive is found by clicks, and the days in charts are links."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import override_settings
from django.urls import reverse

from . import example

pytestmark = pytest.mark.django_db(transaction=True)


@override_settings(AGENT_SESSIONS=example.WITH_PRICES)
def test_what_made_yesterday_expensive_is_found_by_clicks(open_page):
    example.usage_of_90_days()
    example.others()
    page = open_page(reverse("admin:index"))
    page.get_by_role("link", name="Usage").first.click()
    page.get_by_role("link", name="Yesterday").click()

    cost = page.locator("dl > div", has_text="Cost").inner_text()
    assert "▲" in cost
    grown = page.get_by_role("region", name="Costs that grew most").get_by_role("row")
    [model] = [row for row in grown.all_inner_texts() if "Model" in row]
    assert model.startswith("claude-sonnet-4")
    page.get_by_role("link", name="the average of the 7 days before").click()
    [model] = [row for row in grown.all_inner_texts() if "Model" in row]
    assert "▲" in model or "new" in model
    page.get_by_role("region", name="Sessions", exact=True).get_by_role("link").first.click()
    assert "/agent_sessions/session/" in page.url


@override_settings(AGENT_SESSIONS=example.WITH_PRICES)
def test_a_day_in_a_chart_and_in_its_table_leads_to_that_day(open_page):
    example.usage_of_90_days()
    usage = reverse("admin:agent_sessions_usagerollup_changelist")
    page = open_page(usage, viewport={"width": 1300, "height": 900})
    bars = page.locator("figure", has_text="Cost per day").locator("a rect")
    assert bars.count() == 30
    bars.nth(20).click()
    day = f"{example.dear_day() - timedelta(days=8)}"
    assert page.locator(".usage-compared strong").inner_text() == day
    page.goto(usage)
    page.locator("summary").first.click()
    page.get_by_role("link", name=day).first.click()
    assert page.locator(".usage-compared strong").inner_text() == day
    # Any days by the form.
    page.get_by_label("From").fill(f"{example.dear_day() - timedelta(days=40)}")
    page.get_by_role("button", name="Show").click()
    assert page.locator(".usage-compared strong").inner_text().endswith(f" – {day}")
