"""With django-unfold in place of the stock admin."""

from __future__ import annotations

import pytest

from .skins import every_page_with

pytest.importorskip("unfold")


# Some fifty pages, each in six looks: about a minute.
@pytest.mark.timeout(600)
def test_every_page_fits_and_can_be_read_and_used_by_keyboard_with_unfold():
    every_page_with("unfold")
