#!/usr/bin/env bash
# openai-agents 0.24.0 with openai 3.52.0: a copy of an old item that `session_input_callback` changes is stored again.
#
# The callback is documented as the place to shorten a history before a run. One would expect it to decide what the
# model sees, and the session to get the new turn only. An old item that the callback returns unchanged is recognized
# and not stored; a changed copy of it (a summary, a masked text) counts as new input and is appended to the session.
#
# Seen on 2026-11-28: after two turns of one question and one answer each, the second with a callback that masks a word
# in old items, the session has 5 items: the original question, its answer, the masked copy of the old question, the new
# question and its answer. The original is still there, so that masking in the callback removes nothing.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'openai-agents==0.24.0' 'openai==3.52.0'
OPENAI_AGENTS_DISABLE_TRACING=1 "$folder/venv/bin/python" - <<'PY'
import asyncio
from agents import Agent, ModelResponse, RunConfig, Runner, SQLiteSession, Usage
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText


class Scripted(Model):
    async def get_response(self, *args, **kwargs):
        text = ResponseOutputText(text="Noted.", type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id="m", content=[text], role="assistant", status="completed", type="message"
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


def masking(history, new):
    masked = [
        {**item, "content": item["content"].replace("Lisbon", "***")}
        if item.get("role") == "user" else item
        for item in history
    ]
    return masked + new


async def main():
    agent, session = Agent(name="a", model=Scripted()), SQLiteSession("s")
    await Runner.run(agent, "I live in Lisbon.", session=session)
    await Runner.run(
        agent, "Thanks.", session=session, run_config=RunConfig(session_input_callback=masking)
    )
    items = await session.get_items()
    said = [item["content"] if item.get("role") == "user" else "(answer)" for item in items]
    print(said)
    expected = ["I live in Lisbon.", "(answer)", "I live in ***.", "Thanks.", "(answer)"]
    assert said == expected, f"this changed: {said}"


asyncio.run(main())
PY
