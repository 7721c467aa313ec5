"""Another process that restores: ``python -m tests.blobs.restorer strands|openai STORAGE``.

It prints the hash of the conversation ``s``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from typing import Any

import django
from django.test import override_settings

django.setup()


def digest(value: Any) -> str:
    """The hash of a payload with all its bytes."""
    text = json.dumps(value, default=lambda data: data.hex(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def restored(sdk: str) -> list[Any]:
    """The conversation, as an agent of this process has it."""
    # Only one of them: an SDK takes seconds to import.
    if sdk == "strands":
        from tests.adapters.strands.agents import build

        return list(build().messages)
    from django_agent_sessions.adapters.openai_agents import DjangoSession

    return list(asyncio.run(DjangoSession("s").get_items()))


if __name__ == "__main__":
    with override_settings(
        STORAGES={"blobs": json.loads(sys.argv[2])}, AGENT_SESSIONS={"BLOB_STORAGE": "blobs"}
    ):
        print("ready")
        print(digest(restored(sys.argv[1])))
