"""Names of newer Strands releases, and their replacements where the installed one lacks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strands import Agent
from strands.session.session_manager import SessionManager

if TYPE_CHECKING:
    from strands.types.agent import LocalAgent

    LocalSessionManager = SessionManager[LocalAgent]
else:
    # From 1.55 on, the class of managers is generic.
    LocalAgent = Agent
    LocalSessionManager = SessionManager

__all__ = [
    "BIDI_AGENTS",
    "BIDI_STOP_EVENTS",
    "MESSAGE_UPDATED_EVENTS",
    "LocalAgent",
    "LocalSessionManager",
]

# Bidirectional agents have sessions from 1.57 on.
BIDI_AGENTS: tuple[type[Any], ...] = ()
BIDI_STOP_EVENTS: tuple[type[Any], ...] = ()
MESSAGE_UPDATED_EVENTS: tuple[type[Any], ...] = ()

try:
    from strands.bidi import BidiAgent
    from strands.bidi.hooks.events import BidiAgentStopEvent, BidiResponseStopEvent
    from strands.hooks.events import MessageUpdatedEvent
except ImportError:
    pass
else:
    BIDI_AGENTS = (BidiAgent,)
    BIDI_STOP_EVENTS = (BidiResponseStopEvent, BidiAgentStopEvent)
    MESSAGE_UPDATED_EVENTS = (MessageUpdatedEvent,)
