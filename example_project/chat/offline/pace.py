"""How fast the offline models speak: word by word, so that a stream is seen, and can be stopped.

``EXAMPLE_WORD_DELAY`` is the seconds between two words; 0.03 if it is not set.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator

_WORD = re.compile(r"\s*\S+\s*|\s+")


async def words(text: str) -> AsyncIterator[str]:
    """Speaks a text.

    Args:
        text: What to say.

    Yields:
        Its words in time, with the white space between them; joined, they are the text.
    """
    delay = float(os.environ.get("EXAMPLE_WORD_DELAY", "0.03"))
    for word in _WORD.findall(text):
        if delay:
            await asyncio.sleep(delay)
        yield word
