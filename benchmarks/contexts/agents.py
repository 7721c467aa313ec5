"""An agent that is told a text, notes it down by a tool that uses the ORM, and answers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from django.db import transaction

from benchmarks.contexts.models import Note
from django_agent_sessions.db.bridge import arun_orm, joined, run_orm
from tests.contexts.chats import NAMES, Call, Step, sdk_named

# Imported before the first request, whose transaction on SQLite would lock out the others.
AGENTS = {name: sdk_named(name) for name in NAMES}


def note(text: str) -> str:
    """Notes a text down.

    Args:
        text: The text.
    """
    run_orm(Note.objects.create, text=text)
    return "noted"


async def note_async(text: str) -> str:
    """Notes a text down.

    Args:
        text: The text.
    """
    await arun_orm(Note.objects.create, text=text)
    return "noted"


note_async.__name__ = "note"


def say(sdk: str, session_id: str, text: str) -> str:
    """Talk to an agent with a sync tool."""
    return AGENTS[sdk](session_id, steps=_steps(text), tools=[note]).say(text)


async def asay(sdk: str, session_id: str, text: str) -> str:
    """Talk to an agent with an async tool, in async code."""
    agent = await AGENTS[sdk].load(session_id, steps=_steps(text), tools=[note_async])
    return await agent.asay(text)


def declared(sdk: str) -> AbstractContextManager[None]:
    """Declare that this thread waits, where the SDK's sync tools need it in a transaction."""
    return (
        joined()
        if sdk == "openai" and transaction.get_connection().in_atomic_block
        else nullcontext()
    )


def _steps(text: str) -> list[Step]:
    return [Call("note", {"text": text}), f"noted {text}"]
