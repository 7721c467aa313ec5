"""The contract for exclusive runs."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import pytest
from django.db import connections, transaction

from django_agent_sessions import leases
from django_agent_sessions.exceptions import ConfigurationError, SessionBusyError
from django_agent_sessions.models import RunLease, Session
from django_agent_sessions.values.ids import new_id

from .base import Contract, run_in_threads
from .driver import ExclusiveDriver

E = TypeVar("E", bound=ExclusiveDriver)


def is_free(session_id: str) -> bool:
    """Return whether a run in another thread would get a session's lease at once."""

    def attempt() -> bool:
        session = Session.objects.get(session_id=session_id).pk
        try:
            leases.acquire(session, wait=0).release()
        except SessionBusyError:
            return False
        return True

    return bool(run_in_threads(attempt)[0])


class ExclusiveContract(Contract[E]):
    """Only one run uses an exclusive session at a time, in any thread or process."""

    def run(self, session_id: str, text: str, **options: Any) -> None:
        """Append a text in an exclusive run of a new driver."""
        driver: E = options.pop("driver", None) or self.driver()
        asyncio.run(driver.arun(session_id, text, **options))

    @pytest.mark.django_db(transaction=True)
    def test_a_run_holds_the_session_and_its_end_frees_it(self) -> None:
        free: list[bool] = []

        async def look() -> None:
            free.append(await asyncio.to_thread(is_free, "held"))

        self.run("held", "Hello", during=look)

        assert free == [False]
        assert is_free("held")
        assert self.read_texts("held")[0] == "Hello"

    @pytest.mark.django_db(transaction=True)
    def test_another_run_meanwhile_is_refused_when_it_has_waited_and_comes_back(self) -> None:
        other = self.driver()
        refusals: list[BaseException] = []

        def attempt() -> None:
            with pytest.raises(SessionBusyError, match="is busy") as refusal:
                self.run("busy", "Me too", driver=other, wait=0.1)
            refusals.append(refusal.value)

        async def meanwhile() -> None:
            await asyncio.to_thread(run_in_threads, attempt)

        self.run("busy", "Hello", during=meanwhile)
        assert len(refusals) == 1
        assert "Me too" not in self.read_texts("busy")

        self.run("busy", "Me too", driver=other)

        said = self.read_texts("busy")
        assert said.index("Hello") < said.index("Me too")
        assert said.count("Me too") == 1

    @pytest.mark.django_db(transaction=True)
    def test_runs_at_the_same_time_take_turns(self) -> None:
        one, prompts = self.driver(), ["0", "1", "2"]

        async def main() -> None:
            # Two drivers are other objects, and one is used twice if its SDK allows that.
            drivers = [one, self.driver(), self.driver()]
            await asyncio.gather(
                *(
                    driver.arun("turns", prompt, wait=20, during=lambda: asyncio.sleep(0.02))
                    for driver, prompt in zip(drivers, prompts, strict=True)
                )
            )

        asyncio.run(main())

        said = self.read_texts("turns")
        length = len(said) // 3
        assert sorted(said[::length]) == prompts
        assert self.positions("turns") == list(range(3 * length))

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt()])
    def test_a_run_that_fails_frees_the_session(self, error: BaseException) -> None:
        async def fail() -> None:
            raise error

        with pytest.raises(type(error)):
            self.run("failed", "Hello", during=fail)

        assert is_free("failed")

    @pytest.mark.django_db(transaction=True)
    def test_a_run_that_is_cancelled_frees_the_session(self) -> None:
        async def main() -> None:
            begun = asyncio.Event()

            async def wait() -> None:
                begun.set()
                await asyncio.sleep(60)

            run = asyncio.ensure_future(self.driver().arun("cancelled", "Hello", during=wait))
            await begun.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run

        asyncio.run(main())

        assert is_free("cancelled")

    @pytest.mark.django_db(transaction=True)
    def test_a_run_that_lost_its_session_writes_nothing_more(self, settings: Any) -> None:
        settings.AGENT_SESSIONS = {**getattr(settings, "AGENT_SESSIONS", {}), "LEASE_SECONDS": 0.3}
        said: list[list[str]] = []

        def take_away() -> None:
            RunLease.objects.update(token=new_id())
            said.append(self.read_texts("lost"))
            connections.close_all()

        async def lose() -> None:
            await asyncio.to_thread(take_away)
            # Until the lease would have to be renewed.
            await asyncio.sleep(0.4)

        with pytest.raises(SessionBusyError, match="lost the lease of"):
            self.run("lost", "Hello", during=lose)

        assert [self.read_texts("lost")] == said

    @pytest.mark.django_db(transaction=True)
    def test_a_transaction_is_refused_and_the_error_says_what_to_do(self) -> None:
        refusal = pytest.raises(ConfigurationError, match="non_atomic_requests")
        with transaction.atomic(), refusal:
            self.run("refused", "Hello")

        self.run("refused", "Hello again")

        assert self.read_texts("refused")[0] == "Hello again"
