"""The review of a session: a section beside the conversation, and the page that changes it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.db import transaction
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import AgentSessionsError, SessionNotFoundError
from django_agent_sessions.governance import reviews
from django_agent_sessions.models import Label, Note, Review
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.models.permissions import REVIEWING
from django_agent_sessions.models.review import MAX_LABEL
from django_agent_sessions.models.users import users
from django_agent_sessions.store.contents import MAX_NOTE

from .pages import error_text, parse_key_or_404
from .permissions import reach
from .transcript.viewers import Viewer

MAX_SHOWN_NOTES = 50
"""The most notes that a page shows, the newest."""


class NoteForm(forms.Form):
    text = forms.CharField(
        label=gettext_lazy("Note"), max_length=MAX_NOTE, widget=forms.Textarea({"rows": 3})
    )


class _AnyChoices(forms.MultipleChoiceField):
    """Also names that are not offered any more; the service checks them."""

    def valid_value(self, value: Any) -> bool:
        return True


class ReviewForm(forms.Form):
    """The state, the assignee and the labels of a session; of a message, only the labels."""

    state = forms.ChoiceField(label=gettext_lazy("State"), required=False)
    assignee = forms.CharField(
        label=gettext_lazy("Assignee"),
        required=False,
        max_length=255,
        widget=forms.TextInput({"list": "as-reviewers", "autocomplete": "off"}),
        help_text=gettext_lazy("User name; empty for nobody"),
    )
    labels = _AnyChoices(
        label=gettext_lazy("Labels"), required=False, widget=forms.CheckboxSelectMultiple
    )
    new_label = forms.CharField(
        label=gettext_lazy("New label"), required=False, max_length=MAX_LABEL
    )

    def __init__(self, viewer: Viewer, message: UUID | None, data: Any = None) -> None:
        known = review_of(viewer)
        review = known or Review(state="")
        own = Label.objects.using(viewer.using).filter(session=viewer.session, message=message)
        names = list(own.order_by("name").values_list("name", flat=True))
        initial = {"state": review.state, "assignee": review.assignee, "labels": names}
        super().__init__(data, initial=initial)
        reachable, fields = reach(viewer.request, *REVIEWING), dict[str, Any](self.fields)
        names += reviews.suggested_labels(reachable, using=viewer.using)
        fields["labels"].choices = [(name, displayable(name)) for name in dict.fromkeys(names)]
        if message is not None:
            del self.fields["state"], self.fields["assignee"]
            return
        self._using = viewer.using
        self.suggested = [displayable(name) for name in reviews.reviewer_names()]
        none = [] if known else [("", _("not under review"))]
        states = [*none, *Review.State.choices]
        fields["state"].choices = [(value, capfirst(str(label))) for value, label in states]

    def clean_assignee(self) -> Any:
        """Return the user with this name, or None if the field is empty or did not change."""
        name = self.cleaned_data["assignee"]
        if not name or "assignee" not in self.changed_data:
            return None
        rows = users(self._using).filter(**{get_user_model().USERNAME_FIELD: name})
        user: Any = rows.first()
        if user is None or not user.is_staff:
            raise forms.ValidationError(_("No staff member has this name."))
        return user

    def save(self, viewer: Viewer, message: UUID | None) -> None:
        data, user, session = self.cleaned_data, viewer.request.user, viewer.session
        if "state" in self.changed_data and data["state"]:
            reviews.set_state(session, Review.State(data["state"]), actor=user)
        if "assignee" in self.changed_data:
            reviews.assign(session, data["assignee"], actor=user)
        names = {*data["labels"], *filter(None, [data["new_label"]])}
        reviews.set_labels(session, names, actor=user, message=message)


def review_view(viewer: Viewer) -> HttpResponse:
    """Show the forms of a session, of a message or of a note, and save the one that is sent."""
    request = viewer.request
    message, note = parse_key_or_404(request.GET.get("message")), _own_note(viewer)
    data = request.POST if request.method == "POST" else None
    of_note = data is not None and ("text" in data or note is not None)
    note_form = NoteForm(data if of_note else None, initial={"text": _text(note) if note else ""})
    form = None if note else ReviewForm(viewer, message, None if of_note else data)
    sent: Any = note_form if of_note else form
    try:
        if data is not None and ((note and "delete" in data) or sent.is_valid()):
            with transaction.atomic(viewer.using):
                _save(viewer, sent, note, message)
            messages.success(request, _("The review was saved."))
            at = note.message_id if note else message
            where = f"{viewer.here}at={at}#m-{at}" if at else f"{viewer.page}{viewer.kept}"
            return HttpResponseRedirect(where)
    except SessionNotFoundError:
        raise
    except AgentSessionsError as error:
        # Bounds and legal hold: the texts of the errors contain ids only.
        sent.add_error(None, error_text(error))
    title = _("Edit note") if note else _("Review message") if message else _("Review")
    return viewer.render("review", title=title, form=form, note_form=note_form, note=note)


def _save(viewer: Viewer, form: Any, note: Note | None, message: UUID | None) -> None:
    session, user = viewer.session, viewer.request.user
    if isinstance(form, ReviewForm):
        form.save(viewer, message)
    elif note is None:
        reviews.add_note(session, form.cleaned_data["text"], author=user, message=message)
    elif "delete" in viewer.request.POST:
        reviews.delete_note(session, note.pk, author=user)
    else:
        reviews.edit_note(session, note.pk, form.cleaned_data["text"], author=user)


def section(viewer: Viewer) -> dict[str, Any] | None:
    """Return what a conversation's page shows of its review; None for other users."""
    if not viewer.can_review:
        return None
    session: Any = viewer.session
    labels = Label.objects.using(viewer.using).filter(session=session).order_by("name")
    notes = Note.objects.using(viewer.using).filter(session=session).order_by("-pk")
    # The row tells whether there are any.
    names = list(labels.values_list("name", "message")) if session.has_labels else []
    rows = list(notes[: MAX_SHOWN_NOTES + 1]) if session.has_notes else []
    own = str(viewer.request.user.pk)
    return {
        "review": review_of(viewer),
        "labels": [(displayable(name), message) for name, message in names],
        "notes": [(one, _text(one), one.author_id == own) for one in rows[:MAX_SHOWN_NOTES]],
        "more": len(rows) > MAX_SHOWN_NOTES,
        "form": NoteForm(auto_id="as-new-note-%s"),
    }


def review_of(viewer: Viewer) -> Review | None:
    """Return the review, which is selected with the session."""
    return getattr(viewer.session, "review", None)


def _text(note: Note) -> str:
    text: Any = note.text
    return _("(damaged)") if isinstance(text, CorruptPayload) else displayable(str(text))


def _own_note(viewer: Viewer) -> Note | None:
    if (key := parse_key_or_404(viewer.request.GET.get("note"))) is None:
        return None
    rows = Note.objects.using(viewer.using).filter(session=viewer.session)
    return get_object_or_404(rows, pk=key, author_id=str(viewer.request.user.pk))
