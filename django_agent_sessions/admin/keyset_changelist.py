"""Change lists with keyset pagination and without counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.http import HttpRequest

AFTER = "after"
"""The query parameter of a page that starts after a row."""


class KeysetChangeList(ChangeList):
    """A change list with one fixed order and keyset pagination."""

    own_parameters: ClassVar[tuple[str, ...]] = (AFTER,)
    """The pagination parameters."""
    shown_parameters: ClassVar[tuple[str, ...]] = ()
    """Other parameters that are no filters."""

    newest_url = ""
    older_url = ""

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        """Exclude the parameters that are no filters."""
        remaining: dict[str, Any] = super().get_filters_params(params)
        own = {*self.own_parameters, *self.shown_parameters}
        return {k: v for k, v in remaining.items() if k not in own}

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """Return to the first page unless ``new_params`` names another."""
        positions = dict.fromkeys(self.own_parameters)
        return super().get_query_string({**positions, **(new_params or {})}, remove)

    def show(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        result_list: Any = rows
        self.result_list = result_list
        # There is no count. With the rows as the total, Django offers no "Show all" link.
        self.result_count = self.full_result_count = len(rows)
        self.show_full_result_count = False
        self.can_show_all = self.multi_page = False
        self.paginator = Paginator(rows, self.list_per_page)
        is_later_page = any(request.GET.get(parameter) for parameter in self.own_parameters)
        self.newest_url = self.get_query_string() if is_later_page else ""
        # The search form and Django's links start at the first page.
        for parameter in self.own_parameters:
            self.params.pop(parameter, None)
            self.filter_params.pop(parameter, None)
