"""What to redact and why, as forms; and the message that somebody pointed at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.http import Http404
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_agent_sessions import detectors
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.redaction import Block, Detect, Find, Scope, WholeMessage
from django_agent_sessions.references import Path
from django_agent_sessions.transcripts.blocks import address_of, path_of

LONGEST = 2000
"""Characters of a text to look for. More is better redacted as a part."""

REASON = 3
"""Characters of the shortest reason."""

_LONGEST_PATH = 1000
_DEEPEST = 50

PART, MESSAGE, TEXT, DETECT = "part", "message", "text", "detect"
SESSION = "session"


@dataclass(frozen=True, slots=True)
class Target:
    """The message, or the part of one, that somebody pointed at."""

    message: UUID
    position: int
    agent: str
    role: str
    path: Path

    @property
    def address(self) -> str:
        """The path as JSON."""
        return address_of(self.path)


def target(viewer: Viewer, given: Mapping[str, Any]) -> Target | None:
    """Finds what somebody pointed at."""
    if not given.get("message"):
        return None
    try:
        key = UUID(str(given["message"]))
    except ValueError:
        raise Http404 from None
    path = _path(str(given.get("path") or "[]"))
    row = (
        SessionMessage.objects.using(viewer.using)
        .filter(pk=key, session=viewer.session)
        .values_list("message_id", "agent__agent_id", "role")
        .first()
    )
    if row is None:
        raise Http404
    return Target(key, *row, path)


def _path(text: str) -> Path:
    try:
        path = path_of(text) if len(text) <= _LONGEST_PATH else None
    except ValueError:
        path = None
    if path is None or len(path) > _DEEPEST:
        raise Http404
    return path


class ScopeForm(forms.Form):
    """What to redact."""

    what = forms.ChoiceField(label=_("What to redact"), widget=forms.RadioSelect)
    text = forms.CharField(
        label=_("The text"),
        required=False,
        max_length=LONGEST,
        widget=forms.Textarea({"rows": 2, "autocomplete": "off", "spellcheck": "false"}),
        help_text=_(
            "It is found in any case, and however it is escaped or wrapped; "
            "not with marks of formatting within it, as in 12**34**."
        ),
    )
    detectors = forms.MultipleChoiceField(
        label=_("Kinds of data"), required=False, widget=forms.CheckboxSelectMultiple
    )
    where = forms.ChoiceField(
        label=_("Where"),
        required=False,
        widget=forms.RadioSelect,
        choices=[
            (SESSION, _("Everywhere in this session: messages, states, title and metadata")),
            (MESSAGE, _("Only in this message")),
        ],
    )

    forks = forms.BooleanField(required=False)

    def __init__(self, target: Target | None, data: Any = None, *, forks: int = 0) -> None:
        self.target = target
        self._forks = forks
        pointed = [(MESSAGE, _("All that this message says"))] if target else []
        if target and target.path:
            pointed.insert(0, (PART, _("This part of the message")))
        searched = [(TEXT, _("A text")), (DETECT, _("Kinds of data, such as addresses or keys"))]
        choices = [*pointed, *searched]
        super().__init__(
            data, initial={"what": choices[0][0], "where": MESSAGE if target else SESSION}
        )
        self._field("what").choices = choices
        self._field("detectors").choices = list(detectors.labels().items())
        if target is None:
            del self.fields["where"]
        if forks:
            label = ngettext("Also in %(count)d fork", "Also in %(count)d forks", forks)
            self.fields["forks"].label = label % {"count": forks}
        else:
            del self.fields["forks"]

    def _field(self, name: str) -> forms.ChoiceField:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        return field

    def clean(self) -> dict[str, Any]:
        """Asks for what the choice needs."""
        cleaned: dict[str, Any] = super().clean() or {}
        what = cleaned.get("what")
        if what == TEXT and "text" in cleaned and not cleaned["text"]:
            self.add_error("text", _("Say which text to look for."))
        if what == DETECT and "detectors" in cleaned and not cleaned["detectors"]:
            self.add_error("detectors", _("Choose at least one kind."))
        return cleaned

    @property
    def searches(self) -> bool:
        """Whether it looks for something, and does not take what was pointed at."""
        return self.cleaned_data["what"] in (TEXT, DETECT)

    @property
    def everywhere(self) -> bool:
        """Whether it looks in the whole session."""
        return self.searches and (self.target is None or self.cleaned_data["where"] == SESSION)

    @property
    def descendants(self) -> bool:
        """Whether it redacts in what was forked from the session, too."""
        return bool(self.cleaned_data.get("forks"))

    @property
    def spared(self) -> int:
        """How many forks of the session keep what is redacted."""
        return 0 if self.descendants else self._forks

    def scope(self) -> Scope:
        """Gives the valid form as a scope of a redaction."""
        chosen = self.cleaned_data
        only = None if self.everywhere or self.target is None else self.target.message
        if chosen["what"] == TEXT:
            return Find(chosen["text"], message=only)
        if chosen["what"] == DETECT:
            return Detect(tuple(chosen["detectors"]), message=only)
        assert only is not None and self.target is not None  # noqa: S101, PT018 - not a choice else
        if chosen["what"] == PART:
            return Block(only, self.target.path)
        return WholeMessage(only)


class ReasonForm(forms.Form):
    """Why to redact."""

    reason = forms.CharField(
        label=_("Reason"),
        min_length=REASON,
        max_length=500,
        widget=forms.TextInput({"autocomplete": "off"}),
        help_text=_("It is kept in the audit trail with your name. Do not repeat what you redact."),
    )
