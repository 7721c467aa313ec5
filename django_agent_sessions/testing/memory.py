"""The contracts for what an adapter's object has in memory while others redact it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import pytest

from django_agent_sessions.content.paths import Path
from django_agent_sessions.governance.redaction import (
    Block,
    Detect,
    Find,
    Scope,
    Span,
    WholeMessage,
    redact,
)
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore

from .base import Contract, D, rolled_back_transaction
from .driver import AgentDriver, ClearingDriver, ToolCall
from .leaks import columns_containing, files_containing

A = TypeVar("A", bound=AgentDriver)
C = TypeVar("C", bound=ClearingDriver)

SECRET = "plantedsecret 0815"  # noqa: S105 - what a test looks for


def redact_text(session_id: str, text: str) -> None:
    """Redact a text as a staff member does, in another process."""
    redact(Session.objects.get(session_id=session_id).pk, Find(text), reason="A request")


def redact_first_message(session_id: str) -> None:
    """Redact the whole first message of a session."""
    first = SessionMessage.objects.filter(session__session_id=session_id).order_by("message_id")[0]
    redact(first.session_id, WholeMessage(first.pk), reason="A request")


def replace_first_message(session_id: str, payload: Any) -> None:
    """Replace the first message of a session's agent with a redacted one."""
    store = SessionStore()
    (agent,) = store.agents.list(store.get(session_id))
    store.messages.redact(agent, 0, payload)


def redact_and_rewind(session_id: str) -> None:
    """Redact the secret, and go back to before its message."""
    redact_text(session_id, SECRET)
    store = SessionStore()
    (agent,) = store.agents.list(store.get(session_id))
    store.branches.rewind(agent, 0)


class MemoryContract(Contract[D]):
    """Text that is redacted while a driver has it in memory is not written back.

    Its drivers use one object per session, as a program does.
    """

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize(
        ("redact_it", "left"),
        [
            (lambda session_id: redact_text(session_id, SECRET), ["hello", "[REDACTED]"]),
            (redact_and_rewind, ["hello"]),
        ],
        ids=["redacted", "redacted and rewound"],
    )
    def test_no_append_brings_a_redacted_text_back(
        self, redact_it: Callable[[str], None], left: list[str]
    ) -> None:
        driver = self.driver()
        self.say("held", "hello", SECRET, driver=driver)
        assert columns_containing("plantedsecret")

        redact_it("held")
        self.say("held", "And now?", f"I said {SECRET}", driver=driver)

        assert columns_containing("plantedsecret") == []
        assert files_containing("plantedsecret") == []
        expected = [*left, "And now?", "I said [REDACTED]"]
        assert self.read_texts("held") == expected
        # An agent may still have the mask of a message that was rewound.
        assert "plantedsecret" not in str(driver.read("held"))

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize(
        "spelled",
        [base64.b64encode(b"me:O'Neill-4711").decode(), "O’Neill\u20114711", "o%2527neill-4711"],
        ids=["base64", "typography", "url"],
    )
    def test_no_append_brings_back_another_spelling(self, spelled: str) -> None:
        driver = self.driver()
        self.say("held", f"It is O'Neill-4711, so {spelled}", driver=driver)

        redact_text("held", "O'Neill-4711")
        self.say("held", f"again {spelled}", driver=driver)

        assert columns_containing(spelled) == columns_containing("Neill") == []
        assert self.read_texts("held")[-1] == "again [REDACTED]"

    @pytest.mark.django_db(transaction=True)
    def test_a_redaction_is_read_by_the_object_that_has_the_original(self) -> None:
        driver = self.driver()
        self.say("held", "first", SECRET, driver=driver)
        redact_first_message("held")

        self.say("held", "third", driver=driver)

        said = self.read_texts("held", driver=driver)
        assert said == self.read_texts("held")
        assert said[1:] == [SECRET, "third"]
        assert said[0] != "first"

    @pytest.mark.django_db(transaction=True)
    def test_messages_of_others_are_not_mistaken_for_ones_own(self) -> None:
        driver = self.driver()
        self.say("held", f"My code is {SECRET}", driver=driver)
        self.say("held", "from elsewhere")

        redact_text("held", SECRET)
        self.say("held", "go on", driver=driver)

        assert columns_containing("plantedsecret") == []
        assert self.read_texts("held") == ["My code is [REDACTED]", "from elsewhere", "go on"]

    @pytest.mark.django_db(transaction=True)
    def test_what_an_object_learned_in_a_transaction_is_taken_back_with_it(self) -> None:
        driver = self.driver()
        self.say("held", "hello", SECRET, driver=driver)
        with rolled_back_transaction():
            redact_text("held", "hello")
            self.say("held", "lost", driver=driver)

        redact_text("held", SECRET)
        self.say("held", f"I said {SECRET}", driver=driver)

        assert columns_containing("plantedsecret") == []
        assert self.read_texts("held") == ["hello", "[REDACTED]", "I said [REDACTED]"]


