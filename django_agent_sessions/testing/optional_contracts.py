"""The contracts for batches, pop, clear and redaction, for the adapters that support them."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TypeVar

import pytest
from django.db import transaction

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session

from .base import Contract, D, numbered_texts, rolled_back_transaction, run_in_threads
from .driver import ClearingDriver, PoppingDriver, RedactingDriver, ReplacingDriver
from .leaks import columns_containing, files_containing

C = TypeVar("C", bound=ClearingDriver)
P = TypeVar("P", bound=PoppingDriver)
R = TypeVar("R", bound=RedactingDriver)
S = TypeVar("S", bound=ReplacingDriver)


class BatchContract(Contract[D]):
    """The messages of one call are written completely or not at all."""

    @pytest.mark.parametrize("count", [2, 450])
    def test_a_batch_stays_together_and_in_order(self, count: int) -> None:
        driver = self.driver()
        texts = list(numbered_texts("text", count))

        driver.append("batch", [driver.payload(text) for text in texts])

        assert self.read_texts("batch") == texts
        assert self.positions("batch") == list(range(count))

    def test_one_bad_message_takes_the_whole_batch(self) -> None:
        driver = self.driver()
        self.say("batch", "before", driver=driver)
        batch = [driver.payload("good"), driver.payload("bad", object())]

        with pytest.raises(self.invalid_payload):
            driver.append("batch", batch)

        self.say("batch", "after", driver=driver)
        assert self.read_texts("batch") == ["before", "after"]

    @pytest.mark.django_db(transaction=True)
    def test_batches_at_the_same_time_do_not_mix(self) -> None:
        self.say("batch", "start")

        def write(name: str) -> None:
            driver = self.driver()
            for _ in range(5):
                driver.append("batch", [driver.payload(text) for text in numbered_texts(name, 4)])

        run_in_threads(*(partial(write, name) for name in "abc"))

        said = self.read_texts("batch")[1:]
        assert self.positions("batch") == list(range(61))
        assert self.message_count("batch") == 61
        for first in range(0, 60, 4):
            assert said[first : first + 4] == list(numbered_texts(said[first][0], 4))


class PopContract(Contract[P]):
    """The last message can be removed, but only by one caller."""

    def test_messages_are_taken_from_the_end_until_there_is_none(self) -> None:
        self.say("stack", "a", "b")
        driver = self.driver()

        taken = [driver.pop("stack") for _ in range(3)]

        assert driver.texts(taken[:2]) == ["b", "a"]
        assert taken[2] is None
        self.say("stack", "c")
        assert self.positions("stack") == [0]

    def test_a_rollback_brings_a_taken_message_back(self) -> None:
        self.say("stack", "a", "b")

        with rolled_back_transaction():
            self.driver().pop("stack")

        assert self.read_texts("stack") == ["a", "b"]

    @pytest.mark.django_db(transaction=True)
    def test_no_two_callers_take_the_same_message(self) -> None:
        driver = self.driver()
        texts = list(numbered_texts("text", 40))
        driver.append("stack", [driver.payload(text) for text in texts])

        def take() -> list[str]:
            mine = self.driver()
            return mine.texts([mine.pop("stack") for _ in range(10)])

        taken = run_in_threads(take, take, take, take)

        assert sorted(text for one in taken for text in one) == sorted(texts)
        assert self.read_texts("stack") == []
        assert self.message_count("stack") == 0


class ClearContract(Contract[C]):
    """All messages can be deleted, and the next message is the first."""

    def test_nothing_is_left_and_the_next_message_is_the_first(self) -> None:
        self.say("full", "a", "plantedsecret")
        self.say("other", "stays")

        self.driver().clear("full")

        assert self.read_texts("full") == []
        assert columns_containing("plantedsecret") == []
        self.say("full", "new")
        assert self.read_texts("full") == ["new"]
        assert self.positions("full") == [0]
        assert self.read_texts("other") == ["stays"]

    def test_emptying_twice_is_no_error(self) -> None:
        self.say("full", "a")
        self.driver().clear("full")
        self.driver().clear("full")

        assert self.read_texts("full") == []


class ReplaceContract(Contract[S]):
    """A history is replaced with a summary and its latest messages completely or not at all.

    Its drivers use one object per session.
    """

    @pytest.mark.django_db(transaction=True)
    def test_a_history_is_replaced_with_a_summary_and_what_is_kept(self) -> None:
        driver = self.driver()
        self.say("long", "a", "plantedsecret", "c", driver=driver)
        kept = driver.read("long")[-1:]

        driver.replace("long", kept, driver.payload("summary"))

        assert self.read_texts("long") == ["summary", "c"]
        assert self.positions("long") == [0, 1]
        assert columns_containing("plantedsecret") == []
        self.say("long", "d", driver=driver)
        assert self.read_texts("long") == ["summary", "c", "d"]

    @pytest.mark.django_db(transaction=True)
    def test_a_history_that_cannot_be_replaced_stays_whole(self) -> None:
        driver = self.driver()
        self.say("long", "a", "b", driver=driver)
        kept = driver.read("long")[-1:]

        with pytest.raises(self.invalid_payload):
            driver.replace("long", kept, driver.payload("summary", object()))

        assert self.read_texts("long") == ["a", "b"]

    @pytest.mark.django_db(transaction=True)
    def test_a_history_that_is_replaced_stays_redacted(self) -> None:
        driver = self.driver()
        self.say("long", "a", "plantedsecret", driver=driver)
        kept = driver.read("long")[-1:]
        session = Session.objects.get(session_id="long")

        redact(session.pk, Find("plantedsecret"), reason="A request")
        driver.replace("long", kept, driver.payload("They said plantedsecret"))

        assert self.read_texts("long") == ["They said [REDACTED]", "[REDACTED]"]
        assert columns_containing("plantedsecret") == []

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("savepoint", [False, True], ids=["transaction", "savepoint"])
    def test_a_replacement_that_was_rolled_back_is_forgotten(self, savepoint: bool) -> None:
        driver = self.driver()
        self.say("long", "plantedsecret", "b", driver=driver)
        held = driver.read("long")
        with transaction.atomic() if savepoint else nullcontext():
            with rolled_back_transaction():
                driver.replace("long", held[-1:], driver.payload("summary"))
            assert self.read_texts("long") == ["plantedsecret", "b"]

        redact(Session.objects.get(session_id="long").pk, Find("plantedsecret"), reason="A request")
        driver.replace("long", held, driver.payload("summary"))

        assert self.read_texts("long") == ["summary", "[REDACTED]", "b"]
        assert columns_containing("plantedsecret") == []


class RedactionContract(Contract[R]):
    """No copy of a redacted original is stored."""

    @pytest.mark.django_db(transaction=True)
    def test_the_original_is_in_no_column_and_no_file(self) -> None:
        driver = self.driver()
        self.say("private", "a", "my card is plantedsecret", "c", driver=driver)
        assert columns_containing("plantedsecret")

        driver.redact("private", 1, driver.payload("my card is [CARD]"))

        assert columns_containing("plantedsecret") == []
        assert files_containing("plantedsecret") == []
        for reader in (driver, self.driver()):
            assert self.read_texts("private", driver=reader) == ["a", "my card is [CARD]", "c"]
        assert self.positions("private") == [0, 1, 2]

    @pytest.mark.django_db(transaction=True)
    def test_a_redaction_inside_a_transaction_is_complete_with_its_commit(self) -> None:
        driver = self.driver()
        self.say("private", "plantedsecret", driver=driver)

        with transaction.atomic():
            driver.redact("private", 0, driver.payload("[GONE]"))

        assert columns_containing("plantedsecret") == []
        assert files_containing("plantedsecret") == []
