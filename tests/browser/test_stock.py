"""With the stock admin."""

from __future__ import annotations

import pytest

from .skin_pages import test_every_page_fits_and_can_be_read_and_used_by_keyboard

__all__ = ["test_every_page_fits_and_can_be_read_and_used_by_keyboard"]
# A dozen pages each, in six looks: about twenty seconds.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
