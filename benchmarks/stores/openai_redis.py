"""The OpenAI Agents SDK's ``RedisSession``, with one client for the process.

The server is used as it is (``REDIS_URL``): whether it keeps anything on the disk is its setting.
"""

from __future__ import annotations

import os

from agents.extensions.memory import RedisSession
from agents.memory import Session
from redis.asyncio import Redis
from redis.exceptions import RedisError

from benchmarks import settings

from .interface import UnavailableError
from .openai_session import Sessions


class OpenAIRedis(Sessions):
    """One session object per conversation."""

    name = "RedisSession"
    packages = ("openai-agents", "redis")

    async def start(self) -> None:
        self.client = Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"))
        try:
            persistence = await self.client.info("persistence")
        except RedisError as error:
            raise UnavailableError("no Redis server answers") from error
        if not persistence["aof_enabled"]:
            self.remark = (
                "The Redis server keeps no log (its default): a crash loses its latest writes, "
                "which it had acknowledged."
            )

    async def stop(self) -> None:
        async for key in self.client.scan_iter(f"{settings.NAME}:*", count=1_000):
            await self.client.unlink(key)
        await self.client.aclose()

    async def session(self, name: str) -> Session:
        return RedisSession(name, redis_client=self.client, key_prefix=settings.NAME)

    async def size(self) -> int | None:
        total = 0
        async for key in self.client.scan_iter(f"{settings.NAME}:*", count=1_000):
            total += await self.client.memory_usage(key, samples=0) or 0
        return total

    async def written(self) -> int | None:
        return int((await self.client.info("stats"))["total_net_input_bytes"])
