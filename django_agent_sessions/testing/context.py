"""The contract for running event loops."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TypeVar

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from .base import Contract, rolled_back_transaction, run_in_threads
from .driver import AsyncDriver

A = TypeVar("A", bound=AsyncDriver)


class AnyContextContract(Contract[A]):
    """Calls work in running loops, and join exactly the transactions that wait for them.

    In a thread with a running loop, Django raises ``SynchronousOnlyOperation``, which fails the
    contract.
    """

    async def converse(self, session_id: str, *texts: str) -> list[str]:
        """Append each text and read the conversation, in a running loop."""
        driver = self.driver()
        for text in texts:
            await driver.aappend(session_id, [driver.payload(text)])
        return self.driver().texts(await self.driver().aread(session_id))

    def test_a_loop_under_an_open_transaction_joins_it(self) -> None:
        # The transaction is the test's own, of the `db` fixture.
        assert asyncio.run(self.converse("loop", "a", "b")) == ["a", "b"]

        assert self.read_texts("loop") == ["a", "b"]
        assert self.positions("loop") == [0, 1]

    @pytest.mark.django_db(transaction=True)
    def test_a_loop_without_a_transaction_commits_at_once(self) -> None:
        async def main() -> list[str]:
            await self.converse("loop", "a")
            return await asyncio.to_thread(
                lambda: run_in_threads(lambda: self.read_texts("loop"))[0]
            )

        assert asyncio.run(main()) == ["a"]

    @pytest.mark.django_db(transaction=True)
    def test_conversations_of_one_loop_go_on_side_by_side(self) -> None:
        async def main() -> list[list[str]]:
            return await asyncio.gather(
                *(self.converse(f"side-{number}", "a", "b", "c") for number in range(10))
            )

        assert asyncio.run(main()) == [["a", "b", "c"]] * 10

    @pytest.mark.django_db(transaction=True)
    def test_an_error_of_one_of_many_appends_at_once_is_its_own(self) -> None:
        names = [f"many-{number}" for number in range(6)]

        async def main() -> list[BaseException | None]:
            driver = self.driver()
            for name in names:
                await driver.aappend(name, [driver.payload("before")])
            payloads = {name: driver.payload("text") for name in names}
            payloads[names[2]] = driver.payload("text", object())
            appends = (driver.aappend(name, [payload]) for name, payload in payloads.items())
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
            for name in names:
                await driver.aappend(name, [driver.payload("after")])
            return outcomes

        failed = [error for error in asyncio.run(main()) if error is not None]

        assert [type(error) for error in failed] == [self.invalid_payload]
        for name in names:
            texts = ["before", "after"] if name == names[2] else ["before", "text", "after"]
            assert self.read_texts(name) == texts
            assert self.positions(name) == list(range(len(texts)))

    @pytest.mark.django_db(transaction=True)
    def test_loops_in_several_threads(self) -> None:
        def run(number: int) -> list[str]:
            return asyncio.run(self.converse(f"thread-{number}", "a", "b"))

        assert run_in_threads(*(partial(run, n) for n in range(4))) == [["a", "b"]] * 4

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("entry_point", ["asyncio.run", "async_to_sync"])
    def test_a_waiting_transaction_takes_what_the_loop_wrote_along(self, entry_point: str) -> None:
        def wait_for(*texts: str) -> list[str]:
            if entry_point == "asyncio.run":
                return asyncio.run(self.converse("waiting", *texts))
            return async_to_sync(self.converse)("waiting", *texts)

        with transaction.atomic():
            assert wait_for("kept") == ["kept"]
        with rolled_back_transaction():
            assert wait_for("undone") == ["kept", "undone"]

        assert run_in_threads(lambda: self.read_texts("waiting")) == [["kept"]]
