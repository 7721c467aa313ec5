"""The application for WSGI servers; ``CONTEXTS_PATCH`` says what is done to the process before."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

PATCH = os.environ.get("CONTEXTS_PATCH")
if PATCH == "nest_asyncio":
    import nest_asyncio

    nest_asyncio.apply()

application = get_wsgi_application()

if PATCH == "preload":
    # The parent of the workers has talked to agents.
    from django.db import connections

    from benchmarks.contexts.agents import say

    for sdk in ("strands", "openai"):
        say(sdk, f"before-{sdk}", "before the fork")
    connections.close_all()
