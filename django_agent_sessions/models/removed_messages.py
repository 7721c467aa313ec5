"""The keys of the messages that were last removed from an agent, in the agent's row.

A writer whose connection broke looks for its rows before it writes them again. If another process
has removed them meanwhile, only this tells that they were written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import F, Model, TextField
from django.db.models.functions import Coalesce, Concat, Left

from .functions import TypedText

if TYPE_CHECKING:
    from django_agent_sessions import models as tables

MAX_REMOVED = 50
"""The most keys that an agent's row has, of the messages that were removed last."""

_KEY_LENGTH = 32
# The key and the position, in hexadecimal digits.
_LENGTH = _KEY_LENGTH + 8


def last_of(rows: Any) -> list[tuple[UUID, UUID, int]]:
    """Return agent, key and position of the last of these messages, newest first."""
    last = rows.order_by("-message_id").values_list("agent", "pk", "message_id")
    return list(last[:MAX_REMOVED])


def remember_removed(
    agents: type[Model], using: str, removed: Iterable[tuple[UUID, UUID, int]]
) -> None:
    """Write the keys of removed messages into their agents' rows, which the caller's lock covers.

    ``removed`` has what :func:`last_of` returns.
    """
    agent_of = itemgetter(0)
    for agent, found in groupby(sorted(removed, key=agent_of), agent_of):
        # The one that was first in its conversation was the last to go.
        last = sorted(found, key=itemgetter(2))
        entries = "".join(f"{key.hex}{position:08x}" for _, key, position in last)
        earlier = Coalesce(F("removed_messages"), TypedText(""), output_field=TextField())
        agents._base_manager.using(using).filter(pk=agent).update(
            removed_messages=Left(
                Concat(TypedText(entries), earlier, output_field=TextField()), MAX_REMOVED * _LENGTH
            )
        )


def removed_positions(
    agents: type[tables.SessionAgent], using: str, agent: UUID, keys: Collection[UUID]
) -> dict[UUID, int]:
    """Return the positions that those of the messages had which were removed from the agent."""
    rows = agents._base_manager.using(using).filter(pk=agent)
    text = rows.values_list("removed_messages", flat=True).first() or ""
    wanted = {key.hex: key for key in keys}
    return {
        wanted[entry[:_KEY_LENGTH]]: int(entry[_KEY_LENGTH:], 16)
        for entry in _entries(text)
        if entry[:_KEY_LENGTH] in wanted
    }


def removed_before(text: str, key: UUID) -> bool:
    """Return whether an agent's ``removed_messages`` have one that is as old as a key, or older."""
    return any(entry[:_KEY_LENGTH] <= key.hex for entry in _entries(text))


def _entries(text: str) -> Iterator[str]:
    return (text[start : start + _LENGTH] for start in range(0, len(text), _LENGTH))
