#!/usr/bin/env bash
# strands-agents 1.62.0: an error of a session manager reaches the caller as itself or as EventLoopException.
#
# One would expect one type, so that `except OSError` around the call, or a queue's list of errors to retry, catches a
# full disk. If the user's message cannot be stored, the agent raises the store's own error. If the answer cannot be
# stored, it raises EventLoopException, which is no OSError; the store's error is its `original_exception`.
#
# Seen on 2026-11-29: {'user': 'OSError', 'assistant': 'EventLoopException of OSError'}.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'strands-agents==1.62.0'
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys
from strands import Agent
from strands.models import Model
from strands.session import FileSessionManager
from strands.types.exceptions import EventLoopException


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


class FullDisk(FileSessionManager):
    """Has no room for the messages of one role."""

    role = ""

    def append_message(self, message, agent, **kwargs):
        if message["role"] == self.role:
            raise OSError(28, "No space left on device")
        super().append_message(message, agent, **kwargs)


found = {}
for role in ("user", "assistant"):
    manager = FullDisk(role, storage_dir=sys.argv[1])
    agent = Agent(Scripted(), agent_id="a", session_manager=manager, callback_handler=None)
    manager.role = role
    try:
        agent("Hello")
    except EventLoopException as error:
        found[role] = f"EventLoopException of {type(error.original_exception).__name__}"
    except OSError:
        found[role] = "OSError"
print(found)
assert found == {"user": "OSError", "assistant": "EventLoopException of OSError"}, f"this changed: {found}"
PY
