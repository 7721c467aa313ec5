"""Actions on all sessions that the list's filters match: the page that starts an operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.sites import all_sites
from django.contrib.admin.views.main import SEARCH_VAR
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import URLPattern
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.governance.reasons import OPERATION_ACTIONS
from django_agent_sessions.models import Operation, Session
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS
from django_agent_sessions.queries import matching
from django_agent_sessions.queries.titles import with_readable_titles

from .changelist import SessionChangeList
from .filters import reject_nul
from .formatting import shown_title
from .input_filters import InputFilter
from .pages import ReasonForm, admin_url, private_path, render
from .permissions import SessionPermission, may, reach

MAX_COUNTED, SAMPLES = 10_000, 5
_Kind = Operation.Kind


class UnappliedFilterError(IncorrectLookupParameters):
    """A filter has no effect, so that more than the user meant would match."""


class MatchingSessions(SessionChangeList):
    """All sessions that the filters match, read from the primary; it reads no page."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        self._alias = bridge.database()
        sessions = super().get_queryset(request, exclude_parameters)
        if missing := [name for name in self._given() if name not in self.applied]:
            raise UnappliedFilterError(f"no filter applies {', '.join(map(repr, missing))}")
        return sessions

    def _given(self) -> Iterator[str]:
        """Yield the parameters with a value: forms also send their empty fields."""
        for name, values in self.get_filters_params().items():
            if values[-1].strip():
                yield name

    @property
    def applied(self) -> dict[str, list[str]]:
        """The parameters that a filter applies. Django omits a filter without choices silently."""
        return {
            name: values
            for name, values in self.get_filters_params().items()
            if any(_applies(spec, name, values[-1]) for spec in self.filter_specs)
        }

    def get_results(self, request: HttpRequest) -> None:
        """Do nothing."""

    def in_words(self) -> list[tuple[Any, str]]:
        """Return the names and values of the filters, as the list shows them."""
        words = []
        for spec in self.filter_specs:
            names = [name for name in spec.expected_parameters() if name]
            if values := [each for name in names for each in self.filter_params.get(name) or ()]:
                chosen = [each["display"] for each in spec.choices(self) if each.get("selected")]
                fields = [f"{f.label}: {f.value}" for f in getattr(spec, "fields", ()) if f.value]
                words.append((spec.title, ", ".join(map(str, fields or chosen or values))))
        return words


def _applies(spec: Any, name: str, value: str) -> bool:
    """Return whether a filter of the list reduces the matches by this parameter."""
    if name not in spec.expected_parameters():
        return False
    if isinstance(spec, InputFilter):
        if not spec.is_permitted():
            return False
        if name in spec.names():
            return bool(spec.text(name))
    choices = getattr(spec, "lookup_choices", None)
    return choices is None or value in {str(choice) for choice, _label in choices}


def match_query(
    model_admin: Any, user: Any, query: QueryDict, as_of: datetime | None = None
) -> MatchingSessions:
    """Return what the list of a user matches with these parameters."""
    reject_nul({SEARCH_VAR: query.getlist(SEARCH_VAR)})
    request: Any = HttpRequest()
    request.method, request.GET, request.user = "GET", query, user
    request.all_matches, request.as_of = True, as_of
    matches: MatchingSessions = model_admin.get_changelist_instance(request)
    return matches


def change_list_for(request: HttpRequest) -> type[SessionChangeList]:
    return MatchingSessions if getattr(request, "all_matches", False) else SessionChangeList


def stored_matches(
    user: Any, criteria: Mapping[str, Any], as_of: datetime | None = None
) -> MatchingSessions:
    """Return what an operation's criteria match.

    Raises ``IncorrectLookupParameters`` unless each stored filter is applied, so that an operation
    never reaches more sessions than those that its user confirmed.
    """
    query = QueryDict(mutable=True)
    for name, values in criteria["filters"].items():
        query.setlist(name, values)
    site = next(site for site in all_sites if site.name == criteria["site"])
    # Dates are of the time zone in which they were entered.
    with timezone.override(criteria.get("time_zone") or timezone.get_default_timezone()):
        matches = match_query(site.get_model_admin(Session), user, query, as_of)
    if missing := criteria["filters"].keys() - matches.applied.keys():
        raise UnappliedFilterError(f"no filter applies {', '.join(map(repr, sorted(missing)))}")
    return matches


def _sessions(user: Any, criteria: Mapping[str, Any], as_of: datetime) -> QuerySet[Session]:
    sessions: QuerySet[Session] = stored_matches(user, criteria, as_of).queryset
    return sessions


matching.define_matches(_sessions)


