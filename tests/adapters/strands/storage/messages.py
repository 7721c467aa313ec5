"""Messages of Strands that were written at known times."""

from __future__ import annotations

from typing import Any

from strands.types.session import SessionMessage

MIDNIGHT = "2024-02-29T00:00:00+00:00"
LATER = "2024-02-29T01:02:03.456789+00:00"


def message(text: str, number: int, **content: Any) -> SessionMessage:
    blocks: Any = [{"text": text}, *([content] if content else [])]
    return SessionMessage(
        {"role": "user", "content": blocks}, number, created_at=MIDNIGHT, updated_at=LATER
    )
