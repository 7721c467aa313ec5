"""The same conversations under the SDKs' own agents, and in the clients of the chat wires."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol
from uuid import uuid4

from agents import Runner
from django.test import Client
from django.urls import include, path

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.models import Session
from django_agent_sessions.rest.chat.ai_sdk import chat_urls
from tests.adapters.openai_agents.scripted import call as openai_call
from tests.adapters.openai_agents.team import assistant, requests
from tests.adapters.strands.agents import build, model_of
from tests.adapters.strands.scripted import USAGE, Redact
from tests.adapters.strands.scripted import call as strands_call
from tests.rest.chat.ai_sdk.clients import body
from tests.rest.chat.ai_sdk.urls import OpenAITools, StrandsTools
from tests.rest.chat.assistant_ui.conftest import ui

urlpatterns = [
    *chat_urls(StrandsTools, "strands", name="strands"),
    *chat_urls(OpenAITools, "openai", name="openai"),
    path("", include("django_agent_sessions.rest.chat.assistant_ui.urls")),
]

UNDERSTOOD = (200, 201, 204)
REFUSED = (400, 403, 404, 409, 413, 429)
"""What a client may be answered, such as for a session that is under legal hold."""


class Talk(Protocol):
    """What these operations need of the world."""

    chance: Any
    tokens: Any
    with_costs: Any
    users: Any

    def plain_session(self) -> Session: ...

    def word(self) -> str: ...


def _owner(session: Session) -> dict[str, Any]:
    return {} if session.owner_id is None else {"owner": session.owner_id}


def _delivered(answer: Any) -> Any:
    """Reads an answer to its end."""
    assert answer.status_code in (*UNDERSTOOD, *REFUSED), answer.content
    if answer.streaming:
        b"".join(answer.streaming_content)
        return None
    return answer.json() if answer.status_code in UNDERSTOOD and answer.content else None


class Clients:
    """Operations of agents and of browsers."""

    def strands_turn(self: Talk) -> None:
        """Ask a Strands agent, whose model calls a tool or whose guardrail blocks the question."""
        session = self.plain_session()
        steps = [strands_call("add", a=1, b=2), self.word()]
        if self.chance.random() < 0.2:
            steps = [Redact("Blocked.")]
        name = session.session_id
        agent = build(*steps, session_id=name, agent_id="strands", **_owner(session))
        agent(self.word())
        self.tokens[session.pk] += USAGE["inputTokens"] * len(model_of(agent).requests)

    def openai_turn(self: Talk) -> None:
        """Ask an agent of the OpenAI Agents SDK."""
        session = self.plain_session()
        agent = assistant(openai_call("add", a=1, b=2), self.word())
        mine = DjangoSession(session.session_id, **_owner(session))
        asyncio.run(Runner.run(agent, self.word(), session=mine))
        self.tokens[session.pk] += USAGE["inputTokens"] * len(requests(agent))

    def advanced(self: Talk) -> None:
        """Ask one whose session has branches and usage, and do something with them."""
        session = self.plain_session()
        self.with_costs.add(session.pk)
        mine = AdvancedDjangoSession(session.session_id, **_owner(session))
        agent = assistant(openai_call("add", a=1, b=2), self.word())
        deed, number = self.chance.choice(["branch", "switch", "delete", "pop", ""]), self.chance

        async def work() -> None:
            result = await Runner.run(agent, self.word(), session=mine)
            await mine.store_run_usage(result)
            turns = await mine.get_conversation_turns()
            others = [each for each in await mine.list_branches() if not each["is_current"]]
            if deed == "branch" and turns:
                await mine.create_branch_from_turn(number.randrange(len(turns)) + 1)
                await Runner.run(assistant(self.word()), self.word(), session=mine)
            if deed == "switch" and others:
                await mine.switch_to_branch(number.choice(others)["branch_id"])
                await mine.add_items([{"role": "user", "content": self.word()}])
            if deed == "delete" and (others := [e for e in others if e["branch_id"] != "main"]):
                await mine.delete_branch(number.choice(others)["branch_id"])
            if deed == "pop":
                await mine.pop_item()
                await mine.pop_item()

        asyncio.run(work())

    def ai_sdk(self: Talk) -> None:
        """Chat as ``useChat`` does: ask, send again, or leave before the answer is over."""
        user = self.chance.choice(self.users)
        api = self.chance.choice(["strands", "openai"])
        chat = f"{api}-{self.chance.randrange(2)}-of-{user}"
        own = Session.objects.filter(owner=user.pk, external_id=chat)
        client = Client()
        client.force_login(user)
        order = self.chance.choice(["weather", "broken-tool", "think", "say"])
        sent = body(chat, f"{order} {self.word()}", key=f"m-{uuid4().hex}")
        for _ in range(self.chance.choice([1, 1, 2])):
            answer = client.post(f"/{api}", sent, content_type="application/json")
            if answer.streaming and self.chance.random() < 0.1:
                answer.close()
            else:
                _delivered(answer)
        _delivered(client.get(f"/{api}/{chat}/messages"))
        self.with_costs.update(own.values_list("pk", flat=True))

    def assistant_ui(self: Talk) -> None:
        """Write to a thread as assistant-ui does: say, say again, edit, change or delete."""
        user = self.chance.choice(self.users)
        client = Client()
        client.force_login(user)

        def ask(method: str, where: str, sent: Any = None) -> Any:
            more = {} if sent is None else {"data": json.dumps(sent)}
            return _delivered(
                getattr(client, method)(f"/v1/{where}", content_type="application/json", **more)
            )

        name = f"thread-{self.chance.randrange(2)}"
        begun = {"last_message_at": "2026-01-01T00:00:00.000Z", "external_id": name}
        if (thread := ask("post", "threads", begun)) is None:
            return
        messages = f"threads/{thread['thread_id']}/messages"
        found = (ask("get", messages) or {"messages": []})["messages"]
        parents = [None, *(message["id"] for message in found)]
        parent = self.chance.choice([parents[-1], parents[1 % len(parents)], *parents])
        content = ui(self.chance.choice(["user", "assistant"]), self.word())
        said = {"parent_id": parent, "format": "ai-sdk/v6", "content": content}
        deed = self.chance.choice(["say", "say", "again", "change", "delete"])
        if deed in ("say", "again"):
            said["external_id"] = uuid4().hex
            for _ in range(2 if deed == "again" else 1):
                ask("post", messages, said)
        elif found:
            one = self.chance.choice(found)["id"]
            if deed == "change":
                ask("put", f"{messages}/{one}", {"content": content})
            else:
                ask("delete", messages, {"message_ids": [one]})
