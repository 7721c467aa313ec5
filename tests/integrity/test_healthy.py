"""What is whole is told to be whole, whatever it is."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.governance.erasure import erase
from django_agent_sessions.governance.retention import prune
from django_agent_sessions.integrity import checker
from django_agent_sessions.models import Session, SessionAgent, SessionMessage, UsageRollup
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import id_for_time
from django_agent_sessions.values.records import NewMessage, TurnCost, Usage

from .healthy import everything, said, talk
from .running import check, codes, told

pytestmark = pytest.mark.django_db

AGENTS = pytest.mark.django_db(transaction=True)


@AGENTS
def test_all_that_conversations_can_be_is_whole(store, tmp_path, blob_folder):
    everything(store, tmp_path)

    found, summary = check("--blobs")

    assert [finding for finding in found if finding["severity"] != "note"] == []
    assert summary["sessions"] == Session.objects.count() >= 20
    assert summary["messages"] == SessionMessage.objects.count()


@AGENTS
def test_mending_what_is_whole_changes_nothing(store, tmp_path, blob_folder):
    everything(store, tmp_path)
    before = list(SessionMessage.objects.order_by("pk").values())
    sessions = list(Session.objects.order_by("pk").values())

    check("--fix", "--blobs")

    assert list(SessionMessage.objects.order_by("pk").values()) == before
    assert list(Session.objects.order_by("pk").values()) == sessions


def test_an_empty_database_is_whole():
    assert told() == "0 sessions and 0 messages checked\nno errors or warnings\n"


def test_only_the_sessions_that_are_named_are_looked_at(store):
    for name in ("one", "two"):
        talk(store, name)
    key = store.get("two").id
    Session.objects.update(message_count=7)

    assert codes("one") == ["counters"]
    assert codes("one", key) == ["counters", "counters"]
    assert codes("--namespace", "") == ["counters", "counters"]
    assert codes("--fail-fast") == ["counters"]
    with pytest.raises(CommandError, match="session 'three' does not exist"):
        told("three")
    with pytest.raises(CommandError, match="namespace 'elsewhere' has no sessions"):
        told("--namespace", "elsewhere")


def test_people_read_codes_places_and_sums_and_never_content(store):
    agent = talk(store)
    plant = SessionMessage.objects.filter(agent=agent.id, message_id=1)
    plant.update(text="planted secret", role="user")
    out = io.StringIO()

    with pytest.raises(CommandError, match="1 finding left") as failure:
        call_command("agent_sessions_check", stdout=out)

    assert failure.value.returncode == 1
    assert out.getvalue().splitlines() == [
        "warning neutral-columns: role, text or figures do not match the payload (text) "
        f"session {agent.session} agent {agent.id} branch 0 position 1 row {plant.get().pk}",
        "1 session and 5 messages checked",
        "      1 warning neutral-columns: role, text or figures do not match the payload",
    ]
    assert "planted" not in out.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_it_came(store):
    talk(store)
    shown = Terminal()

    call_command("agent_sessions_check", stdout=io.StringIO(), stderr=shown)

    assert "0/1, 5 messages" in shown.getvalue()
    assert shown.getvalue().endswith("\r")


def test_a_turn_that_may_be_under_way_is_no_fault(store):
    agent = store.agents.open(store.open("busy"))
    store.append(agent, {"role": "user", "content": "one"}, count=False)

    assert "no errors or warnings (-v 2 lists the notes)" in told()
    assert "note    counting: " in told("-v", 2)
    assert "message_count" in told("-v", 2)
    assert codes() == ["counters"]


def statements(*arguments: object) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        check(*arguments)
    return len(captured)


def many(name: str, sessions: int, each: int) -> None:
    now = timezone.now() - timedelta(days=1)
    for number in range(sessions):
        session = Session.objects.create(session_id=f"{name}-{number}", message_count=each)
        agent = SessionAgent.objects.create(session=session, agent_id="a", dialect="openai")
        SessionMessage.objects.bulk_create(
            SessionMessage(
                id=id_for_time(now, position),
                session=session,
                agent=agent,
                message_id=position,
                message={"role": "user", "content": "x"},
                role="user",
                text="x",
                created_at=now,
            )
            for position in range(each)
        )


def test_statements_are_counted_by_pieces_and_not_by_rows(db):
    many("few", 2, 5)
    few = statements()
    many("more", 98, 2)

    assert statements() <= few + 2
    many("long", 1, 2000)
    # 500 sizes, and then their payloads, are a statement each.
    assert statements() <= few + 2 + 20 + 4 * 3


def test_many_sessions_with_findings_are_checked_again_together(db):
    many("few", 2, 5)
    SessionMessage.objects.update(role="wrong")
    few = statements()
    many("more", 98, 5)
    SessionMessage.objects.update(role="wrong")

    found, _ = check()

    assert len(found) == 500
    assert {finding["code"] for finding in found} == {"neutral-columns"}
    assert statements() <= few + 2


def test_no_more_messages_are_locked_together_than_of_one_session(db, monkeypatch):
    monkeypatch.setattr(checker, "_MAX_LOCKED_MESSAGES", 10)
    many("s", 6, 4)
    SessionMessage.objects.update(role="wrong")
    with CaptureQueriesContext(connection) as captured:
        found, _ = check()

    assert len(found) == 24
    begins = [query for query in captured if query["sql"].startswith("SAVEPOINT")]
    assert len(begins) == 3


@AGENTS
def test_usage_that_turns_repeat_is_not_counted_twice(store):
    agent = store.agents.open(store.open("talk"), "a", dialect="openai")
    answer = NewMessage(
        {"role": "assistant", "content": "Yes"}, usage=Usage(input_tokens=100, output_tokens=5)
    )
    store.append_many(agent, [{"role": "user", "content": "Is it?"}, answer])
    store.turns.save_cost(agent, TurnCost(requests=1, input_tokens=100, output_tokens=7))
    before = Session.objects.values_list("input_tokens", "output_tokens").get()

    assert codes("--fix") == []
    # The messages, and what only the turn has.
    assert Session.objects.values_list("input_tokens", "output_tokens").get() == before == (100, 7)
    # What a turn has more than its messages stays counted if messages go.
    store.branches.rewind(agent, 0)
    assert codes("--fix") == []
    Session.objects.update(input_tokens=99)
    assert codes("--fix") == ["counters"]
    assert Session.objects.get().input_tokens == 100


@AGENTS
def test_figures_of_which_an_erasure_deleted_a_persons_are_whole(ada, bob):
    for owner in (ada, bob):
        store = SessionStore(owner=owner)
        session = store.open(f"of {owner}")
        store.append(store.agents.open(session, "a", dialect="strands"), said("Hello"))
    usage.roll_up(until=timezone.now() + timedelta(seconds=1))

    for owner in (ada, bob):
        erase(owner, reason="asked for")

        assert codes() == []
    of_owners = UsageRollup.objects.filter(dimension="owner")
    assert list(of_owners.values_list("key", "sessions", "messages")) == [("", 2, 2)]
    of_owners.update(messages=1)
    assert codes() == ["usage"]


@AGENTS
@pytest.mark.parametrize("keep_messages", [True, False])
@pytest.mark.parametrize("days", [1, 20, 40])
def test_figures_that_exceeded_their_lifetime_are_whole(store, settings, days, keep_messages):
    now = timezone.now()
    for age in range(0, 60, 2):
        agent = talk(store, f"{age} days ago")
        moment = now - timedelta(days=age)
        for place, row in enumerate(SessionMessage.objects.filter(agent=agent.id)):
            values = {"id": id_for_time(moment, age * 10 + place), "created_at": moment}
            SessionMessage.objects.filter(pk=row.pk).update(**values)
    usage.rebuild(until=now + timedelta(seconds=1))
    assert codes() == []
    if not keep_messages:
        Session.objects.all().delete()
    settings.AGENT_SESSIONS = {"RETENTION": {"USAGE": timedelta(days=days)}}

    prune()

    assert UsageRollup.objects.exists()
    assert codes() == []
    settings.AGENT_SESSIONS = {}
    assert codes() == []
    UsageRollup.objects.filter(dimension="day").order_by("-period")[:1].get().delete()
    assert codes() != []


@AGENTS
def test_a_redaction_leaves_the_flag_of_an_error_whatever_its_version_tells(store):
    agent = talk(store)
    store.append(agent, _result("error"))
    store.messages.redact(agent, 0, _result("error"))
    store.messages.redact(agent, 5, _result("success"))
    flags = list(
        SessionMessage.objects.order_by("message_id").values_list("message_id", "has_error")
    )
    assert [position for position, has_error in flags if has_error] == [5]

    found, _ = check("--fix")

    assert {finding["code"] for finding in found} == {"orphan-result"}
    rows = SessionMessage.objects.order_by("message_id")
    assert list(rows.values_list("message_id", "has_error")) == flags
    assert Session.objects.get().error_count == 1


def _result(status: str) -> dict[str, object]:
    result = {"toolUseId": "t", "status": status, "content": [{"text": "what was found"}]}
    return {"role": "user", "content": [{"toolResult": result}]}
