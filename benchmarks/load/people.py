"""What people do, for Locust: say something, read the answer, think; now and then look around.

Locust runs this file in a process of its own, which writes down what people met when it ends.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from locust import HttpUser, between, events, task

from benchmarks.load.answers import Heard, WrongError, compare, said_in
from benchmarks.load.scripts import OPENAI, PASSWORD, STRANDS, Conversation, name_of

ACTIVE = 3
"""How many conversations a person goes on with."""

SEED = os.environ["LOAD_SEED"]
THINK = tuple(map(float, os.environ["LOAD_THINK"].split()))
"""Seconds between an answer and what comes next: the least and the most."""

SESSIONS = "/api/agent-sessions/sessions/"
_numbers = itertools.count()
_people: list[Person] = []
_times: dict[str, list[float]] = defaultdict(list)
"""Seconds until the first word and the end of answers, of lists and of transcripts."""

_errors: list[str] = []
_answering = {"now": 0, "most": 0}
_began = {"at": 0.0, "computed": 0.0, "ended": 0.0}


class Person(HttpUser):
    """A person who has an own login, and several conversations."""

    wait_time = between(*THINK)

    def on_start(self) -> None:
        """Log in by the form, and open the chat."""
        number = next(_numbers)
        self.number, self.name = number, name_of(number)
        self.random = Random(f"{SEED} {number}")
        self.conversations: list[Conversation] = []
        _people.append(self)
        self._ask("GET", "/login/")
        token = self.client.cookies["csrftoken"]
        form = {"username": self.name, "password": PASSWORD, "csrfmiddlewaretoken": token}
        self._ask("POST", "/login/", status=302, data=form, allow_redirects=False)
        self._ask("GET", "/")

    @task
    def talk(self) -> None:
        """Say something, and compare the answer, word for word; perhaps look around."""
        conversation = self._choose()
        line = conversation.next()
        _answering["now"] += 1
        _answering["most"] = max(_answering.values())
        try:
            heard = self._hear(conversation.id, line.read_texts)
        finally:
            _answering["now"] -= 1
        compare(line, heard)
        conversation.acknowledge(line)
        if self.random.random() < 0.15:
            self._list()
        if self.random.random() < 0.15:
            self._read(self.random.choice(self.conversations))

    def _choose(self) -> Conversation:
        going = [each for each in self.conversations if not each.is_long][-ACTIVE:]
        if len(going) == ACTIVE or (going and self.random.random() < 0.85):
            return self.random.choice(going)
        kind = self.random.choice((STRANDS, OPENAI))
        name = f"Nr{self.number}x{len(self.conversations)}"
        metadata = {"agent": kind, "title": "automatic"}
        body = {"title": f"My name is {name}.", "metadata": metadata}
        made = self._ask("POST", SESSIONS, status=201, json=body).json()
        self.conversations.append(Conversation(made["id"], kind, name, self.random))
        return self.conversations[-1]

    def _hear(self, session: str, text: str) -> Heard:
        parts = [{"type": "text", "text": text}]
        message = {"id": str(uuid4()), "role": "user", "parts": parts}
        body = {"id": session, "message": message, "trigger": "submit-message"}
        heard, done, first = Heard(), False, 0.0
        began = time.perf_counter()
        with closing(self._ask("POST", "/api/ai-sdk/chat", json=body, stream=True)) as answer:
            for event in answer.iter_lines(chunk_size=None, delimiter=b"\n\n"):
                done = done or event == b"data: [DONE]"
                if event.startswith(b"data: ") and not done:
                    heard.take(json.loads(event[6:]))
                if heard.text and not first:
                    first = time.perf_counter() - began
        if not done:
            raise WrongError("POST chat: the stream broke off")
        _times["first"].append(first)
        _times["complete"].append(time.perf_counter() - began)
        return heard

    def _list(self) -> None:
        began = time.perf_counter()
        listed = self._ask("GET", SESSIONS, params={"limit": 30}).json()["results"]
        _times["lists"].append(time.perf_counter() - began)
        found, mine = {each["id"] for each in listed}, {each.id for each in self.conversations}
        if len(listed) != min(30, len(mine)) or not found <= mine:
            raise WrongError(f"GET sessions: {len(listed)} of {len(mine)}, or another person's")

    def _read(self, conversation: Conversation) -> None:
        address: str | None = f"{SESSIONS}{conversation.id}/messages/?limit=100&order=asc"
        found: list[dict[str, Any]] = []
        began = time.perf_counter()
        while address:
            page = self._ask("GET", address, name=f"{SESSIONS}…/messages/").json()
            found += page["results"]
            address = page["next"]
        _times["transcripts"].append(time.perf_counter() - began)
        expected = [line.read_texts for line in conversation.lines]
        if said_in(found) != expected:
            raise WrongError(f"GET messages: {said_in(found)} in place of {expected}")

    def _ask(self, method: str, address: str, *, status: int = 200, **options: Any) -> Any:
        headers = {"Accept": "*/*", "X-CSRFToken": self.client.cookies.get("csrftoken", "")}
        answer = self.client.request(method, address, headers=headers, timeout=120, **options)
        if answer.status_code != status:
            text = answer.text or getattr(answer, "error", "")
            raise WrongError(f"{method} {address}: {answer.status_code} {text!s:.200}")
        return answer


@events.user_error.add_listener
def note_error(user_instance: Any, exception: BaseException, **more: Any) -> None:
    """Note what a person met in place of what had to be."""
    # Locust hands over the set of tasks where the error is of a task.
    person = getattr(user_instance, "user", user_instance)
    _errors.append(f"{person.name} meets {type(exception).__name__}: {exception}"[:600])


@events.test_start.add_listener
def begin(**more: Any) -> None:
    """Note when the first person comes."""
    _began.update(at=time.monotonic(), computed=time.process_time())


@events.test_stop.add_listener
def end(**more: Any) -> None:
    """Note when the last person has left."""
    _began.update(ended=time.monotonic(), computed=time.process_time() - _began["computed"])


@events.quit.add_listener
def write_down(**more: Any) -> None:
    """Write down what all of them met, and what their conversations have to be."""
    met = {
        "seconds": _began["ended"] - _began["at"],
        "computed": _began["computed"],
        "times": _times,
        "most_answering": _answering["most"],
        "errors": _errors,
        "conversations": {
            person.name: [
                {"id": one.id, "kind": one.kind, "lines": [asdict(line) for line in one.lines]}
                for one in person.conversations
            ]
            for person in _people
        },
    }
    (Path(os.environ["LOAD_DIRECTORY"]) / "people.json").write_text(json.dumps(met))
