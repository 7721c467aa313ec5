"""The chats under ASGI."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

from django_agent_sessions.rest.lifespan import ending_answers

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.rest.ai_sdk.settings")

application = ending_answers(get_asgi_application())
