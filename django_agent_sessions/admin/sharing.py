"""The page on which a session is shared: its participants and its links."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_agent_sessions import conf
from django_agent_sessions.exceptions import AgentSessionsError, SessionNotFoundError
from django_agent_sessions.governance import sharing
from django_agent_sessions.models import Participant, ShareLink
from django_agent_sessions.models.users import users

from .error_texts import error_text
from .transcript.viewers import Viewer, get_viewer_or_404
from .user_names import user_names

MOST = 200
"""The most participants, and links, that the page lists."""

_DAY = 24 * 60 * 60


def sharing_urls(model_admin: Any) -> list[URLPattern]:
    def page(request: HttpRequest, object_id: UUID) -> HttpResponse:
        """Show the participants and share links of a session, and change them on POST."""
        viewer = get_viewer_or_404(model_admin, request, object_id)
        if not viewer.can_share:
            raise Http404
        try:
            response = _page(model_admin, viewer)
        except SessionNotFoundError:
            # The session was deleted in the meantime.
            raise Http404 from None
        patch_cache_control(response, private=True, no_store=True)
        return response

    return [
        path(
            "<uuid:object_id>/sharing/",
            model_admin.admin_site.admin_view(page),
            name="agent_sessions_session_sharing",
        )
    ]


class ParticipantForm(forms.Form):
    """A participant to add."""

    user = forms.CharField(label=gettext_lazy("User name"), max_length=255)
    role = forms.ChoiceField(
        label=gettext_lazy("Role"), choices=Participant.Role.choices, widget=forms.RadioSelect
    )

    def __init__(self, viewer: Viewer, data: Any) -> None:
        super().__init__(data, initial={"role": Participant.Role.READER}, label_suffix="")
        self._viewer = viewer

    def clean_user(self) -> Any:
        """Return the primary key of the user who has the name."""
        name = get_user_model().USERNAME_FIELD
        rows = users(self._viewer.using).filter(**{name: self.cleaned_data["user"]})
        key = rows.values_list("pk", flat=True).first()
        if key is None or key == self._viewer.session.owner_id:
            raise forms.ValidationError(_("No other user has this name."))
        return key


class LinkForm(forms.Form):
    """A link to create."""

    days = forms.IntegerField(label=gettext_lazy("Days"), min_value=1, initial=1)

    def __init__(self, data: Any) -> None:
        super().__init__(data, label_suffix="")
        most = max(1, conf.get_settings().SHARE_LINK_SECONDS // _DAY)
        self.fields["days"] = forms.IntegerField(
            label=_("Days"), min_value=1, max_value=most, initial=min(7, most)
        )


@dataclass(frozen=True, slots=True)
class ListedPerson:
    """A participant, with the names of the user and of who added it."""

    row: Participant
    name: str
    added_by: str


@dataclass(frozen=True, slots=True)
class ListedLink:
    """A link, with the name of who created it."""

    row: ShareLink
    created_by: str


def _page(model_admin: Any, viewer: Viewer) -> HttpResponse:
    request = viewer.request
    step = request.POST.get("step", "")
    person = ParticipantForm(viewer, request.POST if step == "add" else None)
    link = LinkForm(request.POST if step == "link" else None)
    url = ""
    if request.method == "POST":
        try:
            done, url = _apply(viewer, step, person, link)
        except SessionNotFoundError:
            raise
        except AgentSessionsError as error:
            messages.error(request, error_text(error))
            done = ""
        if done:
            messages.success(request, done)
            return HttpResponseRedirect(f"{viewer.base_url}sharing/")
    return _render(model_admin, viewer, person=person, link=link, url=url)


def _apply(viewer: Viewer, step: str, person: ParticipantForm, link: LinkForm) -> tuple[str, str]:
    """Return what was done, and the URL of a new link, which is shown once."""
    key = viewer.session.pk
    given: dict[str, Any] = {"actor": viewer.request.user, "using": viewer.using}
    if step == "add" and person.is_valid():
        fields = person.cleaned_data
        sharing.add_participant(key, fields["user"], fields["role"], **given)
        return _("The participant was added."), ""
    if step == "remove":
        rows = Participant.objects.using(viewer.using).filter(session=key)
        user = rows.filter(pk=_key(viewer)).values_list("user", flat=True).first()
        if user is not None:
            sharing.remove_participant(key, user, **given)
        return _("The participant was removed."), ""
    if step == "link" and _link_route() and link.is_valid():
        lifetime = timedelta(days=link.cleaned_data["days"])
        _row, token = sharing.create_link(key, lifetime, **given)
        path_of_link = _link_route().replace(_TOKEN, token)
        return "", viewer.request.build_absolute_uri(path_of_link)
    if step == "revoke":
        sharing.revoke_link(key, _key(viewer), **given)
        return _("The link was revoked."), ""
    return "", ""


def _key(viewer: Viewer) -> UUID:
    try:
        return UUID(viewer.request.POST.get("key", ""))
    except ValueError:
        raise Http404 from None


_TOKEN = "TOKEN"  # noqa: S105 - the place of one


def _link_route() -> str:
    """Return the path of a link; empty if links are off, or the project has no API."""
    if not conf.get_settings().SHARE_LINKS:
        return ""
    try:
        return reverse("agent_sessions_api:shared", args=[_TOKEN])
    except NoReverseMatch:
        return ""


def _render(model_admin: Any, viewer: Viewer, **extra: Any) -> HttpResponse:
    rows = list(viewer.session.participants.using(viewer.using)[:MOST])
    links = list(viewer.session.share_links.using(viewer.using).order_by("-id")[:MOST])
    keys = [str(row.user_id) for row in rows]
    names = user_names([*keys, *(row.added_by for row in rows), *(row.created_by for row in links)])
    site = model_admin.admin_site
    context = {
        **site.each_context(viewer.request),
        "opts": model_admin.opts,
        "title": _("Sharing"),
        "viewer": viewer,
        "session": viewer.session,
        "people": [
            ListedPerson(row, names.get(key, key), names.get(row.added_by, row.added_by))
            for row, key in zip(rows, keys, strict=True)
        ],
        "links": [ListedLink(row, names.get(row.created_by, row.created_by)) for row in links],
        "links_on": bool(_link_route()),
        **extra,
    }
    viewer.request.current_app = site.name
    return TemplateResponse(viewer.request, "agent_sessions/admin/sharing.html", context)
