"""A redaction stays within the budget of the request that it is part of."""

from __future__ import annotations

import gc
import tracemalloc
from unittest.mock import patch

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.content.detectors import load
from django_agent_sessions.content.masking import Finders
from django_agent_sessions.content.work_budget import WorkBudget, limit_work
from django_agent_sessions.exceptions import RedactionScopeError, WorkLimitError
from django_agent_sessions.governance.redaction import Detect, Find, WholeMessage, redact
from django_agent_sessions.models import AuditEvent, SessionMessage

pytestmark = pytest.mark.django_db

MB = 1024 * 1024


def said(text):
    return {"role": "user", "content": text}


@pytest.fixture
def agent(store):
    return store.agents.open(store.open("s"))


def test_all_matches_are_counted_and_the_first_thousand_are_kept(store, agent):
    store.append_many(agent, [said("secret " * 700), said("secret " * 900)])

    preview = redact(agent.session, Find("secret"), reason="", dry_run=True)
    assert (preview.total, len(preview.hits), preview.messages) == (1600, 1000, 2)

    done = redact(agent.session, Find("secret"), reason="r", expected=preview.digest)
    assert (done.total, len(done.hits)) == (1600, 1000)
    assert AuditEvent.objects.get().details["hits"] == 1600
    assert "secret" not in str(list(SessionMessage.objects.values()))


@pytest.mark.large
def test_a_preview_of_very_many_matches_takes_little_memory(store, agent):
    store.append(agent, said("ab" * 300_000))

    tracemalloc.start()
    try:
        preview = redact(agent.session, Find("ab"), reason="", dry_run=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert preview.total == 300_000
    assert peak < 64 * MB


def test_what_changes_beyond_the_first_thousand_changes_the_digest(store, agent):
    store.append(agent, said("secret " * 1200))
    preview = redact(agent.session, Find("secret"), reason="", dry_run=True)
    store.messages.update(agent, 0, said("secret " * 1201))

    assert redact(agent.session, Find("secret"), reason="", dry_run=True).digest != (preview.digest)


@pytest.mark.parametrize("scope", [Find("secret"), Detect(("email",))])
def test_without_time_a_search_ends_and_writes_nothing(store, agent, scope):
    store.append_many(agent, [said("my secret is ada@example.org " * 50)] * 20)
    before = list(SessionMessage.objects.values())

    with (
        pytest.raises(WorkLimitError, match=r"seconds of processor time. Advice."),
        limit_work(WorkBudget(1e-9, 64 * MB, "Advice.")),
    ):
        redact(agent.session, scope, reason="r")

    assert list(SessionMessage.objects.values()) == before
    assert not AuditEvent.objects.exists()


def test_a_message_that_is_too_large_is_refused_before_it_is_read(store, agent):
    store.append(agent, said("x" * 400_000))

    with (
        CaptureQueriesContext(connection) as captured,
        pytest.raises(WorkLimitError, match="MB of memory"),
        limit_work(WorkBudget(60, 500_000)),
    ):
        redact(agent.session, Find("secret"), reason="", dry_run=True)

    selects = [one["sql"].upper() for one in captured if one["sql"].startswith("SELECT")]
    assert "LENGTH" in selects[-1]


def test_messages_are_read_in_groups_that_fit(store, agent):
    store.append_many(agent, [said("x" * 40_000 + " secret")] * 100)

    with limit_work(WorkBudget(60, 30 * MB)):
        assert redact(agent.session, Find("secret"), reason="r").messages == 100


def test_what_is_kept_until_the_write_counts(store, agent):
    store.append_many(agent, [said("x" * 40_000 + " secret")] * 100)

    with (
        pytest.raises(WorkLimitError, match="MB of memory"),
        limit_work(WorkBudget(60, 8 * MB)),
    ):
        redact(agent.session, Find("secret"), reason="r")


def test_a_letter_is_too_short_to_find(agent):
    for text in ("a", " a ", "\n"):
        with pytest.raises(RedactionScopeError):
            redact(agent.session, Find(text), reason="r")


def test_a_detector_runs_once_however_often_it_is_named():
    assert [detector.name for detector in load(["api_key", "email"] * 50)] == ["api_key", "email"]


def test_a_redaction_checks_its_budget_at_each_fork(store, agent):
    message = store.append(agent, said("secret"))
    session = store.get("s")

    def checks() -> int:
        budget = WorkBudget(seconds=60, memory=MB)
        with limit_work(budget), patch.object(budget, "check", wraps=budget.check) as check:
            redact(session.id, WholeMessage(message.id), reason="", dry_run=True, descendants=True)
        return check.call_count

    before = checks()
    for _ in range(5):
        store.clear(store.agents.list(store.sessions.fork(session))[0])

    assert checks() >= before + 5


def test_what_was_searched_does_not_outlive_a_redaction(store, agent):
    def kept() -> int:
        gc.collect()
        return sum(isinstance(each, Finders) for each in gc.get_objects())

    store.append(agent, said("my secret"))
    before = kept()

    redact(agent.session, Find("secret"), Detect(), reason="r")

    assert kept() == before
