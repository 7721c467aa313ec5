#!/usr/bin/env bash
# llama-index-core 0.14.25: Memory.reset() leaves what was extracted from the deleted messages, in the same object and
# for every other session that uses the block.
#
# One would expect that a reset, as for a person who asks to be forgotten, empties the memory of its session. It deletes
# the rows of the messages. A FactExtractionMemoryBlock keeps its facts, and the next get() puts them before the
# conversation; facts have no session, so a second Memory with the same block tells them under another session's id,
# with or without a reset.
#
# Seen on 2026-11-29: after reset() no message is stored, and get() of both sessions has the fact.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check \
    'llama-index-core==0.14.25' 'sqlalchemy==2.1.9' 'aiosqlite==0.22.1' 'greenlet==3.5.6'
"$folder/venv/bin/python" - "$folder" <<'PY'
import asyncio
import sys

from llama_index.core.llms import ChatMessage, CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.memory import FactExtractionMemoryBlock, Memory


class Scripted(CustomLLM):
    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, formatted=False, **options):
        return CompletionResponse(text="<facts><fact>Lives in Main Street</fact></facts>")

    def stream_complete(self, prompt, formatted=False, **options):
        raise NotImplementedError


async def main(folder):
    facts = FactExtractionMemoryBlock(name="facts", llm=Scripted())

    def memory(session):
        return Memory.from_defaults(
            session_id=session,
            token_limit=100,
            chat_history_token_ratio=0.4,
            token_flush_size=20,
            memory_blocks=[facts],
            async_database_uri=f"sqlite+aiosqlite:///{folder}/chat.db",
        )

    first, second = memory("first"), memory("second")
    for number in range(6):
        for role in ("user", "assistant"):
            text = f"{role} {number}, with some words that fill the queue"
            await first.aput(ChatMessage(role=role, content=text))
    await first.areset()
    stored = len(await first.aget_all())

    async def told(memory):
        return sum("Main Street" in str(message.content) for message in await memory.aget())

    return stored, await told(first), await told(second)


found = asyncio.run(main(sys.argv[1]))
print("stored", found[0], "- told in the session", found[1], "- in another session", found[2])
assert found == (0, 1, 1), f"this changed: {found}"
PY
