"""Two chats for ``useChat``: one agent of Strands, one of the OpenAI Agents SDK."""

from typing import Any

import agents
import strands
from django.conf import settings
from django.urls import include, path

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.rest.chat.ai_sdk import Chat, ChatView, chat_urls

# By default each run is sent to OpenAI as a trace, where no redaction reaches it.
UNTRACED = agents.RunConfig(tracing_disabled=True)


@strands.tool
def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"It is sunny in {city}."


class SupportChat(ChatView):
    """Answer with a Strands agent."""

    async def respond(self, chat: Chat) -> Any:
        """Pass the message to the agent."""
        agent = strands.Agent(
            model=settings.SUPPORT_MODEL,
            tools=[weather],
            session_manager=await DjangoSessionManager.load(
                chat.session_id, owner=chat.owner, scope=chat.scope, create=False
            ),
            callback_handler=None,
        )
        return agent.stream_async(chat.strands_input, cancel_signal=chat.stopping)


class ResearchChat(ChatView):
    """Answer with an agent of the OpenAI Agents SDK."""

    namespace = "research"

    async def respond(self, chat: Chat) -> Any:
        """Run the agent."""
        agent: agents.Agent[Any] = agents.Agent(
            name="researcher",
            model=settings.RESEARCH_MODEL,
            tools=[agents.function_tool(weather._tool_func)],
        )
        session = DjangoSession(
            chat.session_id,
            owner=chat.owner,
            namespace=chat.namespace,
            scope=chat.scope,
            create=False,
        )
        return agents.Runner.run_streamed(
            agent, chat.openai_input, session=session, run_config=UNTRACED
        )


urlpatterns = [
    # This API serves the binaries of messages.
    path("api/agent-sessions/", include("django_agent_sessions.rest.urls")),
    *chat_urls(SupportChat, "api/support"),
    *chat_urls(ResearchChat, "api/research", name="research"),
]
