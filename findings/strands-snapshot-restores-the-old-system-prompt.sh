#!/usr/bin/env bash
# strands-agents 1.62.0: SnapshotSessionManager brings back the system prompt of the release that saved the session.
#
# One would expect the prompt in the code to win, as with FileSessionManager. The snapshot contains the system prompt,
# and a restore puts it in place of the one that the new process passes, without a warning.
#
# Seen on 2026-11-28: SnapshotSessionManager 'Answer in English.', FileSessionManager 'Answer in French.'.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'strands-agents==1.62.0'
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys
from strands import Agent
from strands.models import Model
from strands.session import FileSessionManager
from strands.session.snapshot_session_manager import SnapshotSessionManager
from strands.storage import LocalFileStorage


class Scripted(Model):
    def update_config(self, **config): pass
    def get_config(self): return {}
    async def structured_output(self, *args, **kwargs): raise NotImplementedError; yield

    async def stream(self, *args, **kwargs):
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "Hello."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


folder, found = sys.argv[1], {}
managers = {
    "SnapshotSessionManager": lambda: SnapshotSessionManager("s", storage=LocalFileStorage(f"{folder}/a")),
    "FileSessionManager": lambda: FileSessionManager("s", storage_dir=f"{folder}/b"),
}
for name, manager in managers.items():
    for prompt in ("Answer in English.", "Answer in French."):
        agent = Agent(
            Scripted(), agent_id="a", system_prompt=prompt, session_manager=manager(), callback_handler=None
        )
        agent("Hello")
    found[name] = agent.system_prompt
print(found)
expected = {"SnapshotSessionManager": "Answer in English.", "FileSessionManager": "Answer in French."}
assert found == expected, f"this changed: {found}"
PY
