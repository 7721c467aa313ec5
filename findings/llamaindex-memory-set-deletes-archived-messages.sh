#!/usr/bin/env bash
# llama-index-core 0.14.25: Memory.set(Memory.get()) deletes the archived messages, and stores the memory's own words.
#
# One would expect that writing back what was read, with a text masked on the way, changes that text. get() returns the
# active messages after a system message that it makes of the memory blocks; messages beyond the token limit are in the
# table as archived, and get_all() returns them. set() deletes the rows of every status, stores what it is given as
# active, and so the system message becomes a message of the conversation: the next get() has the memory twice. The
# deletion is committed before the first insert.
#
# Seen on 2026-11-29: before 12 messages stored, 10 of them archived; after 3, none archived, one of them the memory.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check \
    'llama-index-core==0.14.25' 'sqlalchemy==2.1.9' 'aiosqlite==0.22.1' 'greenlet==3.5.6'
"$folder/venv/bin/python" - "$folder" <<'PY'
import asyncio
import sys

from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory, StaticMemoryBlock
from llama_index.core.storage.chat_store.base_db import MessageStatus


async def main(folder):
    memory = Memory.from_defaults(
        session_id="s",
        token_limit=100,
        chat_history_token_ratio=0.4,
        token_flush_size=20,
        memory_blocks=[StaticMemoryBlock(name="note", static_content="The user likes trains.")],
        async_database_uri=f"sqlite+aiosqlite:///{folder}/chat.db",
    )
    for number in range(6):
        for role in ("user", "assistant"):
            text = f"{role} {number}, with some words that fill the queue"
            await memory.aput(ChatMessage(role=role, content=text))

    async def stored():
        archived = await memory.aget_all(status=MessageStatus.ARCHIVED)
        return len(await memory.aget_all()), len(archived)

    before = await stored()
    await memory.aset(await memory.aget())
    after = await stored()
    told = sum(block.text.count("likes trains") for m in await memory.aget() for block in m.blocks)
    return before, after, told


found = asyncio.run(main(sys.argv[1]))
print("stored and archived before", found[0], "after", found[1], "- memory told", found[2], "times")
assert found == ((12, 10), (3, 0), 2), f"this changed: {found}"
PY
