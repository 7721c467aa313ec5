"""The cursor of a stream: a short text that a client sends to resume.

Within one agent's conversation the order of positions is the order of commits, because the
statement that inserts a row decides its position. Primary keys are created earlier by the writers,
so that a row with a smaller key may commit later, and "all keys after the last" would lose
messages. A cursor therefore stores for each agent the last sent position, and digests of the rows
there and before it, because after a ``pop`` an append reuses the position; and a digest of the
first row, because another branch may become the main one.

A cursor grants no access: it only says what to skip.

During a stream the cursor holds all agents. Its text names only some, because it must fit into a
header; the others are folded into one fingerprint of their positions. If the fingerprint of a
resumed cursor does not match, the stream starts over.
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

from .session_states import ConversationEnds, SessionHeader

ROWS_PER_AGENT = 4
"""Number of last rows stored per agent. After a larger pop the conversation is sent again."""

MAX_REDACTIONS = 24
"""Number of last redactions stored."""

MAX_NAMED_AGENTS = 40
"""Number of agents named in a cursor's text: those with the latest events."""

MAX_CURSOR_LENGTH = 4096
"""Maximum characters of a cursor; a header may have 8 KB."""

_MAX_INTEGER = 2**31 - 1
_CLOCK_TOLERANCE = 120_000
"""Tolerated difference between the clocks of two writers, in milliseconds."""

_EMPTY_FINGERPRINT = bytes(6)


class InvalidCursorError(ValueError):
    """The text is not a cursor of this session."""


@dataclass(frozen=True, slots=True)
class AgentPosition:
    """The position up to which one agent's conversation was sent."""

    position: int
    rows: tuple[tuple[int, str], ...]
    """Revision and digest of the row at that position, of the one before it, and so on."""

    first: str = ""
    """Digest of the branch's first row."""

    def after_row(self, position: int, revision: int, key: UUID) -> AgentPosition:
        """Return the place after the next row."""
        previous = self.rows[: ROWS_PER_AGENT - 1] if position == self.position + 1 else ()
        first = self.first or digest(key)
        return AgentPosition(position, ((revision, digest(key)), *previous), first)

    def with_revision(self, position: int, revision: int, key: UUID) -> AgentPosition:
        """Return the place with a row's new revision, if the row is among the stored ones."""
        index = self.position - position
        if not 0 <= index < len(self.rows) or self.rows[index][1] != digest(key):
            return self
        changed = (revision, self.rows[index][1])
        return replace(self, rows=(*self.rows[:index], changed, *self.rows[index + 1 :]))


