#!/usr/bin/env bash
# strands-agents 1.62.0: an error of a session manager or a model reaches the caller as itself or as EventLoopException.
#
# One would expect one type, so that `except OSError` around the call, or a queue's list of errors to retry, catches a
# full disk or a provider that is down. If the user's message cannot be stored, or the first call of the model fails,
# the agent raises the error itself. If the answer cannot be stored, or a call after a tool's result fails, it raises
# EventLoopException; the error is its `original_exception`.
#
# Seen on 2026-11-29: {'user': 'OSError', 'assistant': 'EventLoopException of OSError',
# 'call 1': 'ConnectionError', 'call 2': 'EventLoopException of ConnectionError'}.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'strands-agents==1.62.0'
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys
from strands import Agent, tool
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


@tool
def look() -> str:
    """Look around."""
    return "Nothing."


class Down(Scripted):
    """Calls a tool, and cannot be reached at one of its calls."""

    def __init__(self, fails):
        self.fails, self.calls = fails, 0

    async def stream(self, *args, **kwargs):
        self.calls += 1
        if self.calls == self.fails:
            raise ConnectionError("not reachable")
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "1", "name": "look"}}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": "{}"}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


for call in (1, 2):
    try:
        Agent(Down(call), tools=[look], callback_handler=None)("Hello")
    except EventLoopException as error:
        found[f"call {call}"] = f"EventLoopException of {type(error.original_exception).__name__}"
    except ConnectionError:
        found[f"call {call}"] = "ConnectionError"
print(found)
assert found == {
    "user": "OSError",
    "assistant": "EventLoopException of OSError",
    "call 1": "ConnectionError",
    "call 2": "EventLoopException of ConnectionError",
}, f"this changed: {found}"
PY
