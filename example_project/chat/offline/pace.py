"""How fast the offline models speak: word by word, so that a stream is seen, and can be stopped.

``EXAMPLE_WORD_DELAY`` is the seconds between two words; 0.03 if it is not set.
``EXAMPLE_FIRST_DELAY`` is the seconds before a model begins to say something, and
``EXAMPLE_TOOL_DELAY`` those that a tool takes; none if they are not set. Each may be a range, such
as ``0.5-2``, of which every answer has a pace of its own.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections.abc import AsyncIterator

_WORD = re.compile(r"\s*\S+\s*|\s+")


async def first() -> None:
    """Waits as long as a model does before it begins."""
    if delay := _drawn("EXAMPLE_FIRST_DELAY", "0"):
        await asyncio.sleep(delay)


async def words(text: str) -> AsyncIterator[str]:
    """Speaks a text.

    Args:
        text: What to say.

    Yields:
        Its words in time, with the white space between them; joined, they are the text.
    """
    delay = _drawn("EXAMPLE_WORD_DELAY", "0.03")
    for word in _WORD.findall(text):
        if delay:
            await asyncio.sleep(delay)
        yield word


def look_up() -> None:
    """Waits as long as a tool does, in the tool's thread."""
    if delay := _drawn("EXAMPLE_TOOL_DELAY", "0"):
        time.sleep(delay)


def _drawn(name: str, default: str) -> float:
    least, _, most = os.environ.get(name, default).partition("-")
    return random.uniform(float(least), float(most or least))
