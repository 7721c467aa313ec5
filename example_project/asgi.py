"""The ASGI application: ``uvicorn example_project.asgi:application``.

The chat streams, and a stream under WSGI would take a worker for itself.
"""

from __future__ import annotations

import gc
import os
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application
from django.urls import get_resolver

from django_agent_sessions.rest.lifespan import end_answers_at_shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")

application: Any = get_asgi_application()
# The SDKs take seconds to import: now, and not in the first request while all others wait.
_ = get_resolver().url_patterns
# What was imported stays. Looking through all of it for garbage would stop the loop each time.
gc.freeze()
if settings.DEBUG:
    # Whoever serves a site to others lets a web server do this.
    application = ASGIStaticFilesHandler(application)
# A server that is ended ends the answers that it gives, and other processes know it at once.
application = end_answers_at_shutdown(application)
