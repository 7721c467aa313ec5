#!/usr/bin/env bash
# strands-agents 1.62.0: redact_latest_message with a redacted question replaces the answer, if the answer came meanwhile.
#
# One would expect the redacted version of the user's message to be stored for the user's message, wherever a guardrail
# calls it. It takes the latest message of any role. After the run, that is the answer: its file then has the question's
# redacted version, a restored agent reads two messages of the user and no answer, and the question is stored as it was.
#
# Seen on 2026-11-29: [('user', 'My PIN is 7711.'), ('user', '[removed]')] instead of ('user', '[removed]') and the answer.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'strands-agents==1.62.0'
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys
from strands import Agent
from strands.hooks import AfterInvocationEvent
from strands.models import Model
from strands.session import FileSessionManager


class Scripted(Model):
    def update_config(self, **config): pass
    def get_config(self): return {}
    async def structured_output(self, *args, **kwargs): raise NotImplementedError; yield

    async def stream(self, *args, **kwargs):
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "Noted."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def guard(event):
    manager.redact_latest_message({"role": "user", "content": [{"text": "[removed]"}]}, event.agent)


manager = FileSessionManager("s", storage_dir=sys.argv[1])
agent = Agent(Scripted(), agent_id="a", session_manager=manager, callback_handler=None)
agent.hooks.add_callback(AfterInvocationEvent, guard)
agent("My PIN is 7711.")
manager = FileSessionManager("s", storage_dir=sys.argv[1])
again = Agent(Scripted(), agent_id="a", session_manager=manager, callback_handler=None)
seen = [(message["role"], message["content"][0]["text"]) for message in again.messages]
print(seen)
assert seen == [("user", "My PIN is 7711."), ("user", "[removed]")], f"this changed: {seen}"
PY