class OperationForm(ReasonForm):
    """What to do with all matches, why, and a typed confirmation of what cannot be undone."""

    kind = forms.ChoiceField(label=gettext_lazy("What to do"), widget=forms.RadioSelect)
    confirm = forms.CharField(
        label=gettext_lazy("Confirmation"),
        required=False,
        help_text=gettext_lazy("This cannot be undone. Type “delete” or “redact” to confirm."),
        widget=forms.TextInput({"autocomplete": "off"}),
    )

    def __init__(self, kinds: list[_Kind], data: Any, *, is_preview: bool = False) -> None:
        kind = data["kind"] if data and data.get("kind") in kinds else kinds[0]
        # A preview keeps what was entered, and requires nothing.
        filled: Any = {"initial": data.dict()} if is_preview else {"data": data}
        super().__init__(OPERATION_ACTIONS[kind], **filled)
        # The browser does not know what the chosen kind requires.
        self.use_required_attribute = False
        self.fields["kind"].choices = [(each.value, each.label) for each in kinds]  # type: ignore[attr-defined] # a ChoiceField

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        kind = cleaned.get("kind")
        if kind in (_Kind.DELETE, _Kind.REDACT) and cleaned.get("confirm", "").lower() != kind:
            self.add_error("confirm", _("Type “%(word)s” to confirm.") % {"word": kind})
        return cleaned


def operation_urls(model_admin: Any) -> list[URLPattern]:
    return [private_path(model_admin, "all/", partial(start_view, model_admin), "session_all")]


def start_view(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Ask what to do with all sessions that match, and start it."""
    # Imported here to keep the start of processes and commands fast.
    from django_agent_sessions import operations

    from .redaction.bulk_preview import preview_matches
    from .redaction.forms import ScopeForm

    if not (kinds := _permitted_kinds(request)):
        raise Http404
    try:
        matches = match_query(model_admin, request.user, request.GET)
    except IncorrectLookupParameters:
        return HttpResponseRedirect(admin_url(model_admin, "session_changelist"))
    to_redact = request.POST if request.POST.get("kind") == _Kind.REDACT else None
    scope = ScopeForm(None, to_redact) if _Kind.REDACT in kinds else None
    is_preview = bool(scope and to_redact and to_redact.get("step") == "preview")
    form = OperationForm(kinds, request.POST or None, is_preview=is_preview)
    preview = None
    if is_preview and scope and scope.is_valid():
        preview = preview_matches(model_admin, request, matches.queryset, scope.scope())
    if form.is_valid() and (to_redact is None or (scope and scope.is_valid())):
        operation = operations.start(
            form.cleaned_data["kind"],
            user=request.user,
            criteria={
                "site": model_admin.admin_site.name,
                "time_zone": getattr(timezone.get_current_timezone(), "key", None),
                "filters": matches.applied,
            },
            reason=form.cleaned_data["reason"],
            found=matches.found.sessions if matches.found else None,
            scope=scope.scope() if scope and to_redact else None,  # type: ignore[arg-type] # a search
        )
        begin(operation)
        return HttpResponseRedirect(admin_url(model_admin, "operation_change", operation.pk))
    sessions = matches.queryset
    count = sessions.order_by()[: MAX_COUNTED + 1].count()
    context = {
        "title": _("All sessions that match"),
        "form": form,
        "scope": scope,
        "preview": preview,
        "words": matches.in_words(),
        "query": request.GET.get(SEARCH_VAR, "").strip(),
        "found": matches.found,
        "count": min(count, MAX_COUNTED),
        "is_more": count > MAX_COUNTED,
        "samples": _samples(request, sessions),
        "in_process": conf.get_settings().OPERATIONS_IN_PROCESS,
        "list_url": f"../{matches.get_query_string()}",
    }
    return render(model_admin, request, "operation_start", **context)


def _samples(request: HttpRequest, sessions: Any) -> list[tuple[Session, str]]:
    """Return the first sessions with their titles, where the user may read them."""
    rows = with_readable_titles(sessions.defer("metadata", "origin")[:SAMPLES])
    readable = reach(request, SessionPermission.READ).among(rows)
    return [(row, shown_title(row, readable=row.pk in readable)) for row in rows]


def begin(operation: Operation) -> None:
    """Run an operation in this process after the commit, if the setting says so."""
    from django_agent_sessions.operations import run_in_thread

    if conf.get_settings().OPERATIONS_IN_PROCESS:
        using = str(operation._state.db)
        transaction.on_commit(partial(run_in_thread, operation.pk, using=using), using=using)


def _permitted_kinds(request: HttpRequest) -> list[_Kind]:
    from django_agent_sessions.blobs.export_files import storage_alias

    kinds = [kind for kind in _Kind if may(request, *OPERATION_PERMISSIONS[kind])]
    return [kind for kind in kinds if kind != _Kind.EXPORT or storage_alias()]
