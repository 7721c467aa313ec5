"""What people do: say something, read the answer, think; now and then look around."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import httpx

from .client import Browser, Heard, WrongError
from .scripts import OPENAI, STRANDS, Conversation, Line

ACTIVE = 3
"""How many conversations a person goes on with."""


@dataclass
class Diary:
    """What all people met."""

    first: list[float] = field(default_factory=list)
    """Seconds until the first word of each answer."""

    is_complete: list[float] = field(default_factory=list)
    """Seconds until the end of each answer."""

    lists: list[float] = field(default_factory=list)
    transcripts: list[float] = field(default_factory=list)
    answering: int = 0
    most_answering: int = 0
    answering_seconds: float = 0
    errors: list[str] = field(default_factory=list)


@dataclass
class Person:
    """Somebody who has an own login, and several conversations."""

    number: int
    name: str
    address: str
    think: tuple[float, float]
    """Seconds between an answer and what comes next: the least and the most."""

    diary: Diary
    seed: int = 0
    conversations: list[Conversation] = field(default_factory=list)

    async def live(self, begin: float, until: float) -> None:
        """Logs in and talks, until it is time to end; the last answer is heard to its end."""
        self._random = Random(f"{self.seed} {self.number}")
        browser = Browser(self.address, self.name)
        try:
            await asyncio.sleep(max(0, begin - time.monotonic()))
            await browser.log_in()
            while time.monotonic() < until:
                await self._step(browser)
                await asyncio.sleep(self._random.uniform(*self.think))
        except Exception as error:
            self._fault("leaves", error)
        finally:
            await browser.close()

    async def _step(self, browser: Browser) -> None:
        try:
            await self._talk(browser, await self._choose(browser))
            if self._random.random() < 0.15:
                await self._list(browser)
            if self._random.random() < 0.15:
                await self._read(browser, self._random.choice(self.conversations))
        except (WrongError, httpx.HTTPError) as error:
            self._fault("meets", error)

    def _fault(self, what: str, error: Exception) -> None:
        self.diary.errors.append(f"{self.name} {what} {type(error).__name__}: {error}"[:600])

    async def _choose(self, browser: Browser) -> Conversation:
        going = [each for each in self.conversations if not each.is_long][-ACTIVE:]
        if len(going) == ACTIVE or (going and self._random.random() < 0.85):
            return self._random.choice(going)
        kind = self._random.choice((STRANDS, OPENAI))
        name = f"Nr{self.number}x{len(self.conversations)}"
        key = await browser.begin(kind, f"My name is {name}.")
        self.conversations.append(Conversation(key, kind, name, self._random))
        return self.conversations[-1]

    async def _talk(self, browser: Browser, conversation: Conversation) -> None:
        line = conversation.next()
        diary = self.diary
        diary.answering += 1
        diary.most_answering = max(diary.most_answering, diary.answering)
        try:
            heard = await browser.say(conversation.id, line.read_texts)
        finally:
            diary.answering -= 1
        compare(line, heard)
        conversation.acknowledge(line)
        diary.first.append(heard.first)
        diary.is_complete.append(heard.is_complete)

    async def _list(self, browser: Browser) -> None:
        began = time.perf_counter()
        found = [each["id"] for each in await browser.sessions()]
        self.diary.lists.append(time.perf_counter() - began)
        mine = [each.id for each in self.conversations]
        if len(found) != min(30, len(mine)) or not set(found) <= set(mine):
            raise WrongError(f"GET sessions: {len(found)} of {len(mine)}, or somebody else's")

    async def _read(self, browser: Browser, conversation: Conversation) -> None:
        began = time.perf_counter()
        messages = await browser.messages(conversation.id)
        self.diary.transcripts.append(time.perf_counter() - began)
        found = said_in(messages)
        expected = [line.read_texts for line in conversation.lines]
        if found != expected:
            raise WrongError(f"GET messages: {found} in place of {expected}")


def said_in(messages: Sequence[dict[str, object]]) -> list[str]:
    """Finds what the person said in a transcript of the API."""
    found = []
    for message in messages:
        parts = message["parts"]
        assert isinstance(parts, list)
        texts = [part["text"] for part in parts if part["kind"] == "text"]
        if message["role"] == "user" and texts:
            found.append("\n".join(texts))
    return found


def compare(line: Line, heard: Heard) -> None:
    """Compares what was heard with what had to be."""
    if heard.error or not heard.finished:
        raise WrongError(f"{line.read_texts!r} ended with {heard.error or 'nothing'}")
    if heard.text.strip() != line.answer:
        raise WrongError(f"{line.read_texts!r} was answered by {heard.text!r}, not {line.answer!r}")
    if heard.thought != line.thought:
        raise WrongError(
            f"{line.read_texts!r} was answered {'with' if heard.thought else 'without'} thought"
        )
    called = [(name, next(iter(given.values()))) for name, given in heard.calls]
    if called != ([(line.write_tool_call, line.argument)] if line.write_tool_call else []):
        raise WrongError(f"{line.read_texts!r} called {called}")
