"""How far a stream has told: a small text that a client hands back to go on.

Within one agent's conversation the order of positions is the order of commits, because a position
is decided by the statement that inserts the row. Primary keys are made by the writers before that,
so that one with a smaller key may come later: "all keys after the last" would lose messages.
A cursor therefore remembers, for each agent, the last position that was told, and which rows stood
there and right before it, because a ``pop`` and an append put another row at the same position;
and which row is the first, because another branch may become the main one.

Rows are remembered by digests. Nothing in a cursor reaches anything: it only says what is left out.

While a stream lasts, all agents are remembered. Its text names only some of them, because it goes
into a header; the others are folded into one fingerprint of where they stood. Whoever comes back
with it learns whether all of them still stand there, and begins anew if they do not.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self
from uuid import UUID

from .states import Head, Tail

ROWS = 4
"""How many of the last rows of an agent are remembered: that many may be popped at once without
the agent's conversation being told anew."""

REDACTIONS = 24
"""How many of the last redactions are remembered."""

AGENTS = 40
"""How many agents are named in a cursor's text: those that were told of last."""

LONGEST = 4096
"""Characters of the longest cursor that is written and read; a header is 8 KB long."""

_MOST = 2**31 - 1
_CLOCKS = 120_000
"""Milliseconds by which the clocks of two writers may differ."""

_NOTHING = bytes(6)


class InvalidCursorError(ValueError):
    """The text is no cursor of this session."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far one agent's conversation was told."""

    position: int
    rows: tuple[tuple[int, str], ...]
    """Revision and digest of the row at that position, of the one before it, and so on."""

    first: str = ""
    """Digest of the first row of the branch."""

    def then(self, position: int, revision: int, key: UUID) -> Place:
        """Moves on to the next row."""
        before = self.rows[: ROWS - 1] if position == self.position + 1 else ()
        first = self.first or digest(key)
        return Place(position, ((revision, digest(key)), *before), first)

    def with_revision(self, position: int, revision: int, key: UUID) -> Place:
        """Notes that a row changed, if it is one that is remembered."""
        index = self.position - position
        if not 0 <= index < len(self.rows) or self.rows[index][1] != digest(key):
            return self
        changed = (revision, self.rows[index][1])
        return replace(self, rows=(*self.rows[:index], changed, *self.rows[index + 1 :]))