@dataclass(frozen=True, slots=True)
class RedactionScan:
    """A position in a scan of redactions, in order of their keys."""

    redaction: UUID
    message: UUID
    """The last scanned message of that redaction."""

    epoch: int
    """The redaction epoch at the start; a later redaction may have a smaller key."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position up to which a session's changes were sent."""

    session: str
    """Digest of the session; a cursor is valid for one session only."""

    epoch: int
    """Redaction epoch up to which redactions were sent."""

    head: str
    """Digest of the session's title, dates and flags."""

    agents: Mapping[str, AgentPosition]
    """Places by digests of the agents' keys."""

    redactions: tuple[UUID, ...] = ()
    """The newest redactions that were sent, in order of their keys."""

    redaction_scan: RedactionScan | None = None
    """Position of the scan of redactions, while one is in progress."""

    folded_fingerprint: bytes | None = None
    """Fingerprint of the agents that are not in ``agents``; None if all are."""

    def with_agent(self, agent: str, place: AgentPosition | None) -> Cursor:
        """Return the cursor with an agent's place; ``None`` removes the agent."""
        others = {key: value for key, value in self.agents.items() if key != agent}
        return replace(self, agents=others if place is None else {**others, agent: place})

    def with_redaction(self, redaction: UUID) -> Cursor:
        """Return the cursor after all messages of a redaction were sent."""
        known = sorted({*self.redactions, redaction})[-MAX_REDACTIONS:]
        return replace(self, redactions=tuple(known), redaction_scan=None)

    @property
    def oldest_redaction(self) -> UUID:
        """The smallest key that an unsent redaction may have.

        If more redactions than are stored came within the tolerated difference of clocks, some are
        sent again; none is lost.
        """
        if not self.redactions:
            return UUID(int=0)
        early = UUID(int=max(0, (self.redactions[-1].int >> 80) - _CLOCK_TOLERANCE) << 80)
        return min(self.redactions[0], early)

    def unfold(self, tails: Mapping[UUID, ConversationEnds | None]) -> Cursor | None:
        """Return the cursor with the folded agents; None if they changed.

        New agents have the newest messages. Without them, newest first, the remaining agents match
        the fingerprint if nothing happened to them.
        """
        if self.folded_fingerprint is None:
            return self
        unnamed = {
            digest(agent): tail
            for agent, tail in tails.items()
            if tail is not None and digest(agent) not in self.agents
        }
        places = {
            agent: position_after(tail)
            for agent, tail in sorted(unnamed.items(), key=lambda item: item[1].id)
        }
        remaining = row_fingerprint(places)
        for newest in reversed(list(places)):
            if remaining == self.folded_fingerprint:
                break
            remaining = _xor(remaining, _hash(newest, places.pop(newest)))
        if remaining != self.folded_fingerprint:
            return None
        return replace(self, agents={**places, **self.agents}, folded_fingerprint=None)

    def encode(self) -> str:
        """Return the cursor as text that fits into a header and a URL."""
        names = list(self.agents)
        named = {name: self.agents[name] for name in names[-MAX_NAMED_AGENTS:]}
        folded = self.folded_fingerprint
        if unnamed := names[:-MAX_NAMED_AGENTS]:
            unnamed_fingerprint = row_fingerprint({name: self.agents[name] for name in unnamed})
            folded = _xor(unnamed_fingerprint, folded or _EMPTY_FINGERPRINT)
        for rows in range(ROWS_PER_AGENT, 0, -1):
            text = self._text_with_rows(named, folded, rows)
            if len(text) <= MAX_CURSOR_LENGTH:
                break
        return text

    def _text_with_rows(
        self, agents: Mapping[str, AgentPosition], folded: bytes | None, rows: int
    ) -> str:
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
            "r": [_encode_key(key) for key in self.redactions],
        }
        if self.redaction_scan is not None:
            scan = self.redaction_scan
            value["p"] = [_encode_key(scan.redaction), _encode_key(scan.message), scan.epoch]
        if folded is not None:
            value["f"] = _to_base64(folded)
        return _to_base64(json.dumps(value, separators=(",", ":")).encode())

    @classmethod
    def decode(cls, text: str, session: UUID) -> Self:
        """Parse a cursor; raise InvalidCursorError for any other text."""
        try:
            return cls._parse(text, session)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error):
            raise InvalidCursorError("the text is not a cursor of this session") from None

    @classmethod
    def _parse(cls, text: str, session: UUID) -> Self:
        if len(text) > MAX_CURSOR_LENGTH:
            raise ValueError
        value = json.loads(_from_base64(text))
        agents = {_parse_digest(key): _parse_place(place) for key, place in value["a"].items()}
        redactions = tuple(sorted({_parse_key(key) for key in value["r"]}))
        if value["s"] != digest(session) or len(redactions) > MAX_REDACTIONS:
            raise ValueError
        return cls(
            session=value["s"],
            epoch=_parse_integer(value["e"]),
            head=_parse_digest(value["h"]),
            agents=agents,
            redactions=redactions,
            redaction_scan=_parse_pass(value["p"]) if "p" in value else None,
            folded_fingerprint=_from_base64(_parse_digest(value["f"])) if "f" in value else None,
        )


def position_after(tail: ConversationEnds) -> AgentPosition:
    """Return the place after an agent's last message."""
    return AgentPosition(tail.position, ((tail.revision, digest(tail.id)),), digest(tail.first))


def row_fingerprint(places: Mapping[str, AgentPosition]) -> bytes:
    """Return a fingerprint of agents' places that does not depend on their order."""
    return functools.reduce(_xor, (_hash(*item) for item in places.items()), _EMPTY_FINGERPRINT)


@functools.lru_cache(maxsize=4096)
def _hash(agent: str, place: AgentPosition) -> bytes:
    text = f"{agent} {place.position} {place.rows[0]} {place.first}"
    return hashlib.blake2b(text.encode(), digest_size=6).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def digest(key: UUID) -> str:
    """Return a short digest of a primary key."""
    return _digest_of(key.bytes)


def digest_of_head(head: SessionHeader) -> str:
    """Return a short digest of a session's title, dates and flags."""
    return _digest_of(repr(head).encode(errors="surrogatepass"))


def _digest_of(value: bytes) -> str:
    return _to_base64(hashlib.blake2b(value, digest_size=6).digest())


def _to_base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _encode_key(key: UUID) -> str:
    return _to_base64(key.bytes)


def _parse_key(value: Any) -> UUID:
    return UUID(bytes=_from_base64(value))


def _parse_digest(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 8:
        raise ValueError
    return value


def _parse_integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_INTEGER:
        raise ValueError
    return value


def _parse_pass(value: Any) -> RedactionScan:
    redaction, message, epoch = value
    return RedactionScan(_parse_key(redaction), _parse_key(message), _parse_integer(epoch))


def _parse_place(value: Any) -> AgentPosition:
    position, first, *parts = value
    revisions, digests = parts[::2], parts[1::2]
    if not 0 < len(digests) == len(revisions) <= ROWS_PER_AGENT:
        raise ValueError
    rows = zip(map(_parse_integer, revisions), map(_parse_digest, digests), strict=True)
    return AgentPosition(_parse_integer(position), tuple(rows), _parse_digest(first))
