"""The contract for tasks that are cancelled."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from django.db import connection, transaction

from django_agent_sessions.models import Session

from .base import Contract
from .context import A


async def cancelled_after(seconds: float, work: Any) -> bool:
    """Cancel a piece of work; return whether it was in time."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(seconds)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


class CancellationContract(Contract[A]):
    """When a cancelled call returns, the outcome of its write is known."""

    @pytest.mark.django_db(transaction=True)
    def test_a_cancelled_append_is_there_or_not_and_nothing_arrives_later(self) -> None:
        chance = random.Random(11)  # noqa: S311 - not a secret
        there: list[str] = []

        async def main() -> None:
            for number in range(25):
                driver, text = self.driver(), str(number)
                append = driver.aappend("cancelled", [driver.payload(text)])
                in_time = await cancelled_after(chance.uniform(0, 0.004), append)
                found = await asyncio.to_thread(self._read_and_close)
                assert found in (there, [*there, text])
                assert in_time or found == [*there, text]
                there[:] = found

        asyncio.run(main())

        assert self.read_texts("cancelled") == there
        assert self.positions("cancelled") == list(range(len(there)))

    def _read_and_close(self) -> list[str]:
        try:
            return self.read_texts("cancelled")
        finally:
            connection.close()

    @pytest.mark.django_db(transaction=True)
    def test_a_write_that_has_begun_is_waited_for(self) -> None:
        self.say("begun", "before")

        async def main() -> None:
            loop, locked, release = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

            def hold() -> None:
                # The lock that the write needs, so that it is certainly under way.
                with transaction.atomic():
                    Session.objects.select_for_update().get()
                    Session.objects.update(session_type="HELD")
                    loop.call_soon_threadsafe(locked.set)
                    asyncio.run_coroutine_threadsafe(release.wait(), loop).result(30)
                connection.close()

            driver = self.driver()
            await driver.aread("begun")
            holder = asyncio.ensure_future(asyncio.to_thread(hold))
            await locked.wait()
            # On a busy machine, a write may need some seconds to begin; until then it is cancelled.
            for seconds in (0.05, 0.5, 5.0):
                task = asyncio.ensure_future(driver.aappend("begun", [driver.payload("after")]))
                await asyncio.sleep(seconds)
                for _ in range(3):
                    task.cancel()
                    await asyncio.sleep(0.05)
                if not task.done():
                    break
            assert not task.done()
            release.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            await holder

        asyncio.run(main())

        assert self.read_texts("begun") == ["before", "after"]
