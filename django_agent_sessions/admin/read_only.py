"""The base class of admins whose rows only programs write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.text import capfirst

if TYPE_CHECKING:
    # ModelAdmin is generic for the type checker only.
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(_ModelAdmin):
    """An admin without pages that add, change or delete rows."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        # Django's title asks the reader to select a row.
        context = {"title": capfirst(self.opts.verbose_name_plural), **(extra_context or {})}
        return super().changelist_view(request, context)
