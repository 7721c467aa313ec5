"""Sync functions in a running event loop: the error names what to await instead."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import SynchronousOnlyOperation
from django.utils.functional import SimpleLazyObject

from django_agent_sessions import arun_orm, hold
from django_agent_sessions import store as store_module
from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.exceptions import SynchronousCallError
from django_agent_sessions.governance.redaction import Find, aredact
from django_agent_sessions.integrity import Check
from django_agent_sessions.leases import Lease
from django_agent_sessions.leases.held_lease import HeldLease
from django_agent_sessions.models import Session
from django_agent_sessions.store import BranchNames, Feedback, SessionStore
from django_agent_sessions.testing import make_session
from django_agent_sessions.timeline import Timeline
from tests.processes import ROOT

from .test_async import KINDS, SYNC, public_methods

# Functions that query no database in the calling thread.
PURE = {
    "adapters.openai_agents.trace_config",
    "audit.acting",
    *(f"content.detectors.{name}" for name in ("available", "detect", "labels", "load", "names")),
    *(
        f"content.dialects.{name}"
        for name in (
            *("all_dialects", "client_written", "configure", "displayable", "get", "labels"),
            *("load", "node_messages", "recognize", "vocabulary"),
        )
    ),
    "content.work_budget.limit_work",
    "db.bridge.joined",
    "db.bridge.register_waiting_call",
    "governance.redaction.request_budget",
    # They return functions for `import_sessions`.
    "interchange.owners_from_csv",
    "interchange.owners_from_function",
    "interchange.owners_from_source",
    "models.cascade_unless_held",
    "operations.run_in_thread",
    "rest.chat.ai_sdk.chat_urls",
    "rest.lifespan.end_answers_at_shutdown",
    # For sync code below a running loop, such as an agent's tool.
    "run_orm",
    "serving.middleware.acting_user",
    "store.session_record",
    *(f"telemetry.{name}" for name in ("session_context", "start_recording", "stop_recording")),
    *(f"testing.{name}" for name in ("columns_containing", "error_texts", "files_containing")),
    *(f"usage.{name}" for name in ("amount", "midnight", "percentile", "today", "total")),
    "values.run_context.run_context",
}
TWINS = {"acquire": "aacquire", "check": "acheck", "redact": "aredact", "run_steps": "arun_steps"}


def public_functions() -> dict[str, Callable[..., Any]]:
    """Return all functions that the reference describes or a public module exports."""
    found: dict[str, Callable[..., Any]] = {}
    for module, name in public_names():
        value = getattr(import_module(module), name)
        if inspect.isroutine(value) and value not in found.values():
            dotted = f"{module}.{name}".removeprefix("django_agent_sessions.")
            found[dotted] = value
    return found


def public_names() -> list[tuple[str, str]]:
    exported = [(module, name) for module in PUBLIC for name in names_in(module)]
    described = []
    for page in sorted((ROOT / "docs/reference").glob("*.md")):
        module = ""
        for line in page.read_text().splitlines():
            if found := re.match(r"\.\. (?:currentmodule|automodule):: (\S+)", line):
                module = found[1]
            elif found := re.match(r"\.\. autofunction:: (\S+)", line):
                dotted = found[1] if "." in found[1] else f"{module}.{found[1]}"
                described.append((dotted.rpartition(".")[0], dotted.rpartition(".")[2]))
    return sorted({*exported, *described})


def names_in(module: str) -> Iterable[str]:
    return getattr(import_module(module), "__all__", ())


PUBLIC = re.findall(
    r"^\| `(django_agent_sessions[\w.]*)` \|",
    (ROOT / "docs/reference/index.md").read_text(),
    re.MULTILINE,
)
FUNCTIONS = public_functions()
SERVICES: dict[str, Callable[..., Any]] = {
    **{
        name: function
        for name, function in FUNCTIONS.items()
        if name not in PURE and not inspect.iscoroutinefunction(function)
    },
    "integrity.Check.run": lambda: Check().run(),
    **{
        f"Timeline.{name}": functools.partial(method, None)
        for name, method in public_methods(Timeline).items()
    },
}


def test_the_functions_that_query_nothing_exist():
    assert FUNCTIONS.keys() >= PURE
    assert len(SERVICES) > 50


def test_each_part_of_the_store_is_tried():
    parts = {
        value
        for name in names_in("django_agent_sessions.store")
        if inspect.isclass(value := getattr(store_module, name)) and public_methods(value)
    }

    assert parts == {*KINDS, Feedback, BranchNames}


@pytest.mark.parametrize(("kind", "name"), SYNC)
async def test_a_method_of_the_store_names_its_async_twin(kind, name):
    store = SessionStore()
    part = store if kind is SessionStore else kind(store._context)

    with pytest.raises(SynchronousCallError, match=rf"{name}\(\) .* await a{name}\(\)"):
        getattr(part, name)()


@pytest.mark.parametrize("name", ["list", "save", "delete"])
async def test_so_does_feedback(name):
    with pytest.raises(SynchronousCallError, match=rf"await a{name}\(\)"):
        getattr(Feedback(SessionStore()._context), name)()


async def test_a_method_without_a_twin_names_arun_orm():
    with pytest.raises(SynchronousCallError, match=r"await arun_orm\(BranchNames\.find"):
        BranchNames(SessionStore()).find(None, "x")  # type: ignore[arg-type] # never read


@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_names_what_to_await(name):
    function = name.rpartition(".")[2]
    advice = TWINS.get(function) or rf"arun_orm\(([A-Z]\w+\.)?{function}"

    with pytest.raises(SynchronousCallError, match=f"await {advice}"):
        SERVICES[name]()


async def test_a_lease_is_released_by_its_async_twin():
    with pytest.raises(SynchronousCallError, match=r"await arelease\(\)"):
        Lease(HeldLease(uuid4(), seconds=1, using="default")).release()


async def test_a_sync_block_of_an_adapter_names_the_async_one():
    with (
        pytest.raises(SynchronousCallError, match="use `async with`"),
        DjangoSession("s", exclusive=True),
    ):
        pytest.fail("not reached")


async def test_the_error_is_the_one_that_django_raises_and_ours():
    with pytest.raises(SynchronousOnlyOperation):
        SessionStore().get("s")


def test_no_twin_is_guarded_itself():
    for kind in KINDS:
        for name, method in public_methods(kind).items():
            if asyncio.iscoroutinefunction(method):
                assert not hasattr(kind, f"a{name}")


@pytest.mark.django_db(transaction=True)
async def test_what_the_errors_advise_works_with_a_lazy_user():
    ada = await arun_orm(User.objects.create, username="ada")

    def lazy() -> Any:
        return SimpleLazyObject(lambda: User.objects.get(pk=ada.pk))

    row = await arun_orm(make_session, "Hello", owner=ada, session_id="s")
    store = SessionStore(owner=lazy())
    assert (await store.aget("s")).id == row.pk
    assert (await aredact("s", "Hello", reason="r", actor=lazy())).messages == 1
    assert await arun_orm(hold, "s", reason="r", actor=lazy()) is True
    assert (await arun_orm(Session.objects.get)).legal_hold is True


@pytest.mark.django_db(transaction=True)
async def test_find_is_one_of_the_scopes():
    await arun_orm(make_session, "Hello", session_id="s")

    assert (await aredact("s", Find("Hello"), dry_run=True)).messages == 1
