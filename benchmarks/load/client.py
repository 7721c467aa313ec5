"""A person's browser: it logs in, asks the API, and reads an answer to its end."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

PASSWORD = "of no value"
_TLS = ssl.create_default_context()


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
    first: float = 0
    """Seconds until the first word."""

    is_complete: float = 0
    """Seconds until the end."""

    def take(self, chunk: dict[str, Any]) -> None:
        """Takes a chunk of the AI SDK's stream."""
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


class Browser:
    """One person's."""

    def __init__(self, address: str, name: str) -> None:
        self._name = name
        self._http = httpx.AsyncClient(
            base_url=address,
            timeout=httpx.Timeout(120),
            limits=httpx.Limits(max_connections=4, keepalive_expiry=30),
            verify=_TLS,
            trust_env=False,
        )

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    async def log_in(self) -> None:
        """Logs in by the form, and opens the chat."""
        await self._ask("GET", "/login/")
        form = {
            "username": self._name,
            "password": PASSWORD,
            "csrfmiddlewaretoken": self._http.cookies["csrftoken"],
        }
        await self._ask("POST", "/login/", status=302, data=form)
        await self._ask("GET", "/")

    async def begin(self, kind: str, title: str) -> str:
        """Begins a conversation."""
        body = {"title": title, "metadata": {"agent": kind, "title": "automatic"}}
        made = await self._ask("POST", "/api/agent-sessions/sessions/", status=201, json=body)
        return str(made.json()["id"])

    async def sessions(self) -> list[dict[str, Any]]:
        """Asks for the newest conversations."""
        answer = await self._ask("GET", "/api/agent-sessions/sessions/", params={"limit": 30})
        found: list[dict[str, Any]] = answer.json()["results"]
        return found

    async def messages(self, session: str) -> list[dict[str, Any]]:
        """Asks for the messages of a conversation, from the first one."""
        address: str | None = f"/api/agent-sessions/sessions/{session}/messages/"
        params: dict[str, Any] | None = {"limit": 100, "order": "asc"}
        found: list[dict[str, Any]] = []
        while address:
            page = (await self._ask("GET", address, params=params)).json()
            found += page["results"]
            address, params = page["next"], None
        return found

    async def say(self, session: str, text: str) -> Heard:
        """Says something, and listens to the end."""
        message = {
            "id": str(uuid4()),
            "role": "user",
            "parts": [{"type": "text", "text": text}],
        }
        body = {"id": session, "message": message, "trigger": "submit-message"}
        heard = Heard()
        began = time.perf_counter()
        async with self._http.stream(
            "POST", "/api/ai-sdk/chat", json=body, headers=self._headers()
        ) as answer:
            if answer.status_code != 200:
                await answer.aread()
                raise WrongError(f"POST chat: {answer.status_code} {answer.text[:200]}")
            async for chunk in _chunks(answer):
                heard.take(chunk)
                if heard.text and not heard.first:
                    heard.first = time.perf_counter() - began
        heard.is_complete = time.perf_counter() - began
        return heard

    async def _ask(
        self, method: str, address: str, *, status: int = 200, **options: Any
    ) -> httpx.Response:
        answer = await self._http.request(method, address, headers=self._headers(), **options)
        if answer.status_code != status:
            raise WrongError(f"{method} {address}: {answer.status_code} {answer.text[:200]}")
        return answer

    def _headers(self) -> dict[str, str]:
        return {"Accept": "*/*", "X-CSRFToken": self._http.cookies.get("csrftoken") or ""}


async def _chunks(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    rest = b""
    done = False
    async for piece in answer.aiter_raw():
        *events, rest = (rest + piece).split(b"\n\n")
        for event in events:
            if not event.startswith(b"data: "):
                continue
            done = event == b"data: [DONE]"
            if not done:
                yield json.loads(event[6:])
    if not done:
        raise WrongError("POST chat: the stream broke off")
