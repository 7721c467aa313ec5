"""An answer as a person hears it, and whether it is the one that had to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .scripts import Line


class WrongError(Exception):
    """Something else came back than had to."""


@dataclass
class Heard:
    """An answer, as it was streamed."""

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    thought: bool = False
    finished: bool = False
    error: str = ""

    def take(self, chunk: dict[str, Any]) -> None:
        """Take a chunk of the AI SDK's stream."""
        match chunk["type"]:
            case "text-delta":
                self.text += chunk["delta"]
            case "reasoning-delta":
                self.thought = True
            case "tool-input-available":
                self.calls.append((chunk["toolName"], chunk["input"]))
            case "tool-output-error" | "error" | "abort":
                self.error = str(chunk.get("errorText", chunk["type"]))
            case "finish":
                self.finished = True


def compare(line: Line, heard: Heard) -> None:
    """Raise WrongError if something else was heard than had to be."""
    if heard.error or not heard.finished:
        raise WrongError(f"{line.read_texts!r} ended with {heard.error or 'nothing'}")
    if heard.text.strip() != line.answer:
        raise WrongError(f"{line.read_texts!r} was answered by {heard.text!r}, not {line.answer!r}")
    if heard.thought != line.thought:
        raise WrongError(
            f"{line.read_texts!r} was answered {'with' if heard.thought else 'without'} thought"
        )
    called = [(name, next(iter(given.values()))) for name, given in heard.calls]
    if called != ([(line.write_tool_call, line.argument)] if line.write_tool_call else []):
        raise WrongError(f"{line.read_texts!r} called {called}")


def said_in(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Find what the person said in a transcript of the API."""
    found = []
    for message in messages:
        texts = [part["text"] for part in message["parts"] if part["kind"] == "text"]
        if message["role"] == "user" and texts:
            found.append("\n".join(texts))
    return found
