"""The contract for every adapter."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.db import transaction

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.values.owners import EVERYBODY, NOBODY

from .base import (
    HOSTILE_IDS,
    INVALID_IDS,
    Contract,
    D,
    numbered_texts,
    rolled_back_transaction,
    run_in_threads,
)
from .leaks import error_texts


def _nested(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = {"deeper": [value]}
    return value


class ConversationContract(Contract[D]):
    """A conversation is exact, ordered, isolated and transactional."""

    @pytest.mark.parametrize(
        "data",
        [
            {"nul": "a\x00b", "lone surrogate": "\ud800", "both": "\udfff\x00"},
            {"z": 1, "a": 2, "m": {"y": None, "b": True}, "": []},
            {"integer": 10**400, "negative": -(10**400), "small": 5e-324, "zero": -0.0, "one": 1.0},
            {"bytes": b"\x00\xff", "many": [b"", bytes(range(256)) * 20]},
            {"ours": {"$bytes": "AA=="}, "escaped": {"$$bytes": {"$bytes": 1}}},
            {"strands": {"__bytes_encoded__": True, "data": "AA=="}},
            {"text": "\u2028 ' \" \\ %s {} </script> 日本語 🐇"},
            _nested(75),
        ],
    )
    def test_any_json_comes_back_exactly_in_another_process(self, data: Any) -> None:
        driver = self.driver()
        payload = driver.payload("hello", data)

        driver.append("exact", [payload])

        # repr() distinguishes 1 from 1.0 and True, bytes from text, and orders of keys.
        assert repr(self.driver().read("exact")) == repr([payload])

    def test_messages_stay_in_order_at_dense_positions(self) -> None:
        driver = self.driver()
        self.say("order", "a", "b", driver=driver)
        self.say("order", "c", "d")
        self.say("order", "e", driver=driver)

        assert self.read_texts("order") == ["a", "b", "c", "d", "e"]
        assert self.positions("order") == [0, 1, 2, 3, 4]

    @pytest.mark.django_db(transaction=True)
    def test_writers_at_the_same_time_all_keep_their_messages(self) -> None:
        self.say("shared", "start")

        def write(name: str) -> None:
            self.say("shared", *numbered_texts(name, 10))

        run_in_threads(*(partial(write, name) for name in "abcd"))

        said = self.read_texts("shared")
        assert sorted(said) == sorted(
            ["start", *(text for name in "abcd" for text in numbered_texts(name, 10))]
        )
        for name in "abcd":
            assert [text for text in said if text[0] == name] == numbered_texts(name, 10)
        assert self.positions("shared") == list(range(41))
        assert self.message_count("shared") == 41

    def test_sessions_and_namespaces_do_not_meet(self) -> None:
        self.say("one", "first")
        self.say("two", "second")
        self.say("one", "elsewhere", driver=self.driver(namespace="other"))

        assert self.read_texts("one") == ["first"]
        assert self.read_texts("two") == ["second"]
        assert self.read_texts("one", driver=self.driver(namespace="other")) == ["elsewhere"]

    def test_nobody_reaches_the_session_of_somebody_else_or_of_nobody(self) -> None:
        ada, bob = self.user("ada"), self.user("bob")
        self.say("adas", "private", driver=self.driver(owner=ada))
        self.say("nobodys", "internal")

        for session_id in ("adas", "nobodys"):
            with pytest.raises(self.not_found):
                self.say(session_id, "intruding", driver=self.driver(owner=bob))
            assert self.read_texts(session_id, driver=self.driver(owner=bob)) == []
        assert self.read_texts("adas", driver=self.driver(owner=ada)) == ["private"]
        assert self.read_texts("nobodys") == ["internal"]

    def test_an_owner_that_is_left_out_reaches_no_session_of_a_user(self) -> None:
        ada = self.user("ada")
        self.say("adas", "private", driver=self.driver(owner=ada))

        for driver in (self.driver(), self.driver(owner=NOBODY)):
            with pytest.raises(self.not_found):
                self.say("adas", "intruding", driver=driver)
            assert self.read_texts("adas", driver=driver) == []
        assert self.read_texts("adas", driver=self.driver(owner=ada)) == ["private"]

    def test_everybody_reaches_each_session_and_creates_none_by_a_mistyped_id(self) -> None:
        ada = self.user("ada")
        self.say("adas", "private", driver=self.driver(owner=ada))
        self.say("nobodys", "internal")
        everybody = self.driver(owner=EVERYBODY)

        self.say("adas", "answered", driver=everybody)

        assert self.read_texts("adas", driver=self.driver(owner=ada)) == ["private", "answered"]
        assert self.read_texts("nobodys", driver=everybody) == ["internal"]
        with pytest.raises((self.not_found, ConfigurationError)):
            self.say("adsa", "lost", driver=everybody)
        assert self.positions("adsa") == []

    @pytest.mark.parametrize("session_id", HOSTILE_IDS)
    def test_an_id_is_only_text(self, session_id: str) -> None:
        self.say(session_id, "here")
        self.say("another", "there")

        assert self.read_texts(session_id) == ["here"]

    @pytest.mark.parametrize(("one", "other"), [("user", "USER"), ("josé", "jose"), ("a", "a ")])
    def test_ids_that_only_look_alike_are_different(self, one: str, other: str) -> None:
        self.say(one, "one")
        self.say(other, "other")

        assert (self.read_texts(one), self.read_texts(other)) == (["one"], ["other"])

    @pytest.mark.parametrize("session_id", INVALID_IDS)
    def test_an_id_that_cannot_be_one_is_refused(self, session_id: str) -> None:
        with pytest.raises(self.invalid_id):
            self.say(session_id, "nowhere")
        assert not SessionMessage.objects.exists()

    @pytest.mark.parametrize(
        "data",
        [{(1,): "a key"}, {"a set"}, object(), 10**5000, _nested(150)],
        ids=["key", "set", "object", "integer", "depth"],
    )
    def test_what_is_no_json_is_refused_and_harms_nothing(self, data: Any) -> None:
        driver = self.driver()
        self.say("good", "before", driver=driver)

        with transaction.atomic():
            with pytest.raises(self.invalid_payload) as refusal:
                driver.append("good", [driver.payload("plantedsecret", data)])
            self.say("good", "after", driver=driver)

        assert "plantedsecret" not in error_texts(refusal.value)
        assert self.read_texts("good") == ["before", "after"]
        assert self.positions("good") == [0, 1]

    def test_a_corrupt_message_hides_no_other(self, caplog: pytest.LogCaptureFixture) -> None:
        self.say("damaged", "first", "second", "third")
        damaged = SessionMessage.objects.get(session__session_id="damaged", message_id=1)
        damaged.message = CorruptPayload('{"plantedsecret')
        damaged.save(update_fields=["message"])

        with caplog.at_level("WARNING", "django_agent_sessions"):
            assert self.read_texts("damaged") == ["first", "third"]
            self.say("damaged", "fourth")

        assert self.positions("damaged") == [0, 1, 2, 3]
        assert str(damaged.agent_id) in caplog.text or str(damaged.pk) in caplog.text
        assert "plantedsecret" not in caplog.text

    @pytest.mark.django_db(transaction=True)
    def test_outside_a_transaction_a_write_is_committed_at_once(self) -> None:
        self.say("committed", "acknowledged")

        assert run_in_threads(lambda: self.read_texts("committed")) == [["acknowledged"]]

    @pytest.mark.django_db(transaction=True)
    def test_a_transaction_sees_what_is_written_in_it_and_takes_it_along(self) -> None:
        self.say("joined", "before")

        with rolled_back_transaction():
            self.say("joined", "undone")
            assert self.read_texts("joined") == ["before", "undone"]
        with transaction.atomic():
            self.say("joined", "kept")

        assert run_in_threads(lambda: self.read_texts("joined")) == [["before", "kept"]]
        assert self.positions("joined") == [0, 1]

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("before", [[], ["kept", "too"]], ids=["new", "existing"])
    def test_one_driver_goes_on_after_a_rollback(self, before: list[str]) -> None:
        driver = self.driver()
        self.say("undone", *before, driver=driver)
        with rolled_back_transaction():
            self.say("undone", "lost", "with it", driver=driver)
        assert self.read_texts("undone") == before

        self.say("undone", "new", driver=driver)

        assert self.read_texts("undone") == [*before, "new"]
        assert self.positions("undone") == list(range(len(before) + 1))
        assert self.message_count("undone") == len(before) + 1
