"""Saved views of the list of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import URLPattern, path
from django.utils.translation import gettext as _

from django_agent_sessions.db import bridge
from django_agent_sessions.models import SavedView
from django_agent_sessions.models.permissions import REVIEWING

from .changelist import SessionChangeList
from .filters import is_filter
from .pages import admin_url
from .permissions import SessionPermission, may, require

MAX_VIEWS = 30
"""The most views that the list shows."""

CONTENT_FILTERS: Final[Mapping[str, tuple[SessionPermission, ...]]] = {
    "metadata_": (SessionPermission.READ,),
    "label=": REVIEWING,
    "assignee=": REVIEWING,
}
"""The beginnings of parameters whose values are content, and what it takes to filter by them."""


class SavedViewForm(forms.Form):
    """The name of a new view, and who sees it."""

    name = forms.CharField(max_length=80)
    query = forms.CharField(max_length=1000, required=False, widget=forms.HiddenInput)
    shared = forms.BooleanField(required=False)

    def clean_query(self) -> str:
        """Keep filters, columns and order; the words of a search are not stored."""
        return viewed(QueryDict(self.cleaned_data["query"])).urlencode()


def viewed(parameters: QueryDict) -> QueryDict:
    """Return the parameters of a list that a view consists of."""
    kept = QueryDict(mutable=True)
    for name in sorted(parameters):
        if is_filter(name) or name in SessionChangeList.shown_parameters:
            kept[name] = str(parameters[name])
    return kept


def saved_views(request: HttpRequest) -> dict[str, Any]:
    """Return what the list shows of saved views."""
    current = viewed(request.GET).urlencode()
    views = _visible(request)[:MAX_VIEWS]
    return {
        "views": [(view, view.query == current, view.user_id == request.user.pk) for view in views],
        "view_form": SavedViewForm(initial={"query": current}) if current else None,
    }


def view_urls(model_admin: Any) -> list[URLPattern]:
    def save(request: HttpRequest) -> HttpResponse:
        """Save the filters, columns and order of the list under a name."""
        _require_post(request)
        form = SavedViewForm(request.POST)
        if form.is_valid():
            view = _rows().create(user_id=request.user.pk, **form.cleaned_data)
            return _list(model_admin, view.query)
        model_admin.message_user(
            request, _("Enter a name of at most 80 characters."), messages.ERROR
        )
        return _list(model_admin, viewed(QueryDict(request.POST.get("query", ""))).urlencode())

    def delete(request: HttpRequest, key: Any) -> HttpResponse:
        """Delete one of the user's saved views."""
        _require_post(request)
        if not _rows().filter(pk=key, user=request.user.pk).delete()[0]:
            raise Http404
        return _list(model_admin, "")

    guard = model_admin.admin_site.admin_view
    return [
        path("views/save/", guard(save), name="agent_sessions_savedview_add"),
        path("views/<uuid:key>/delete/", guard(delete), name="agent_sessions_savedview_delete"),
    ]


def _rows() -> Any:
    return SavedView.objects.using(bridge.database())


def _visible(request: HttpRequest) -> Any:
    """Return the views of the user, and shared views without content that the user may not read."""
    views, hidden = _rows().visible_to(request.user), Q()
    for name, needed in CONTENT_FILTERS.items():
        if not may(request, *needed):
            # Values are quoted, so that an "&" always precedes a name.
            hidden |= Q(query__startswith=name) | Q(query__contains=f"&{name}")
    return views.filter(~hidden | Q(user=request.user.pk)) if hidden else views


def _require_post(request: HttpRequest) -> None:
    require(request, SessionPermission.VIEW)
    if request.method != "POST":
        raise Http404


def _list(model_admin: Any, query: str) -> HttpResponse:
    url = admin_url(model_admin, "session_changelist")
    return HttpResponseRedirect(f"{url}?{query}" if query else url)