@dataclass(frozen=True, slots=True)
class Pass:
    """How far redactions were looked through, in order of their keys."""

    redaction: UUID
    message: UUID
    """The last message that was looked at, of that redaction."""

    epoch: int
    """The session's redaction epoch when it began: one that came since may have a smaller key."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a session was told."""

    session: str
    """The session's digest: a cursor is for one session only."""

    epoch: int
    """The redactions up to this one were told."""

    head: str
    """The digest of what people note about the session."""

    agents: Mapping[str, Place]
    """How far each agent was told, by digests of the agents' keys."""

    redactions: tuple[UUID, ...] = ()
    """The newest redactions that were told, in order of their keys."""

    under_way: Pass | None = None
    """How far redactions were looked through that are being told."""

    folded: bytes | None = None
    """The fingerprint of agents that are not among ``agents``; None if all are."""

    def with_agent(self, agent: str, place: Place | None) -> Cursor:
        """Notes how far an agent was told; ``None`` if nothing of it is there."""
        others = {key: value for key, value in self.agents.items() if key != agent}
        return replace(self, agents=others if place is None else {**others, agent: place})

    def with_redaction(self, redaction: UUID) -> Cursor:
        """Notes that a redaction was told whole."""
        known = sorted({*self.redactions, redaction})[-REDACTIONS:]
        return replace(self, redactions=tuple(known), under_way=None)

    @property
    def oldest_redaction(self) -> UUID:
        """The smallest key that a redaction may have that was not told yet.

        If more came within the difference of clocks than are remembered, some of them are told
        again: better than to lose one.
        """
        if not self.redactions:
            return UUID(int=0)
        early = UUID(int=max(0, (self.redactions[-1].int >> 80) - _CLOCKS) << 80)
        return min(self.redactions[0], early)

    def unfolded(self, tails: Mapping[UUID, Tail | None]) -> Cursor | None:
        """Finds out which agents were folded, and where they stand.

        What is new has the newest messages. Without the right number of these agents, the others
        have the fingerprint of before, if nothing happened to them.
        """
        if self.folded is None:
            return self
        others = {
            digest(agent): tail
            for agent, tail in tails.items()
            if tail is not None and digest(agent) not in self.agents
        }
        places = {
            agent: place_at(tail)
            for agent, tail in sorted(others.items(), key=lambda item: item[1].id)
        }
        rest = fingerprint(places)
        for newest in reversed(list(places)):
            if rest == self.folded:
                break
            rest = _xor(rest, _mark(newest, places.pop(newest)))
        if rest != self.folded:
            return None
        return replace(self, agents={**places, **self.agents}, folded=None)

    def encode(self) -> str:
        """Writes the cursor as text that fits into a header and an address."""
        names = list(self.agents)
        kept = {name: self.agents[name] for name in names[-AGENTS:]}
        folded = self.folded
        if rest := names[:-AGENTS]:
            others = fingerprint({name: self.agents[name] for name in rest})
            folded = _xor(others, folded or _NOTHING)
        for rows in range(ROWS, 0, -1):
            text = self._written(kept, folded, rows)
            if len(text) <= LONGEST:
                break
        return text

    def _written(self, agents: Mapping[str, Place], folded: bytes | None, rows: int) -> str:
        value = {
            "s": self.session,
            "e": self.epoch,
            "h": self.head,
            "a": {
                key: [
                    place.position,
                    place.first,
                    *[part for row in place.rows[:rows] for part in row],
                ]
                for key, place in agents.items()
            },
            "r": [_short(key) for key in self.redactions],
        }
        if self.under_way is not None:
            at = self.under_way
            value["p"] = [_short(at.redaction), _short(at.message), at.epoch]
        if folded is not None:
            value["f"] = _text(folded)
        return _text(json.dumps(value, separators=(",", ":")).encode())

    @classmethod
    def decode(cls, text: str, session: UUID) -> Self:
        """Reads a cursor."""
        try:
            return cls._decoded(text, session)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error):
            raise InvalidCursorError("this is no cursor of this session") from None

    @classmethod
    def _decoded(cls, text: str, session: UUID) -> Self:
        if len(text) > LONGEST:
            raise ValueError
        value = json.loads(_bytes(text))
        agents = {_digest(key): _place(place) for key, place in value["a"].items()}
        redactions = tuple(sorted({_uuid(key) for key in value["r"]}))
        if value["s"] != digest(session) or len(redactions) > REDACTIONS:
            raise ValueError
        return cls(
            session=value["s"],
            epoch=_figure(value["e"]),
            head=_digest(value["h"]),
            agents=agents,
            redactions=redactions,
            under_way=_pass(value["p"]) if "p" in value else None,
            folded=_bytes(_digest(value["f"])) if "f" in value else None,
        )


def place_at(tail: Tail) -> Place:
    """Gives the place behind an agent's last message."""
    return Place(tail.position, ((tail.revision, digest(tail.id)),), digest(tail.first))


def fingerprint(places: Mapping[str, Place]) -> bytes:
    """Shortens where agents stand, in any order."""
    return functools.reduce(_xor, (_mark(*item) for item in places.items()), _NOTHING)


@functools.lru_cache(maxsize=4096)
def _mark(agent: str, place: Place) -> bytes:
    said = f"{agent} {place.position} {place.rows[0]} {place.first}"
    return hashlib.blake2b(said.encode(), digest_size=6).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def digest(key: UUID) -> str:
    """Shortens a primary key."""
    return _digest_of(key.bytes)


def digest_of_head(head: Head) -> str:
    """Shortens what people note about a session."""
    return _digest_of(repr(head).encode(errors="surrogatepass"))


def _digest_of(value: bytes) -> str:
    return _text(hashlib.blake2b(value, digest_size=6).digest())


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _short(key: UUID) -> str:
    return _text(key.bytes)


def _uuid(value: Any) -> UUID:
    return UUID(bytes=_bytes(value))


def _digest(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 8:
        raise ValueError
    return value


def _figure(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError
    return value


def _pass(value: Any) -> Pass:
    redaction, message, epoch = value
    return Pass(_uuid(redaction), _uuid(message), _figure(epoch))


def _place(value: Any) -> Place:
    position, first, *parts = value
    revisions, digests = parts[::2], parts[1::2]
    if not 0 < len(digests) == len(revisions) <= ROWS:
        raise ValueError
    rows = zip(map(_figure, revisions), map(_digest, digests), strict=True)
    return Place(_figure(position), tuple(rows), _digest(first))
