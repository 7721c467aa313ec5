"""The message formats: values of the ``dialect`` columns."""

from __future__ import annotations

STRANDS = "strands"
"""Messages of Strands Agents, in the format of Amazon Bedrock's Converse API."""

OPENAI = "openai"
"""Items of OpenAI's Responses API, and messages of its chat API."""

ASSISTANT_UI = "assistant-ui"
"""Messages that a browser stored with assistant-ui's client; the server did not create them."""
