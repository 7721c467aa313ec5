"""``agent_sessions_demo_data``: the same sessions for the same seed, and never by mistake."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_agent_sessions.integrity import Check
from django_agent_sessions.models import Session, SessionMessage, UsageRollup
from django_agent_sessions.store import SessionStore

pytestmark = pytest.mark.django_db


def demo(*arguments: str) -> str:
    out = io.StringIO()
    call_command("agent_sessions_demo_data", *arguments, stdout=out)
    return out.getvalue().strip()


def contents() -> list[tuple[object, ...]]:
    rows = Session.objects.order_by("session_id")
    return list(rows.values_list("session_id", "title", "owner__username", "message_count"))


@pytest.fixture
def debug(settings):
    settings.DEBUG = True


def test_a_site_without_debug_is_filled_with_force_only():
    with pytest.raises(CommandError, match="use --force"):
        demo()
    assert not Session.objects.exists()
    assert not get_user_model().objects.exists()

    assert demo("--force", "--sessions", "1").startswith("1 session created")


def test_sessions_have_owners_titles_past_times_tokens_and_no_damage(debug):
    assert demo("--sessions", "30", "--users", "3") == (
        "30 sessions created in the namespace 'demo'"
    )

    now = timezone.now()
    assert set(Session.objects.values_list("namespace", flat=True)) == {"demo"}
    owners = {session.owner for session in Session.objects.select_related("owner")}
    assert {owner.username for owner in owners if owner} == {"demo-1", "demo-2", "demo-3"}
    assert not any(owner.has_usable_password() for owner in owners if owner)
    for session in Session.objects.all():
        assert session.title
        assert session.message_count >= 2
        assert session.output_tokens is not None
        assert now - timedelta(days=60) <= session.created_at < session.last_activity_at < now
    assert set(SessionMessage.objects.values_list("agent__dialect", flat=True)) == {
        "openai",
        "strands",
    }
    assert UsageRollup.objects.exists()
    assert list(Check().run()) == []


def test_the_same_seed_adds_nothing_and_another_one_other_sessions(debug):
    demo("--sessions", "10")
    first = contents()
    assert demo("--sessions", "12") == "2 sessions created in the namespace 'demo', 10 existed"
    assert contents()[:1] == first[:1]
    assert set(first) <= set(contents())

    assert demo("--sessions", "5", "--seed", "1").startswith("5 sessions")
    Session.objects.filter(namespace="demo").delete()
    demo("--sessions", "10")
    assert contents() == first


def test_without_users_the_sessions_have_no_owner(debug):
    demo("--sessions", "2", "--users", "0")

    assert not get_user_model().objects.exists()
    assert len(SessionStore(namespace="demo").sessions.list()) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sessions", "10001"],
        ["--sessions", "0"],
        ["--sessions", "-1"],
        ["--users", "1001"],
        ["--users", "x"],
    ],
)
def test_the_numbers_are_bounded(debug, arguments):
    with pytest.raises(CommandError, match="use a whole number from"):
        demo(*arguments)
    assert not Session.objects.exists()
