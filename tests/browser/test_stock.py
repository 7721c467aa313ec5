"""With the stock admin."""

from __future__ import annotations

import pytest

from .admin_pages import LIST
from .skin_pages import (
    WIDTHS,
    size,
    test_every_page_fits_and_can_be_read_and_used_by_keyboard,
    test_the_search_and_the_filters_beside_it_are_sent,
)

__all__ = [
    "test_every_page_fits_and_can_be_read_and_used_by_keyboard",
    "test_the_search_and_the_filters_beside_it_are_sent",
]
# A dozen pages each, in six looks: about twenty seconds.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def test_the_menu_of_columns_opens_on_the_page_in_every_width(open_page):
    page = open_page(LIST)
    page.locator(".as-menu summary").click()
    for width in WIDTHS:
        page.set_viewport_size(size(width))
        box = page.locator(".as-menu ul").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
