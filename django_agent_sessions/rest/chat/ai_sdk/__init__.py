"""Chats for the Vercel AI SDK (``useChat``): transcripts as messages, agents' answers as streams.

::

    from django_agent_sessions.rest.chat.ai_sdk import Chat, ChatView, chat_urls


    class SupportChat(ChatView):
        async def respond(self, chat: Chat):
            manager = await DjangoSessionManager.load(chat.session_id, owner=chat.owner)
            agent = Agent(session_manager=manager)
            return agent.stream_async(chat.strands_input)


    urlpatterns = [*chat_urls(SupportChat, "chat")]

No agent framework is imported here: the events of an agent are recognized by their shape. The
protocol is that of ``ai`` 6 and 7: https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol
"""

from __future__ import annotations

from .chat import Attachment, Chat
from .ui_messages import Page, page_of
from .views import ChatView, chat_urls

__all__ = ["Attachment", "Chat", "ChatView", "Page", "chat_urls", "page_of"]
