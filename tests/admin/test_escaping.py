"""HTML that the admin writes in Python escapes every value, as ``format_html`` does."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from django_agent_sessions.admin.formatting import html, join_html

VALUES = [
    "<script>alert(\"1\" + '2')</script>",
    "&lt;",
    "{0} {}",
    mark_safe("<b>written by the program</b>"),
    gettext_lazy("<i>"),
    UUID(int=1),
    7,
    None,
]


@pytest.mark.parametrize("value", VALUES)
def test_values_are_escaped_as_django_escapes_them(value):
    expected = format_html('<p title="{}">{}</p>', value, value)

    assert html('<p title="{}">{}</p>', value, value) == expected
    assert html("{}", expected) == expected
    assert join_html([value, expected]) == format_html("{}{}", value, expected)
