#!/usr/bin/env bash
# openai-agents 0.24.0: a compaction on a side branch of AdvancedSQLiteSession deletes all branches, and main gets the
# summary of the side branch.
#
# One would expect the compaction to replace the items of the branch that is in use: get_items() and add_items() work
# on that branch alone. The wrapper calls clear_session(), which deletes every branch and makes main the current one,
# and then adds the summary there. Nothing raises: what main said is gone, and what it has instead is another talk.
#
# Seen on 2026-11-29: before main 4 items, side 3; after main 1 item (the summary), side none.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'openai-agents==0.24.0' 'openai==3.52.0'
OPENAI_AGENTS_DISABLE_TRACING=1 "$folder/venv/bin/python" - "$folder" <<'PY'
import asyncio
import sys
from types import SimpleNamespace

from agents.extensions.memory import AdvancedSQLiteSession
from agents.memory.openai_responses_compaction_session import OpenAIResponsesCompactionSession


class Responses:
    async def compact(self, **options):
        summary = {"type": "compaction", "id": "cmp_1", "encrypted_content": "summary"}
        return SimpleNamespace(id="resp_1", output=[summary], usage=None)


def message(role, text):
    return {"role": role, "content": text}


async def main(path):
    store = AdvancedSQLiteSession(session_id="s", db_path=path, create_tables=True)
    await store.add_items([message("user", "one"), message("assistant", "1")])
    await store.add_items([message("user", "two"), message("assistant", "2")])
    await store.create_branch_from_turn(2, "side")
    await store.add_items([message("user", "other")])

    async def counts():
        return {name: len(await store.get_items(branch_id=name)) for name in ("main", "side")}

    before = await counts()
    client = SimpleNamespace(responses=Responses())
    session = OpenAIResponsesCompactionSession("s", store, client=client)
    await session.run_compaction({"force": True, "compaction_mode": "input"})
    return before, await counts()


found = asyncio.run(main(f"{sys.argv[1]}/sessions.db"))
print("before", found[0], "after", found[1])
expected = ({"main": 4, "side": 3}, {"main": 1, "side": 0})
assert found == expected, f"this changed: {found}"
PY
