"""The chats under ASGI."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

from django_agent_sessions.rest.lifespan import end_answers_at_shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.rest.chat.ai_sdk.settings")

application = end_answers_at_shutdown(get_asgi_application())
