"""The cursor of a stream: a short text that a client sends to resume.

    <session>.<change>.<agent>:<position>,<agent>:<position>:<revision>

``change`` is the session's change number: every operation except an append increases it. Each agent
is named with the position of the last message that was sent, and that message's revision unless it
is 0. As long as the change number is the same, everything up to these positions is as it was sent.
Otherwise the change numbers of the messages tell what was replaced or redacted.

Two parts are optional. ``-<change>:<message>`` after the change number is the last redacted message
that was sent, if there are more than fit into a batch. ``~<agent>:<count>:<revisions>`` at the end
stands for the agents that have no room: the newest of them, how many positions they have, and the
sum of their last messages' revisions.

The same text is valid for all clients. It grants no access: it only says what to skip.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self
from uuid import UUID

MAX_NAMED_AGENTS = 70
"""Number of agents named in a cursor's text: those with the latest events."""

MAX_CURSOR_LENGTH = 4096
"""Maximum characters of a cursor; a header may have 8 KB."""

_MAX_INTEGER = 2**31 - 1
_KEY, _NUMBER = "[0-9a-f]{32}", "0|[1-9][0-9]{0,9}"
_SUM = "0|[1-9][0-9]{0,18}"
_AGENT = f"{_KEY}:(?:{_NUMBER})(?::[1-9][0-9]{{0,9}})?"
_TEXT = re.compile(
    rf"(?P<session>{_KEY})\.(?P<change>{_NUMBER})(?:-(?P<redaction>{_NUMBER}):(?P<message>{_KEY}))?"
    rf"\.(?P<agents>(?:{_AGENT}(?:,{_AGENT})*)?)(?:~(?P<newest>{_KEY}):(?P<positions>{_SUM}):(?P<revisions>{_SUM}))?"
)


class InvalidCursorError(ValueError):
    """The text is not a cursor of this session."""


class MessagePosition(NamedTuple):
    """The last message of an agent that was sent."""

    position: int
    revision: int


class RedactionPosition(NamedTuple):
    """The last redacted message that was sent, in order of changes and keys."""

    change: int
    message: UUID


class UnnamedAgents(NamedTuple):
    """The agents that a cursor's text does not name."""

    newest: UUID
    """The newest of them. Later agents that are not named are new to the client."""

    positions: int
    """How many positions they have."""

    revisions: int
    """The sum of the revisions of their last messages."""

    @classmethod
    def of(cls, ends: Mapping[UUID, MessagePosition]) -> Self | None:
        """Return the sums of agents; None if there are none."""
        if not ends:
            return None
        positions = sum(end.position + 1 for end in ends.values())
        return cls(max(ends), positions, sum(end.revision for end in ends.values()))


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position up to which a session's changes were sent."""

    session: UUID
    change: int
    agents: Mapping[UUID, MessagePosition] = field(default_factory=dict)
    """The last sent message of each agent that has any, those with the latest events last."""

    redaction: RedactionPosition | None = None
    unnamed: UnnamedAgents | None = None

    def with_agent(self, agent: UUID, last: MessagePosition | None) -> Cursor:
        """Return the cursor with an agent's last message; ``None`` removes the agent."""
        others = {key: value for key, value in self.agents.items() if key != agent}
        return replace(self, agents=others if last is None else {**others, agent: last})

    def position(self, agent: UUID) -> int:
        """Return the position of an agent's last message; -1 if none was sent."""
        return self.agents[agent].position if agent in self.agents else -1

    def unfold(self, change: int, ends: Mapping[UUID, MessagePosition]) -> Cursor | None:
        """Return the cursor with all agents, of which these are the ends; None if some changed.

        While the change number is the same, conversations only grow. If the sum of their positions
        is the same, the last messages are the same, and their revisions only grow too.
        """
        if self.unnamed is None:
            return self
        known = {
            agent: end
            for agent, end in ends.items()
            if agent not in self.agents and agent <= self.unnamed.newest
        }
        sums = UnnamedAgents.of(known)
        if change != self.change or sums is None or sums[1:] != self.unnamed[1:]:
            return None
        return replace(self, agents={**known, **self.agents}, unnamed=None)

    def encode(self) -> str:
        """Return the cursor as text that fits into a header and a URL."""
        names = list(self.agents)
        named, folded = names[-MAX_NAMED_AGENTS:], names[:-MAX_NAMED_AGENTS]
        unnamed = UnnamedAgents.of({key: self.agents[key] for key in folded}) or self.unnamed
        redaction = self.redaction
        return "".join(
            [
                f"{self.session.hex}.{self.change}",
                "" if redaction is None else f"-{redaction.change}:{redaction.message.hex}",
                ".",
                ",".join(_encode_agent(agent, self.agents[agent]) for agent in named),
                "" if unnamed is None else f"~{unnamed[0].hex}:{unnamed[1]}:{unnamed[2]}",
            ]
        )

    @classmethod
    def decode(cls, text: str, session: UUID) -> Self:
        """Parse a cursor; raise InvalidCursorError for any other text."""
        match = _TEXT.fullmatch(text) if len(text) <= MAX_CURSOR_LENGTH else None
        if match is None or UUID(match["session"]) != session:
            raise InvalidCursorError("the text is not a cursor of this session")
        redaction = unnamed = None
        if match["message"]:
            redaction = RedactionPosition(_integer(match["redaction"]), UUID(match["message"]))
        if match["newest"]:
            sums = int(match["positions"]), int(match["revisions"])
            unnamed = UnnamedAgents(UUID(match["newest"]), *sums)
        named = [*map(_decode_agent, filter(None, match["agents"].split(",")))]
        agents = dict(named)
        if len(agents) != len(named):
            raise InvalidCursorError("the text names an agent twice")
        return cls(session, _integer(match["change"]), agents, redaction, unnamed)


def _encode_agent(agent: UUID, last: MessagePosition) -> str:
    text = f"{agent.hex}:{last.position}"
    return f"{text}:{last.revision}" if last.revision else text


def _decode_agent(text: str) -> tuple[UUID, MessagePosition]:
    agent, position, *revision = text.split(":")
    return UUID(agent), MessagePosition(
        _integer(position), _integer(revision[0]) if revision else 0
    )


def _integer(text: str) -> int:
    value = int(text)
    if value > _MAX_INTEGER:
        raise InvalidCursorError("a number in the text is too large")
    return value
