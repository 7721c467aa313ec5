"""Tests of a project: Django's ``TestCase``, and pytest's plain ``db`` fixture.

Each class and function here checks first that the one before left nothing.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import django.test
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.test import AsyncClient, Client, override_settings

from django_agent_sessions.models import Session

from .chats import SDK, said, sdk_named, turns


class RollsBack:
    """What a project's test case may do; each test leaves the database as it found it."""

    sdk: ClassVar[SDK]

    @classmethod
    def setUpTestData(cls):
        cls.sdk("of-the-class").say("one")

    def setUp(self):
        assert Session.objects.count() == 1
        assert said("of-the-class") == turns("one")

    def test_sync(self):
        self.sdk("s").say("one")
        self.sdk("of-the-class").say("two")
        assert said("s") == turns("one")

    def test_sync_once_more(self):
        self.test_sync()

    def test_through_asyncio(self):
        asyncio.run(self.sdk("s").asay("one"))
        assert said("s") == turns("one")

    def test_through_async_to_sync(self):
        async_to_sync(self.sdk("s").asay)("one")
        assert said("s") == turns("one")

    async def test_async(self):
        agent = await self.sdk.load("s")
        await agent.asay("one")
        assert await Session.objects.acount() == 2

    async def test_async_once_more(self):
        await self.sdk("s").asay("one")
        assert await Session.objects.acount() == 2

    def test_views(self):
        for view in ("sync", "bridging", "async", "building"):
            assert Client().get(f"/{view}/{self.sdk.name}/s/{view}").status_code == 200
        assert said("s") == turns("sync", "bridging", "async", "building")

    async def test_async_views(self):
        for view in ("sync", "bridging", "async", "building"):
            response = await AsyncClient().get(f"/{view}/{self.sdk.name}/s/{view}")
            assert response.status_code == 200
        found = Session.objects.filter(session_id="s", message_count__gt=0)
        assert await found.acount() == 1


@override_settings(ROOT_URLCONF="tests.contexts.views")
class TestStrands(RollsBack, django.test.TestCase):
    sdk = sdk_named("strands")


@override_settings(ROOT_URLCONF="tests.contexts.views")
class TestOpenAI(RollsBack, django.test.TestCase):
    sdk = sdk_named("openai")


def test_the_plain_fixture(db, sdk):
    assert not Session.objects.exists()
    get_user_model().objects.create_user("ada")
    sdk("s").say("one")
    asyncio.run(sdk("s").asay("two"))
    assert said("s") == turns("one", "two")


async def test_the_plain_fixture_in_an_async_test(db, sdk):
    assert await _sessions() == 0
    agent = await sdk.load("s")
    await agent.asay("one")
    await sdk("s").asay("two")
    assert await _sessions() == 1


def test_the_plain_fixture_again(db, sdk):
    assert not Session.objects.exists()


async def _sessions() -> int:
    from django_agent_sessions.db.bridge import arun_orm

    return await arun_orm(Session.objects.count)
