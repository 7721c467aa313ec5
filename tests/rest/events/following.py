"""A client that reads what comes after a cursor, and what it should show in the end."""

from __future__ import annotations

from uuid import UUID

from django_agent_sessions.events import reading
from django_agent_sessions.events.cursor import Cursor
from django_agent_sessions.events.event_types import (
    Event,
    FeedbackEvent,
    RemovedEvent,
    ResetEvent,
    SessionEvent,
)
from django_agent_sessions.models import Session, SessionAgent

from .conftest import Speaking


class Follower:
    """A client that keeps nothing but what it was told and the last event's id."""

    def __init__(self, talk: Speaking, start: str = "now") -> None:
        self.talk = talk
        self.session = Session.objects.get(pk=talk.id)
        begin = reading.current_cursor if start == "now" else reading.first_cursor
        cursor = begin(self.session)
        assert cursor is not None
        self.last = cursor.encode()
        self.screen: dict[tuple[UUID, int], tuple[UUID, int, str]] = {}

    def follow(self, *, count: int = 50, drop_after: int | None = None) -> list[tuple[str, str]]:
        """Reads until nothing comes, or until the line breaks after some events."""
        told: list[tuple[str, str]] = []
        for _ in range(1000):
            cursor = Cursor.decode(self.last, self.talk.id)
            page = reading.read_events(self.session, cursor, count=count)
            assert page is not None
            for event in page.events:
                if drop_after is not None and len(told) >= drop_after:
                    return told
                told.append(self._apply(event, page.session))
                self.last = event.cursor.encode()
            self.last = page.cursor.encode()
            if not page.more:
                return told
        raise AssertionError("it tells for ever")

    def _apply(self, event: Event, session: Session) -> tuple[str, str]:
        if isinstance(event, RemovedEvent):
            for agent, position in list(self.screen):
                if agent == event.agent and position >= event.position:
                    del self.screen[agent, position]
            return "removed", str(event.position)
        if isinstance(event, SessionEvent):
            return "session", session.title
        if isinstance(event, FeedbackEvent):
            return "feedback", ""
        if isinstance(event, ResetEvent):
            self.screen = stored(self.talk)
            return "reset", event.reason.value
        row = event.row
        text = row.payload["content"][0]["text"]
        shown = (row.id, row.revision, text)
        before = self.screen.get((row.agent_id, row.message_id))
        assert before != shown, "it was told twice"
        self.screen[row.agent_id, row.message_id] = shown
        return event.change.value, text


def stored(talk: Speaking) -> dict[tuple[UUID, int], tuple[UUID, int, str]]:
    found = {}
    for agent in SessionAgent.objects.filter(session=talk.id):
        for row in agent.messages.filter(branch=0):
            content = row.message
            shown = (row.pk, row.revision, content["content"][0]["text"])
            found[agent.pk, row.message_id] = shown
    return found
