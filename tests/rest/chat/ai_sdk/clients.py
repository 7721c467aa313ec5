"""A client that speaks the AI SDK's protocol, in Python, and puts its chunks together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx
from django.conf import settings
from django.test import Client

from .server import Server

TOKEN = "a" * 32
JSON = "application/json"


class Browser:
    """Somebody who is signed in, as a browser is: by cookies."""

    def __init__(self, server: Server, user: Any) -> None:
        signed_in = Client()
        signed_in.force_login(user)
        session = signed_in.cookies[settings.SESSION_COOKIE_NAME].value
        self.cookies = {settings.SESSION_COOKIE_NAME: session, "csrftoken": TOKEN}
        self.server = server
        self.http = httpx.Client(
            base_url=server.url,
            cookies=self.cookies,
            headers={"X-CSRFToken": TOKEN},
            timeout=30,
        )

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    @property
    def headers(self) -> dict[str, str]:
        """What a request of this browser carries."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {"Cookie": cookie, "X-CSRFToken": TOKEN}

    def post(self, api: str, chat: str, text: str, **more: Any) -> httpx.Response:
        """Posts a message, and reads the whole answer."""
        return self.http.post(api, json=body(chat, text, **more))

    def ask(self, api: str, chat: str, text: str, **more: Any) -> list[dict[str, Any]]:
        """Posts a message.

        Returns:
            The chunks of the answer.
        """
        answer = self.post(api, chat, text, **more)
        assert answer.status_code == 200, answer.text
        return chunks(answer.text)

    @contextmanager
    def asking(self, api: str, chat: str, text: str, **more: Any) -> Iterator[Iterator[str]]:
        """Posts a message, and reads its answer line by line; it leaves at the end."""
        with self.http.stream("POST", api, json=body(chat, text, **more)) as answer:
            assert answer.status_code == 200
            yield answer.iter_lines()

    def messages(self, api: str, chat: str, **query: Any) -> list[dict[str, Any]]:
        """Reads the transcript."""
        answer = self.http.get(f"{api}/{chat}/messages", params=query)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()
        return found


def body(chat: str, text: str, *, key: str | None = None, **more: Any) -> dict[str, Any]:
    """Makes what ``useChat`` posts."""
    message = {
        "id": key or uuid4().hex,
        "role": "user",
        "parts": [{"type": "text", "text": text}],
    }
    return {"id": chat, "messages": [message], "trigger": "submit-message", **more}


def until(lines: Iterator[str], what: str) -> None:
    """Reads on to a line with some text in it."""
    for line in lines:
        if what in line:
            return
    raise AssertionError(f"the stream ended before {what}")


def chunks(stream: str) -> list[dict[str, Any]]:
    """Takes a whole stream apart."""
    events = [event for event in stream.strip().split("\n\n") if event.startswith("data: ")]
    assert events[-1] == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]


def parts(answer: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Puts chunks together as the AI SDK does."""
    found: list[dict[str, Any]] = []
    said: dict[str, dict[str, Any]] = {}
    tools: dict[str, dict[str, Any]] = {}
    for chunk in answer:
        match chunk["type"]:
            case "start-step":
                found.append({"type": "step-start"})
            case "text-start" | "reasoning-start" as kind:
                part = {"type": kind.removesuffix("-start"), "text": ""}
                said[chunk["id"]] = part
                found.append(part)
            case "text-delta" | "reasoning-delta":
                said[chunk["id"]]["text"] += chunk["delta"]
            case "text-end" | "reasoning-end":
                said[chunk["id"]]["state"] = "done"
            case "tool-input-start":
                part = {"type": "dynamic-tool", "typed": ""}
                tools[chunk["toolCallId"]] = part
                found.append(part)
            case "tool-input-delta":
                tools[chunk["toolCallId"]]["typed"] += chunk["inputTextDelta"]
            case "tool-input-available":
                if chunk["toolCallId"] not in tools:
                    tools[chunk["toolCallId"]] = {"type": "dynamic-tool"}
                    found.append(tools[chunk["toolCallId"]])
                part = tools[chunk["toolCallId"]]
                typed = part.pop("typed", "")
                assert not typed or json.loads(typed) == chunk["input"]
                told = {key: chunk[key] for key in ("toolName", "toolCallId", "input")}
                part.update(told, state="input-available")
            case "tool-output-available":
                tools[chunk["toolCallId"]].update(state="output-available", output=chunk["output"])
            case "tool-output-error":
                told = {"state": "output-error", "errorText": chunk["errorText"]}
                tools[chunk["toolCallId"]].update(told)
            case "source-url" | "file":
                found.append(chunk)
            case kind if kind.startswith("data-"):
                found.append(chunk)
    return found
