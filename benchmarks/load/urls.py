"""The example's site; its chat lets as many people talk at once as there are, and is timed."""

from __future__ import annotations

import os
from typing import Any

from django.urls import include, path

from django_agent_sessions.rest.chat.ai_sdk import Chat, chat_urls
from example_project import urls as example
from example_project.chat.answers import Answers

from . import timing

timing.install()


class TimedAnswers(Answers):
    """The example's answers."""

    # By default 100 in a process, so that a flood is a 503 and not the end of the process.
    max_runs = int(os.environ["LOAD_AGENTS"]) + 1

    async def respond(self, chat: Chat) -> Any:
        """Makes the answer, and notes what its agent waited for the database."""
        turn = timing.begin("")
        answer = await super().respond(chat)
        turn.agent = "OpenAI" if hasattr(answer, "stream_events") else "Strands"
        return timing.counted(turn, answer)


urlpatterns = [
    # Before the example's own, which is then never found.
    path("api/ai-sdk/", include((chat_urls(TimedAnswers, "chat"), "ai_sdk"))),
    *example.urlpatterns,
]
