from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connections
from django.test import TransactionTestCase

from django_agent_sessions.models import Session

from .chats import NAMES, SDK, sdk_named


@pytest.fixture(scope="package", autouse=True)
def deleted_instead_of_flushed() -> Iterator[None]:
    """Deletes what a test committed; PostgreSQL's TRUNCATE takes longer than most tests here."""

    def delete(test_case: TransactionTestCase) -> None:
        Session.objects.all().delete()
        get_user_model().objects.all().delete()
        connections.close_all()

    with pytest.MonkeyPatch.context() as patch:
        # On MariaDB a name that was just deleted locks its neighbours when it is inserted again,
        # so that transactions of the next test would deadlock.
        if settings.TEST_DATABASE != "mariadb":
            patch.setattr(TransactionTestCase, "_fixture_teardown", delete)
        yield


@pytest.fixture(params=NAMES)
def sdk(request) -> SDK:
    """The agents of one SDK: ``sdk("session").say("text")``."""
    return sdk_named(request.param)


@pytest.fixture
def in_thread() -> Callable[[Callable[[], Any]], Any]:
    """Runs something in a thread of its own, as another request would, and closes up after it."""
    return run_in_thread


def run_in_thread(function: Callable[[], Any]) -> Any:
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function())
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert outcome, "it failed, or it hangs"
    return outcome[0]
