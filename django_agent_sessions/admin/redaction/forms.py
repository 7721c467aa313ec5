"""The forms of a redaction, and the message that it starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_agent_sessions.admin.pages import parse_key_or_404
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.content import detectors
from django_agent_sessions.content.paths import Path, path_from_json, path_to_json
from django_agent_sessions.governance.redaction import Block, Detect, Find, Scope, WholeMessage
from django_agent_sessions.governance.redaction.scope_groups import SHORTEST_TEXT
from django_agent_sessions.models import SessionMessage

LONGEST = 2000
"""The most characters of a text to search for; redact longer ones as a part."""

_MAX_PATH_LENGTH = 1000
_MAX_PATH_DEPTH = 50

PART, MESSAGE, TEXT, DETECT = "part", "message", "text", "detect"
SESSION = "session"


@dataclass(frozen=True, slots=True)
class Target:
    """The message, or the part of one, that the user selected."""

    message: UUID
    position: int
    agent: str
    role: str
    path: Path

    @property
    def address(self) -> str:
        return path_to_json(self.path)


def find_target(viewer: Viewer, params: Mapping[str, Any]) -> Target | None:
    """Return the message that the parameters name, if any; raise Http404 if it does not exist."""
    if (key := parse_key_or_404(params.get("message"))) is None:
        return None
    path = _parse_path(str(params.get("path") or "[]"))
    rows = SessionMessage.objects.using(viewer.using).filter(pk=key, session=viewer.session)
    values: Any = rows.values_list("message_id", "agent__agent_id", "role")
    position, agent, role = get_object_or_404(values)
    return Target(key, position, agent, role, path)


def _parse_path(text: str) -> Path:
    try:
        path = path_from_json(text) if len(text) <= _MAX_PATH_LENGTH else None
    except ValueError:
        path = None
    if path is None or len(path) > _MAX_PATH_DEPTH:
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
            "The search ignores case, escaping and line breaks. It does not find a text with "
            "formatting marks inside it, as in 12**34**."
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
        selected = [(MESSAGE, _("The whole message"))] if target else []
        if target and target.path:
            selected.insert(0, (PART, _("This part of the message")))
        searches = [(TEXT, _("A text")), (DETECT, _("Kinds of data, such as addresses or keys"))]
        choices = [*selected, *searches]
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
        """Require the text or the detectors of the selected option."""
        cleaned: dict[str, Any] = super().clean() or {}
        what = cleaned.get("what")
        if what == TEXT and "text" in cleaned and not cleaned["text"]:
            self.add_error("text", _("Enter the text to search for."))
        elif what == TEXT and len(cleaned.get("text", "").strip()) < SHORTEST_TEXT:
            least = _("Enter at least %(count)d characters to search for.")
            self.add_error("text", least % {"count": SHORTEST_TEXT})
        if what == DETECT and "detectors" in cleaned and not cleaned["detectors"]:
            self.add_error("detectors", _("Choose at least one kind."))
        return cleaned

    @property
    def is_search(self) -> bool:
        """Whether to search, instead of redacting the selected message or part."""
        return self.cleaned_data["what"] in (TEXT, DETECT)

    @property
    def everywhere(self) -> bool:
        return self.is_search and (self.target is None or self.cleaned_data["where"] == SESSION)

    @property
    def descendants(self) -> bool:
        return bool(self.cleaned_data.get("forks"))

    @property
    def excluded_forks(self) -> int:
        """The number of forks that the redaction does not include."""
        return 0 if self.descendants else self._forks

    def scope(self) -> Scope:
        """Return the scope of the redaction; call it on a valid form only."""
        data = self.cleaned_data
        only = None if self.everywhere or self.target is None else self.target.message
        if data["what"] == TEXT:
            return Find(data["text"], message=only)
        if data["what"] == DETECT:
            return Detect(tuple(data["detectors"]), message=only)
        assert only is not None and self.target is not None  # noqa: S101, PT018 - not a choice else
        if data["what"] == PART:
            return Block(only, self.target.path)
        return WholeMessage(only)
