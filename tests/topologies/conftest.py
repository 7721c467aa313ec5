"""What comes from a replica, on whatever serves as one."""

from __future__ import annotations

import os

import pytest
from django.urls import reverse

from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore

# They need servers of their own: `make test-replica` starts them.
collect_ignore = [] if "REPLICAPORT" in os.environ else ["live"]

SECRET = "4111 1111 1111 1111"
LIST = "/api/sessions/"
CHANGELIST = "/admin/agent_sessions/session/"


class Talk:
    """A session of somebody, with its pages."""

    def __init__(self, owner, name: str = "talk", title: str = "Plans") -> None:
        self.store = SessionStore(owner=owner)
        self.session = self.store.create(name, title=title)
        self.agent = self.store.agents.open(self.session, "concierge", dialect="strands")

    def say(self, text: str) -> None:
        self.store.append(self.agent, {"role": "user", "content": [{"text": text}]})

    @property
    def url(self) -> str:
        return f"{LIST}{self.session.id}/"

    @property
    def messages(self) -> str:
        return f"{self.url}messages/"

    @property
    def page(self) -> str:
        return reverse("admin:agent_sessions_session_change", args=[self.session.id])

    @property
    def row(self) -> Session:
        return Session.objects.using("default").get(pk=self.session.id)


@pytest.fixture
def talk(ada) -> Talk:
    """A session in which a secret was said."""
    talk = Talk(ada)
    talk.say(f"My card is {SECRET}.")
    return talk


@pytest.fixture
def replicated(settings):
    """The settings of a project that has a replica."""
    settings.AGENT_SESSIONS = {"REPLICA_DATABASE": "replica"}
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "django_agent_sessions.serving.middleware.reading_own_writes",
    ]
