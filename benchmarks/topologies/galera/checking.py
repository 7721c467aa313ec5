"""Whether what is in the database is what the writers were told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .journal import Told


@dataclass(frozen=True)
class Stored:
    """A message as a node has it."""

    session: str
    agent: str
    position: int
    key: str
    labels: tuple[str, ...]
    payload: str


def problems(told: Told, stored: list[Stored]) -> list[str]:
    """Compares one node with what its cluster's writers were told."""
    found = []
    places = [(message.session, label) for message in stored for label in message.labels]
    at = {label: session for session, label in places}
    lost = sorted(label for label, session in told.acknowledged.items() if at.get(label) != session)
    if lost:
        found.append(f"{len(lost)} acknowledged messages are lost, such as {lost[:5]}")
    doubled = sorted(label for (_, label), count in Counter(places).items() if count > 1)
    if doubled:
        found.append(f"{len(doubled)} messages are there more than once, such as {doubled[:5]}")
    strange = sorted(set(at) - set(told.acknowledged) - told.unknown_files)
    if strange:
        found.append(f"{len(strange)} messages were never written, such as {strange[:5]}")
    conversations: dict[tuple[str, str], list[int]] = {}
    for message in stored:
        conversations.setdefault((message.session, message.agent), []).append(message.position)
    found += [
        f"session {session!r}, agent {agent!r}: positions are not dense"
        for (session, agent), positions in sorted(conversations.items())
        if sorted(positions) != list(range(len(positions)))
    ]
    return found


def differences(one: list[Stored], other: list[Stored]) -> list[str]:
    """Compares two nodes, which are to have the same."""
    mine, theirs = set(one), set(other)
    found = []
    if missing := mine - theirs:
        found.append(f"{len(missing)} messages are not on the other node, or not the same there")
    if more := theirs - mine:
        found.append(f"{len(more)} messages are on the other node only, or not the same here")
    return found
