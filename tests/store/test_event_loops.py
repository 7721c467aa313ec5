"""Sync functions in a running event loop: the error names what to await instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import SynchronousOnlyOperation
from django.utils.functional import SimpleLazyObject

from django_agent_sessions import arun_orm, audit, hold, operations, redact, release, usage
from django_agent_sessions.exceptions import InvalidIdError, SynchronousCallError
from django_agent_sessions.governance import reviews, session_deletion, sharing
from django_agent_sessions.governance.erasure import erase
from django_agent_sessions.governance.redaction import Find, aredact, descendants_of, originals
from django_agent_sessions.governance.retention import prune
from django_agent_sessions.interchange.importing import import_sessions
from django_agent_sessions.interchange.jsonl_export import export_sessions
from django_agent_sessions.interchange.markdown import export_markdown
from django_agent_sessions.interchange.person_export import export_person
from django_agent_sessions.models import Session
from django_agent_sessions.queries import search
from django_agent_sessions.store import BranchNames, Feedback, SessionStore
from django_agent_sessions.testing import make_session

from .test_async import KINDS, SYNC, public_methods

SERVICES: list[Callable[..., Any]] = [
    hold,
    release,
    redact,
    descendants_of,
    originals.purge_originals,
    session_deletion.delete,
    erase,
    prune,
    export_person,
    export_sessions,
    export_markdown,
    import_sessions,
    search.find_sessions,
    search.find_messages,
    audit.record,
    audit.purge,
    sharing.add_participant,
    sharing.remove_participant,
    sharing.create_link,
    sharing.revoke_link,
    sharing.find_link,
    sharing.owner_for,
    reviews.add_note,
    reviews.edit_note,
    reviews.delete_note,
    reviews.set_labels,
    reviews.set_state,
    reviews.assign,
    usage.roll_up,
    usage.rebuild,
    usage.daily,
    usage.top,
    usage.by_owner,
    usage.by_month,
    usage.daily_ratings,
    usage.ratings_by,
    usage.counted_until,
    usage.first_day,
    operations.start,
    operations.cancel,
    operations.resume,
    operations.run,
    operations.run_waiting,
]


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


@pytest.mark.parametrize("service", SERVICES, ids=lambda each: each.__name__)
async def test_a_service_names_what_to_await(service):
    advice = "aredact" if service is redact else rf"arun_orm\({service.__name__}"

    with pytest.raises(SynchronousCallError, match=f"await {advice}"):
        service()


async def test_the_error_is_the_one_that_django_raises_and_ours():
    with pytest.raises(SynchronousOnlyOperation):
        SessionStore().get("s")


def test_no_twin_is_guarded_itself():
    for kind in KINDS:
        for name, method in public_methods(kind).items():
            if asyncio.iscoroutinefunction(method):
                assert not hasattr(kind, f"a{name}")


async def test_the_environment_variable_of_django_switches_it_off(monkeypatch):
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")

    with pytest.raises(InvalidIdError):
        SessionStore().find("")


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
