"""Lists whose pages are found by the key of a row at their edge; nothing is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.http import HttpRequest

AFTER = "after"
"""The parameter of a page that goes on after a row."""


class KeyChangeList(ChangeList):
    """A list that has one order."""

    own_parameters: ClassVar[tuple[str, ...]] = (AFTER,)
    """Those that say where the page is."""

    newest_url = ""
    older_url = ""

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        """Leaves out where the page is, which is no filter."""
        remaining: dict[str, Any] = super().get_filters_params(params)
        return {k: v for k, v in remaining.items() if k not in self.own_parameters}

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """Begins at the first page again, unless a link says which."""
        positions = dict.fromkeys(self.own_parameters)
        return super().get_query_string({**positions, **(new_params or {})}, remove)

    def show(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Makes rows the page."""
        shown: Any = rows
        self.result_list = shown
        # Nobody counted. What is said to be all there is keeps Django from offering the rest.
        self.result_count = self.full_result_count = len(rows)
        self.show_full_result_count = False
        self.can_show_all = self.multi_page = False
        self.paginator = Paginator(rows, self.list_per_page)
        begun = any(request.GET.get(parameter) for parameter in self.own_parameters)
        self.newest_url = self.get_query_string() if begun else ""
        # The form of the search and Django's own links begin at the first page.
        for parameter in self.own_parameters:
            self.params.pop(parameter, None)
            self.filter_params.pop(parameter, None)
