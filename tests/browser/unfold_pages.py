"""Every page with django-unfold; :mod:`.test_unfold` runs this in a process of its own."""

from __future__ import annotations

import os

import pytest
from django.test import override_settings

from . import example
from .test_pages import KEPT, LOOKS, PICTURES, SHOWN, every_page, shop
from .time_pages import pages_about_time

__all__ = ["shop"]
pytestmark = pytest.mark.django_db(transaction=True)


@override_settings(AGENT_SESSIONS=example.WITH_PRICES)
def test_every_page_opens_and_fits_its_width(open_page, shop):
    PICTURES.mkdir(parents=True, exist_ok=True)
    page = open_page(**LOOKS["light"])
    for name in every_page(page, shop):
        check(page, f"{name}-light")
    page = open_page(**LOOKS["narrow"] | {"color_scheme": "dark"})
    for name in every_page(page, shop, SHOWN):
        check(page, f"{name}-narrow")
    page.set_viewport_size({"width": 1280, "height": 900})
    for name, path in pages_about_time(shop).items():
        page.goto(path)
        check(page, f"time-{name}")


def check(page, name):
    """Takes a picture, and looks whether what is ours is there and fits."""
    if not (KEPT or "CI" in os.environ):
        (PICTURES / f"unfold-{name}.png").write_bytes(page.screenshot(caret="initial"))
    assert page.locator("#main").or_(page.locator("main")).first.inner_text()
    ours, width = page.evaluate(
        "[(document.querySelector('.as-root') ?? document.body).scrollWidth, innerWidth]"
    )
    assert ours <= width, name
