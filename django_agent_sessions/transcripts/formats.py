"""The message formats that are read, by the names that ``dialect`` columns have."""

from __future__ import annotations

STRANDS = "strands"
"""Messages of Strands Agents, which are those of Amazon Bedrock's Converse API."""

OPENAI = "openai"
"""Items of OpenAI's Responses API, and messages of its chat API."""

ASSISTANT_UI = "assistant-ui"
"""What a frontend stored by assistant-ui's client: its own words, never those of a server."""
