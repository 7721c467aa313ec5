"""The cache in which answers under way are noted."""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.cache.backends.locmem import LocMemCache

from django_agent_sessions.rest.chat.ai_sdk.claims import Claims

made: list[Any] = []


class CountedCache(LocMemCache):
    """A cache that costs a connection, as those of servers do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        made.append(self)


async def test_many_answers_at_once_share_the_connections_of_a_few_threads(settings):
    settings.CACHES = {"default": {"BACKEND": f"{__name__}.CountedCache", "LOCATION": "claims"}}
    made.clear()

    def noted(claims: Claims, number: int) -> Any:
        claims._cache.set(str(number), number)
        return claims._cache.get(str(number))

    async def answer(number: int) -> Any:
        claims = Claims("default")
        return await claims.ask(noted, claims, number)

    # Each in a task of its own, as requests are.
    tasks = [asyncio.create_task(answer(number)) for number in range(50)]

    assert await asyncio.gather(*tasks) == list(range(50))
    assert len(made) <= 8
