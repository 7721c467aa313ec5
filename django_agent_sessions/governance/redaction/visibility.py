"""What the user who redacts may see: a redaction tells nothing about the rest.

Otherwise a redaction would test guesses: its counts, its epoch or its error would differ if a
staff note, another user's comment or an agent's state had the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from django.db.models import Model

from django_agent_sessions.models import (
    HeldCopy,
    Label,
    MessageFeedback,
    Note,
    Session,
    SessionAgent,
    SessionMultiAgent,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.models.access import SessionReach

_STATES: frozenset[type[Model]] = frozenset(
    {SessionAgent, SessionMultiAgent, Snapshot, StoredObject, HeldCopy}
)


@dataclass(frozen=True, slots=True)
class Visibility:
    """What a user sees in a session besides its conversation, title and metadata.

    The rest is searched only for the texts that were found in what the user sees.

    Attributes:
        states: The states of agents and orchestrators, snapshots and stored objects.
        reviews: Notes and labels.
        comments_of: The key of the user whose comments alone are seen; None for all.
    """

    states: bool = True
    reviews: bool = True
    comments_of: str | None = None

    @property
    def hidden_models(self) -> frozenset[type[Model]]:
        """The models with rows that the user does not see."""
        models: set[type[Model]] = set() if self.states else {*_STATES}
        models |= set() if self.reviews else {Note, Label}
        return frozenset(models if self.comments_of is None else {*models, MessageFeedback})

    def hides(self, row: Model) -> bool:
        """Return whether the user does not see the row."""
        if isinstance(row, MessageFeedback):
            return self.comments_of is not None and row.user != self.comments_of
        return type(row) in self.hidden_models

    @property
    def hidden(self) -> list[str]:
        """The kinds of content that the user does not see."""
        kinds = {
            "state": not self.states,
            "note": not self.reviews,
            "comment": self.comments_of is not None,
        }
        return [kind for kind, is_hidden in kinds.items() if is_hidden]


SessionVisibility: TypeAlias = Callable[[Session], Visibility]


def staff_visibility(reviews: SessionReach) -> SessionVisibility:
    """Return what a user sees of sessions in the admin, where it takes the permission to redact.

    ``reviews`` are the sessions whose reviews the user sees, by the permissions of ``REVIEWING``.
    """
    return lambda session: Visibility(reviews=reviews.includes(session))
