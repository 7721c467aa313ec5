"""Routers that answer by a context variable, which a middleware sets for the time of a request."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest
from django.db.models import Model

from .chats import said, turns

pytestmark = pytest.mark.django_db(transaction=True)

tenants_database: ContextVar[str] = ContextVar("tenants_database", default="default")


class OfTheTenant:
    """Sends everything to the database of whoever asks."""

    def db_for_read(self, model: type[Model], **hints: object) -> str:
        """Tells where the rows of a model are."""
        return tenants_database.get()

    db_for_write = db_for_read


@pytest.fixture(autouse=True)
def router(settings):
    """Has the router asked."""
    settings.DATABASE_ROUTERS = [f"{__name__}.OfTheTenant"]


def test_an_agent_keeps_to_the_database_for_which_it_was_made(sdk):
    agent = sdk("s")

    token = tenants_database.set("another tenant's")
    assert agent.say("one") == "You said: one"
    assert asyncio.run(agent.asay("two")) == "You said: two"
    tenants_database.reset(token)

    assert said("s") == turns("one", "two")


def test_an_agent_that_was_loaded_keeps_to_the_database_for_which_it_was_made(sdk):
    agent = asyncio.run(sdk.load("s"))

    token = tenants_database.set("another tenant's")
    assert asyncio.run(agent.asay("one")) == "You said: one"
    tenants_database.reset(token)

    assert said("s") == turns("one")
