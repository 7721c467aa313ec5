#!/usr/bin/env bash
# llama-index-core 0.14.25: delete_message(key, idx) of SQLAlchemyChatStore takes the primary key of the table, where
# SimpleChatStore takes the index in the conversation.
#
# One would expect that the second argument means the same in both stores: it is called idx, and the class is "meant to
# replace all other chat store classes". An index that is no row of this key returns None without an error, and an index
# that happens to be the row of another message of the key deletes that one.
#
# Seen on 2026-11-29: delete_message("s", 2) deletes "c" of a, b, c, d in SimpleChatStore, and "b" in SQLAlchemyChatStore;
# delete_message("s", 0) deletes "a" in the one, and nothing in the other.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check \
    'llama-index-core==0.14.25' 'sqlalchemy==2.1.9' 'aiosqlite==0.22.1' 'greenlet==3.5.6'
"$folder/venv/bin/python" - "$folder" <<'PY'
import asyncio
import sys

from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

TEXTS = ["a", "b", "c", "d"]
messages = [ChatMessage(role="user", content=text) for text in TEXTS]


def text(message):
    return None if message is None else message.content


async def in_a_table(path, index):
    store = SQLAlchemyChatStore("chat", f"sqlite+aiosqlite:///{path}{index}.db")
    await store.add_messages("s", messages)
    return text(await store.delete_message("s", index))


def in_memory(index):
    store = SimpleChatStore()
    store.set_messages("s", list(messages))
    return text(store.delete_message("s", index))


found = [(in_memory(i), asyncio.run(in_a_table(f"{sys.argv[1]}/chat", i))) for i in (2, 0)]
print("deleted by index 2:", found[0], "- by index 0:", found[1])
assert found == [("c", "b"), ("a", None)], f"this changed: {found}"
PY
