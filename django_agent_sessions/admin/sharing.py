"""The page on which a session is shared: its participants and its links."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_agent_sessions import conf
from django_agent_sessions.exceptions import AgentSessionsError, SessionNotFoundError
from django_agent_sessions.governance import sharing
from django_agent_sessions.models import Participant
from django_agent_sessions.models.users import user_names, users

from .pages import error_text, parse_key_or_404
from .transcript.viewers import Viewer

MOST = 200
"""The most participants, and links, that the page lists."""

_DAY = 24 * 60 * 60


class ParticipantForm(forms.Form):
    user = forms.CharField(label=gettext_lazy("User name"), max_length=255)
    role = forms.ChoiceField(
        label=gettext_lazy("Role"),
        choices=[(value, capfirst(label)) for value, label in Participant.Role.choices],
        widget=forms.RadioSelect,
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
    def __init__(self, data: Any) -> None:
        super().__init__(data, label_suffix="")
        most = max(1, conf.get_settings().SHARE_LINK_SECONDS // _DAY)
        self.fields["days"] = forms.IntegerField(
            label=_("Days"), min_value=1, max_value=most, initial=min(7, most)
        )


def sharing_view(viewer: Viewer) -> HttpResponse:
    """Show participants and links, and make the change that is sent."""
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
    return _render(viewer, person=person, link=link, url=url)


def _apply(viewer: Viewer, step: str, person: ParticipantForm, link: LinkForm) -> tuple[str, str]:
    """Return what was done, and the URL of a new link, which is shown once."""
    session, key = viewer.session, parse_key_or_404(viewer.request.POST.get("key"))
    given: dict[str, Any] = {"actor": viewer.request.user, "using": viewer.using}
    if step == "add" and person.is_valid():
        fields = person.cleaned_data
        sharing.add_participant(session, fields["user"], fields["role"], **given)
        return _("The participant was added."), ""
    if step == "remove" and key:
        rows = Participant.objects.using(viewer.using).filter(session=session)
        user = rows.filter(pk=key).values_list("user", flat=True).first()
        if user is not None:
            sharing.remove_participant(session, user, **given)
        return _("The participant was removed."), ""
    if step == "link" and _link_route() and link.is_valid():
        lifetime = timedelta(days=link.cleaned_data["days"])
        _row, token = sharing.create_link(session, lifetime, **given)
        path_of_link = _link_route().replace(_TOKEN, token)
        return "", viewer.request.build_absolute_uri(path_of_link)
    if step == "revoke" and key:
        sharing.revoke_link(session, key, **given)
        return _("The link was revoked."), ""
    return "", ""


_TOKEN = "TOKEN"  # noqa: S105 - the place of one


def _link_route() -> str:
    """Return the path of a link; empty if links are off, or the project has no API."""
    if not conf.get_settings().SHARE_LINKS:
        return ""
    try:
        return reverse("agent_sessions_api:shared", args=[_TOKEN])
    except NoReverseMatch:
        return ""


def _render(viewer: Viewer, **extra: Any) -> HttpResponse:
    rows = list(viewer.session.participants.using(viewer.using)[:MOST])
    links = list(viewer.session.share_links.using(viewer.using).order_by("-id")[:MOST])
    keys = [str(row.user_id) for row in rows]
    names = user_names([*keys, *(row.added_by for row in rows), *(row.created_by for row in links)])
    context = {
        "title": _("Sharing"),
        "people": [
            (row, names.get(key, key), names.get(row.added_by, row.added_by))
            for row, key in zip(rows, keys, strict=True)
        ],
        "links": [(row, names.get(row.created_by, row.created_by)) for row in links],
        "links_on": bool(_link_route()),
        **extra,
    }
    return viewer.render("sharing", **context)