class RewriteContract(Contract[C]):
    """A history that an SDK replaces from memory stays redacted, as in a compaction.

    Its drivers use one object per session.
    """

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("secret", [SECRET, "1234"], ids=["long", "short"])
    @pytest.mark.parametrize("way", ["whole message", "text", "replaced message"])
    def test_a_history_that_is_replaced_from_memory_stays_redacted(
        self, secret: str, way: str
    ) -> None:
        driver = self.driver()
        self.say("held", secret, "keep this", driver=driver)
        held = driver.read("held")

        if way == "whole message":
            redact_first_message("held")
        elif way == "text":
            redact_text("held", secret)
        else:
            replace_first_message("held", driver.payload("[removed]"))
        driver.clear("held")
        driver.append("held", held)

        said = self.read_texts("held")
        assert len(said) == 2
        assert said[0] != secret
        assert said[1] == "keep this"
        assert columns_containing("plantedsecret") == []

    @pytest.mark.django_db(transaction=True)
    def test_a_history_whose_replacement_was_rolled_back_stays_redacted(self) -> None:
        driver = self.driver()
        self.say("held", f"My code is {SECRET}", "keep this", driver=driver)
        held = driver.read("held")
        with rolled_back_transaction():
            driver.clear("held")
            self.say("held", "a summary", driver=driver)

        redact_text("held", SECRET)
        driver.clear("held")
        driver.append("held", [*held, driver.payload("a summary")])

        left = ["My code is [REDACTED]", "keep this", "a summary"]
        assert self.read_texts("held") == left
        assert columns_containing("plantedsecret") == []

    @pytest.mark.django_db(transaction=True)
    def test_a_summary_that_quotes_a_redacted_text_in_new_words_is_masked(self) -> None:
        driver = self.driver()
        self.say("held", f"My code is {SECRET}", "keep this", driver=driver)
        held = driver.texts(driver.read("held"))

        redact_text("held", SECRET)
        driver.clear("held")
        driver.append("held", [driver.payload(f"Summary of: {text}") for text in held])

        left = ["Summary of: My code is [REDACTED]", "Summary of: keep this"]
        assert self.read_texts("held") == left
        assert columns_containing("plantedsecret") == []
        assert files_containing("plantedsecret") == []


_REGISTER = ToolCall("register", {"name": "plantedsecret"}, "call-4711-0815")

SCOPES: dict[str, Callable[[list[SessionMessage]], Scope]] = {
    "a user's message": lambda m: WholeMessage(m[0].pk),
    "a tool call": lambda m: WholeMessage(m[1].pk),
    "a tool's result": lambda m: WholeMessage(m[2].pk),
    "an answer": lambda m: WholeMessage(m[3].pk),
    "a string everywhere": lambda m: Find("plantedsecret"),
    "a pattern": lambda m: Find(r"planted\w+", pattern=True),
    "the call's own id": lambda m: Find(_REGISTER.id),
    "detections": lambda m: Detect(("email",)),
}


class AgentContract(Contract[A]):
    """The SDK's own agents continue a conversation, whichever part of it was redacted."""

    blocks: Mapping[str, tuple[int, Path]] = {}
    """Parts of messages to redact, by name, with the position of the message and the path in it."""

    spans: Mapping[str, tuple[int, Path, int, int]] = {}
    """Ranges of characters to redact, by name: as ``blocks``, with the start and the end."""

    def converse_and_redact(self, scope: Callable[[list[SessionMessage]], Scope]) -> list[Any]:
        """Redact a conversation with a tool call; return what the next run's model receives."""
        prompt = "Register plantedsecret, ada@example.com"
        self.driver().converse("redacted", prompt, _REGISTER, "Registered plantedsecret.")
        rows = list(SessionMessage.objects.order_by("message_id"))
        assert len(rows) == 4
        found = redact(rows[0].session_id, scope(rows), reason="A request")
        assert found.messages >= 1
        driver = self.driver()
        heard = driver.converse("redacted", "Thanks", "Good.")
        driver.check(heard)
        assert driver.texts(heard[-1:]) == ["Thanks"]
        # An agent that is built again knows what the living one knows.
        assert self.driver().read("redacted") == driver.read("redacted")
        return heard

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("name", list(SCOPES))
    def test_the_next_run_goes_on_after_a_redaction(self, name: str) -> None:
        heard = self.converse_and_redact(SCOPES[name])

        if name in ("a string everywhere", "a pattern"):
            assert "plantedsecret" not in str(heard)

    @pytest.mark.django_db(transaction=True)
    def test_a_living_agent_goes_on_without_what_others_redacted(self) -> None:
        driver = self.driver()
        prompt = "Register plantedsecret, ada@example.com"
        driver.converse("living", prompt, _REGISTER, "Registered plantedsecret.")
        redact_text("living", "plantedsecret")

        # Its own words, too, may repeat the text.
        for said in ("Good.", "It was plantedsecret."):
            heard = driver.converse("living", "Thanks", said)
            driver.check(heard)
            assert "plantedsecret" not in str(heard)
            assert "plantedsecret" not in str(driver.kept("living"))

        assert columns_containing("plantedsecret") == []
        assert self.driver().read("living") == driver.read("living")

    @pytest.mark.django_db(transaction=True)
    def test_the_next_run_goes_on_after_a_redaction_of_a_part(self) -> None:
        for position, path in self.blocks.values():
            self.converse_and_redact(partial(_block, position, path))
            Session.objects.all().delete()

    @pytest.mark.django_db(transaction=True)
    def test_the_next_run_goes_on_after_a_redaction_of_a_span(self) -> None:
        for position, path, start, end in self.spans.values():
            self.converse_and_redact(partial(_span, position, path, start, end))
            Session.objects.all().delete()


def _block(position: int, path: Path, rows: list[SessionMessage]) -> Scope:
    return Block(rows[position].pk, path)


def _span(position: int, path: Path, start: int, end: int, rows: list[SessionMessage]) -> Scope:
    return Span(rows[position].pk, path, start, end)
