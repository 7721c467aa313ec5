"""The API that summarizes conversations, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
from agents import OpenAIResponsesCompactionSession
from openai import AsyncOpenAI

from django_agent_sessions.adapters.openai_agents import Compaction, DjangoSession

SUMMARY = {"type": "compaction", "id": "cmp_1", "encrypted_content": "summary"}


class Server:
    """Answers ``responses.compact`` as the API does, without a network.

    Attributes:
        requests: The body of each request.
        failing: Whether the answer is an error.
        meanwhile: Is called once before the answer, in another thread.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.failing = False
        self.meanwhile: Callable[[], object] | None = None

    async def answer(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path.endswith("/responses/compact")
        self.requests.append(json.loads(request.content))
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            await asyncio.to_thread(meanwhile)
        if self.failing:
            return httpx.Response(500, json={"error": {"message": "no"}})
        usage = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 110,
        }
        return httpx.Response(
            200,
            json={
                "id": "resp_compacted",
                "created_at": 1,
                "object": "response.compaction",
                "output": [SUMMARY],
                "usage": usage,
            },
        )

    def compaction(self, *, least: int = 3, **options: Any) -> Compaction:
        """Settings for a session of ours, with the same threshold."""

        def due(context: dict[str, Any]) -> bool:
            return len(context["compaction_candidate_items"]) >= least

        return Compaction(
            client=self.client,
            should_trigger_compaction=due,
            **{"compaction_mode": "input", **options},
        )

    def session(self, inner: Any = None, *, least: int = 3) -> OpenAIResponsesCompactionSession:
        """Wraps a session that is compacted when it has that many items that are no user's."""

        def due(context: dict[str, Any]) -> bool:
            return len(context["compaction_candidate_items"]) >= least

        return OpenAIResponsesCompactionSession(
            session_id="s",
            underlying_session=DjangoSession("s") if inner is None else inner,
            client=self.client,
            compaction_mode="input",
            should_trigger_compaction=due,
        )

    @property
    def client(self) -> AsyncOpenAI:
        # Any, because releases of the client differ in which httpx they name.
        http: Any = httpx.AsyncClient(transport=httpx.MockTransport(self.answer))
        return AsyncOpenAI(api_key="none", max_retries=0, http_client=http)
