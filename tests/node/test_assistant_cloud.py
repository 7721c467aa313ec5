"""assistant-ui's own client, under Node, against a real server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from django.core.handlers.asgi import ASGIHandler

from django_agent_sessions.models import Session
from django_agent_sessions.rest.chat.assistant_ui.views import AssistantUIView
from tests.rest.chat.assistant_ui.bearer import BearerAuthentication, token_for
from tests.rest.conftest import Talk

from . import running


@contextmanager
def uvicorn_server() -> Iterator[str]:
    """Serves the site from a thread; gives its address."""
    server = uvicorn.Server(
        uvicorn.Config(ASGIHandler(), port=0, lifespan="off", ws="none", log_level="error")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            threading.Event().wait(0.01)
        (port,) = {s.getsockname()[1] for one in server.servers for s in one.sockets}
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.mark.django_db(transaction=True)
def test_assistant_uis_client_works_unchanged(node_modules, settings, monkeypatch, ada, bob):
    settings.ROOT_URLCONF = "tests.rest.chat.assistant_ui.urls"
    monkeypatch.setattr(AssistantUIView, "authentication_classes", [BearerAuthentication])

    served = Talk(ada, "Where to?", "To Lisbon.").session
    told = {"ADA": token_for(ada), "BOB": token_for(bob), "SERVED": str(served.id)}
    with uvicorn_server() as url:
        running.run("assistant-cloud.test.mjs", API=url, **told)

    assert not Session.objects.exists()
